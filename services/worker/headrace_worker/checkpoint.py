"""What an attempt saves for the next one: the agent's own data, and how far its ids have come."""

from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import Any

import orjson

from headrace.sdk.errors import MalformedOutput

MOST = 8 * 1024
"""Bytes of JSON that an agent may save."""

_PLAIN, _CODED = "data", "data64"
"""A header is ASCII: data that is not stands there in base64."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint as it stands in a header."""

    data: Any = None
    """JSON of the agent's choice."""
    ids: dict[str, int] = field(default_factory=dict)
    """How many ids of each kind the run has minted."""
    index: int = 0
    """Index of the run's next block."""

    def encode(self) -> str:
        """Return the header's value: ASCII, as headers want it.

        Raises:
            MalformedOutput: the data is not JSON, or exceeds `MOST`.
        """
        try:
            data = orjson.dumps(self.data)
        except TypeError as error:
            raise MalformedOutput(f"a checkpoint holds what is not JSON: {error}") from error
        if len(data) > MOST:
            raise MalformedOutput(f"a checkpoint of {len(data)} bytes exceeds the limit of {MOST}")
        kept = {_PLAIN: self.data} if data.isascii() else {_CODED: b64encode(data).decode()}
        return orjson.dumps({**kept, "ids": self.ids, "index": self.index}).decode()


def decode(header: str | None) -> Checkpoint:
    """Return what the header holds; nothing, if an agent elsewhere wrote its own there."""
    try:
        held = orjson.loads(header or "null")
        data = orjson.loads(b64decode(held[_CODED])) if _CODED in held else held[_PLAIN]
        return Checkpoint(data, dict(held["ids"]), int(held["index"]))
    except (KeyError, TypeError, ValueError):
        return Checkpoint()
