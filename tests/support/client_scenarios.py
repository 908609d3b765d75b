"""Scenarios for the official A2A clients in all languages, with the expected results."""

from dataclasses import asdict, dataclass
from typing import Any

BINDINGS = ["JSONRPC", "HTTP+JSON", "GRPC"]
"""Those that a client is made for; each of the official ones has them all."""

type Outcomes = dict[str, Any]
"""What came of each scenario, by name: a list, or a text that says what went wrong."""

_UNKNOWN, _OVER = "TaskNotFoundError", "TaskNotCancelableError"
_UNSUPPORTED, _NOT_HERE = "UnsupportedOperationError", "ExtendedAgentCardNotConfiguredError"
_INPUT, _DONE, _CANCELED = (
    f"TASK_STATE_{state}" for state in ("INPUT_REQUIRED", "COMPLETED", "CANCELED")
)

EXPECTED: Outcomes = {
    "send": [_DONE, "1 2 3 4 "],
    "stream": ["TASK_STATE_SUBMITTED", _DONE, "1 2 3 4 5 "],
    # Left after two numbers, found again at the other gateway: the task first, no number missing.
    "resubscribe": ["task", True, True, _CANCELED],
    "cancel": [_CANCELED, _CANCELED],
    "followUp": [_INPUT, "Who are you?", _DONE, "Hello, Ada!", True],
    # The webhook, its secret withheld, and which are left; what it was told is the test's to see.
    "push": [True, "", ["kept"]],
    "list": [True, 2, ""],
    # Where nobody is known, and to somebody who is. (Clients may not ask an agent without.)
    "extendedCard": [_NOT_HERE, "Knows who asks."],
    # Read, cancel and continue what is not there; cancel and follow what is over.
    "errors": [_UNKNOWN, _UNKNOWN, _UNKNOWN, _OVER, _UNSUPPORTED],
}
"""The scenarios and their outcomes, the same in every language and over every binding."""


@dataclass(frozen=True)
class Order:
    """What a driver of the scenarios is told."""

    here: str
    there: str
    """URLs of two gateways of one fleet, which know nobody."""
    known: str
    """URL of another, which knows who has `token`."""
    token: str
    binding: str
    hook: str
    """URL of a webhook."""

    @property
    def json(self) -> dict[str, str]:
        """The order as a driver in another language reads it."""
        return asdict(self)
