"""What an agent asks another one."""

import secrets
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from headrace.delegation import earliest
from headrace.events import Json
from headrace_worker.delegation.errors import DelegationRefused
from headrace_worker.delegation.parent import Parent


@dataclass(frozen=True, slots=True)
class Question:
    """A message to an agent, and the bounds of its answer."""

    agent: str
    message: Json
    """An A2A v1.0 Message."""
    relay: bool = True
    """Whether what the child says goes into the parent's log."""
    deadline: datetime | None = None
    budget: int | None = None
    into: str | None = None
    """The waiting child that this answers."""

    def within(self, parent: Parent, timeout: float | None) -> "Question":
        """Return it with the deadline and the budget that its parent leaves it.

        Raises:
            DelegationRefused: the parent's budget is used up.
        """
        own = datetime.now(UTC) + timedelta(seconds=timeout) if timeout is not None else None
        left = parent.tokens_left
        if left == 0:
            raise DelegationRefused(self.agent, "budget", "the budget of tokens is used up")
        wanted = [tokens for tokens in (left, self.budget) if tokens is not None]
        deadline = earliest(parent.deadline, own)
        return replace(self, deadline=deadline, budget=min(wanted, default=None))


def message_of(agent: str, asked: Any) -> Json:  # noqa: ANN401  # whatever an agent writes there
    """Return the A2A Message that asks it: `asked`, or one with that text.

    Raises:
        DelegationRefused: it is neither a text nor a Message with parts.
    """
    said: Json = {"parts": [{"text": asked}]} if isinstance(asked, str) else asked
    if not (isinstance(asked, str | dict) and said.get("parts")):
        raise DelegationRefused(agent, "bad_request", "a message is a text, or has parts")
    try:
        orjson.dumps(said)
    except TypeError as error:
        raise DelegationRefused(agent, "bad_request", f"the message is no JSON: {error}") from None
    return said


def with_id(message: Json) -> Json:
    """Return the message with an id, if it has none."""
    return {"messageId": f"msg-{secrets.token_hex(8)}", **message}
