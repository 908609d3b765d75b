"""Checkpoints: the agent's own data and the run's id counters, saved for the next attempt."""

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import Any

from headrace.model import json_text
from headrace.model.step import StepId
from headrace.sdk.errors import MalformedOutput

MOST = 8 * 1024
"""Maximum bytes of JSON in a checkpoint."""

_MOST_IN_ALL = 15 * 1024
"""Maximum bytes of the header, which shares its message's 16 KB with others."""

_PLAIN, _CODED = "data", "data64"
"""Headers are ASCII without tabs: other data is stored as base64."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint, as stored in a header."""

    data: Any = None
    """JSON chosen by the agent."""
    ids: dict[str, int] = field(default_factory=dict)
    """Number of ids of each kind that the run has generated."""
    index: int = 0
    """Index of the run's next block."""
    steps: list[StepId] = field(default_factory=list)
    """The recorded steps that the attempt had not asked for yet."""

    def encode(self) -> str:
        """Return the header's value, in ASCII.

        Raises:
            MalformedOutput: the data is not JSON, or exceeds `MOST`; or there are too many names of
                ids, or steps, to save.
        """
        try:
            data = json_text.encode(self.data)
        except TypeError as error:
            raise MalformedOutput(f"a checkpoint must be JSON: {error}") from error
        if len(data) > MOST:
            raise MalformedOutput(f"a checkpoint of {len(data)} bytes exceeds the limit of {MOST}")
        is_plain = data.isascii() and json_text.EXACT not in data
        kept = {_PLAIN: self.data} if is_plain else {_CODED: b64encode(data).decode()}
        steps = {"steps": json.dumps(self.steps)} if self.steps else {}
        header = json_text.encode({**kept, "ids": self.ids, "index": self.index, **steps})
        if len(header) > _MOST_IN_ALL:
            raise MalformedOutput(
                f"a checkpoint with {len(self.ids)} names of ctx.random and ctx.uuid, and with"
                f" {len(self.steps)} recorded steps that were not asked for yet, is"
                f" {len(header)} bytes and exceeds the limit of {_MOST_IN_ALL}; draw many values"
                " from one ctx.random(), and ask for steps before the checkpoint that follows them"
            )
        return header.decode()


def decode(header: str | None) -> Checkpoint:
    """Parse a header; a value that Headrace did not write results in an empty checkpoint."""
    try:
        held = json_text.decode(header or "null")
        data = json_text.decode(b64decode(held[_CODED])) if _CODED in held else held[_PLAIN]
        steps = [(str(name), use) for name, use in json.loads(held.get("steps", "[]"))]
        return Checkpoint(data, dict(held["ids"]), int(held["index"]), steps)
    except (KeyError, TypeError, ValueError):
        return Checkpoint()
