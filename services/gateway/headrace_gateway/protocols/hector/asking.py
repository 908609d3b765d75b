"""How a client asks for a form of Hector's, and how it says where it was."""

import re
from typing import NamedTuple, Self

from starlette.requests import HTTPConnection

MEDIA_TYPES = ("application/x-agui-events", "application/agui+json")
"""Either in `Accept` asks for the dialect; so does ``?format=agui``."""

_CURSOR = re.compile(r"([0-9a-z]{4,16}):([1-9][0-9]{0,17})\.(0|[1-9][0-9]{0,8})")


def asks_for_it(request: HTTPConnection) -> bool:
    """Tell whether the client wants the dialect instead of A2A's own events."""
    if request.query_params.get("format") == "agui":
        return True
    accept = ",".join(request.headers.getlist("accept")).lower()
    return any(media_type in accept for media_type in MEDIA_TYPES)


def asks_for_shapes(request: HTTPConnection) -> bool:
    """Tell whether the client wants answers in the shapes of Hector's A2A."""
    return request.query_params.get("format") == "hector"


def asks_for_done(request: HTTPConnection) -> bool:
    """Tell whether the client wants its streams to end with ``data: [DONE]``."""
    return request.query_params.get("done") == "1"


class Place(NamedTuple):
    """Behind which event of the dialect a client wants to go on."""

    log: str
    generation: int
    number: int

    @classmethod
    def parse(cls, cursor: str) -> Self | None:
        """Return what `cursor` says; None: it is none of this dialect's."""
        found = _CURSOR.fullmatch(cursor)
        return cls(found[1], int(found[2]), int(found[3])) if found else None

    @property
    def before(self) -> str:
        """The A2A cursor behind which all that is missing comes, and perhaps more."""
        return f"{self.log}:{max(self.generation - 1, 1)}"
