"""Steps of a run: work that is done once, and whose result each attempt gets.

A record is a header of the entry, which no client sees; the entry's last event shows the step.
"""

import json
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from headrace.model.events import STEP, Json

type StepId = tuple[str, int | str]
"""Its name within the run, and the number of the name's use, from 0, or the key that names the
use."""

MOST_IN_HEADER = 8 * 1024
"""Maximum bytes of a result in the log, with the step's name and key, as ASCII JSON; a larger one
becomes a file of the task."""

STARTED, COMPLETED, FAILED = "started", "completed", "failed"
"""States of a step that is shown."""


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What a step resulted in: a value, which may be in a file, or an error."""

    id: StepId
    value: str | None = None
    """The result's JSON. None: it is in a file, or the step failed."""
    link: str = ""
    """The file's link."""
    error: tuple[str, str] | None = None
    """The error's class, and its message."""
    arguments: str = ""
    """Digest of the arguments; empty: unknown."""
    in_order: bool = False
    """Whether the same code asks for the same steps before it: it was called by the agent's own
    asyncio task, and no failure was handled before."""
    generation: int = field(default=0, compare=False)
    """Of the event that stands for it; 0: it is not stored yet."""

    def encode(self) -> str:
        """Return the header's value, in ASCII."""
        held: Json = {"name": self.id[0], "use": self.id[1]}
        if self.link:
            held["link"] = self.link
        if self.error is not None:
            held["error"] = {"type": self.error[0], "message": self.error[1]}
        if self.arguments:
            held["arguments"] = self.arguments
        if self.in_order:
            held["inOrder"] = True
        # Not `json_text`: results have numbers that only Python's JSON has, and headers are ASCII.
        head = json.dumps(held)
        return head if self.value is None else f'{head[:-1]}, "value": {self.value}}}'

    @classmethod
    def decode(cls, header: str, generation: int) -> Self | None:
        """Parse a header of the entry whose last event has `generation`. None: it is malformed."""
        try:
            held = json.loads(header)
            name, use = held["name"], held["use"]
            error = held.get("error")
            if not isinstance(name, str) or type(use) not in {int, str}:
                return None
            return cls(
                (name, use),
                json.dumps(held["value"]) if "value" in held else None,
                str(held.get("link", "")),
                None if error is None else (str(error["type"]), str(error["message"])),
                str(held.get("arguments", "")),
                held.get("inOrder") is True,
                generation,
            )
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
            return None


class ShownStep(NamedTuple):
    """What clients see of a step."""

    name: str
    state: str
    """`STARTED`, `COMPLETED` or `FAILED`."""
    seconds: float | None = None
    """How long it took; None: it has only started, or failed without a record."""

    def metadata(self) -> Json:
        """Return the metadata of the event that shows it."""
        shown: Json = {"name": self.name, "state": self.state}
        if self.seconds is not None:
            shown["seconds"] = round(self.seconds, 6)
        return {STEP: shown}

    @classmethod
    def of(cls, metadata: Json) -> Self | None:
        """Return the step that an event with this metadata shows. None: it shows none."""
        match metadata.get(STEP):
            case {"name": str(name), "state": str(state), "seconds": int() | float() as seconds}:
                return cls(name, state, seconds)
            case {"name": str(name), "state": str(state)}:
                return cls(name, state)
        return None
