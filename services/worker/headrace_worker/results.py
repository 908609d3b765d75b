"""Files and data that an agent made, as parts."""

from headrace.model import parts
from headrace.model.events import Json
from headrace_worker.emission import Data, File
from headrace_worker.errors import MalformedOutput


def result_part(said: File | Data) -> Json:
    """Return the part.

    Raises:
        MalformedOutput: a file has neither content nor address, or both.
    """
    if isinstance(said, Data):
        return parts.data_part(said.data, said.media_type)
    if (said.content is None) == (not said.url):
        raise MalformedOutput("a file needs either its content or its address")
    if said.content is None:
        return parts.link_part(said.url, said.name, said.media_type)
    return parts.file_part(said.content, said.name, said.media_type)
