"""The question that an agent asks another agent."""

import re
import secrets
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from headrace.model.asked_message import why_no_message
from headrace.model.delegation import earliest
from headrace.model.errors import InvalidName
from headrace.model.events import Json
from headrace.model.names import check_agent_name
from headrace.sdk.errors import DelegationRefused
from headrace_worker.delegation.parent import Parent

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_BY_URL = (
    "agents elsewhere are asked by name too: serve this one with remote_agent(…), or as type a2a"
    " in headrace.yaml"
)
_SHOWN = 200
"""Maximum characters of an invalid agent name in an error message."""


@dataclass(frozen=True, slots=True)
class Question:
    """A message to an agent, with the limits for its answer."""

    agent: str
    message: Json
    """An A2A v1.0 Message."""
    relay: bool = True
    """Whether the child's output is relayed to the parent's log."""
    deadline: datetime | None = None
    budget: int | None = None
    into: str | None = None
    """Task id of the waiting child that this answers."""

    def within(self, parent: Parent, timeout: float | None) -> "Question":
        """Return the question with its deadline and budget limited to the parent's.

        Raises:
            DelegationRefused: the parent's budget is used up.
        """
        own = datetime.now(UTC) + timedelta(seconds=timeout) if timeout is not None else None
        left = parent.tokens_left
        if left == 0:
            raise DelegationRefused(self.agent, "budget", "the token budget is exhausted")
        wanted = [tokens for tokens in (left, self.budget) if tokens is not None]
        deadline = earliest(parent.deadline, own)
        return replace(self, deadline=deadline, budget=min(wanted, default=None))


def name_of(asked: Any) -> str:  # noqa: ANN401  # any value that an agent passes
    """Return the name of the agent to ask.

    Raises:
        DelegationRefused: `asked` is not a valid name and has none, or is a URL.
    """
    name = asked if isinstance(asked, str) else getattr(asked, "name", None)
    if not isinstance(name, str):
        reason = "an agent is asked by its name, or as an Agent"
        raise DelegationRefused(repr(asked)[:_SHOWN], "bad_request", reason)
    if _URL.match(name):
        raise DelegationRefused(name[:_SHOWN], "agent_unknown", _BY_URL)
    try:
        return check_agent_name(name)
    except InvalidName as error:
        raise DelegationRefused(name[:_SHOWN], "agent_unknown", str(error)) from None


def message_of(agent: str, asked: Any) -> Json:  # noqa: ANN401  # any value that an agent passes
    """Return `asked` as an A2A Message; a string becomes its text.

    Raises:
        DelegationRefused: it is neither a string nor a Message with parts.
    """
    said: Json = {"parts": [{"text": asked}]} if isinstance(asked, str) else asked
    if not isinstance(said, dict):
        raise DelegationRefused(agent, "bad_request", "a message must be text or have parts")
    if (why := why_no_message(said)) is not None:
        raise DelegationRefused(agent, "bad_request", why)
    try:
        orjson.dumps(said)
    except TypeError as error:
        raise DelegationRefused(agent, "bad_request", f"the message is no JSON: {error}") from None
    return said


def with_id(message: Json) -> Json:
    """Return the message with an id; an existing one is kept."""
    return {"messageId": f"msg-{secrets.token_hex(8)}", **message}
