"""A message of an agent, part by part."""

from headrace.model import parts
from headrace.model.events import Json
from headrace_gateway.protocols.agui.part_events import PartEvents, is_answer


def utter(said: PartEvents, message: Json, name: str, *, final: bool) -> None:
    """Say a message called `name`; where it is the `final` one, notices are answers.

    Raises:
        ValueError, KeyError, TypeError: a part is not what its metadata says.
    """
    rest = []
    for part in message.get("parts", []):
        if not said.say(part, name):
            rest.append(part)
        elif is_answer(part) and not parts.event_type(part):
            # Said in one go by an agent that knows no blocks.
            said.text.end(parts.block_id(part) or name)
    notice = "".join(part["text"] for part in rest if _is_notice(part))
    if notice and final:
        said.text.say(name, notice)
        said.text.end(name)
    elif notice:
        said.activities.status(name, notice)
    if files := [part for part in rest if not _is_notice(part)]:
        said.activities.artifact({"artifactId": name, "parts": files}, append=False)


def _is_notice(part: Json) -> bool:
    return "text" in part and not part.get("filename")
