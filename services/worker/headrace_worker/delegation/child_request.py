"""The request of one agent to another."""

import logging
import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from headrace import clock
from headrace.model import json_text
from headrace.model.delegation import earliest, why_no_message
from headrace.model.errors import InvalidName
from headrace.model.events import Json
from headrace.model.subjects import check_agent_name
from headrace.sdk.errors import DelegationRefused
from headrace.sdk.results import DelegationRequest
from headrace_worker.delegation.parent import Parent

_log = logging.getLogger(__name__)

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_BY_URL = (
    "a URL is not an agent name; serve the remote agent with remote_agent(…), or as type: a2a"
    " in headrace.yaml"
)
_CHILDS_OWN = frozenset({"taskId", "contextId"})
"""Message fields that name the child itself."""

_SHOWN = 200
"""Maximum characters of an invalid agent name in an error message."""


@dataclass(frozen=True, slots=True)
class ChildRequest:
    """A message to an agent, with the limits for its answer."""

    agent: str
    message: Json
    """An A2A v1.0 Message."""
    key: str | None = None
    """Identifies the child across attempts; None: its message does."""
    relay: bool = True
    """Whether the child's output is relayed to the parent's log."""
    deadline: datetime | None = None
    budget: int | None = None
    into: str | None = None
    """Task id of the waiting child that this answers."""

    @classmethod
    def of(cls, request: DelegationRequest, parent: Parent) -> "ChildRequest":
        """Return the request that an agent makes, checked, with the parent's limits.

        Raises:
            DelegationRefused: the agent's name or the message is invalid, or the parent's budget is
                used up.
        """
        agent = _name_of(request.agent)
        child = cls(agent, _message_of(agent, request.message, parent), request.key, request.relay)
        return child._within(parent, request.timeout, request.budget)  # its own

    @classmethod
    def answering(cls, task: str, answer: DelegationRequest, parent: Parent) -> "ChildRequest":
        """Return the answer to the child `task`, which waits for input; otherwise as `of`."""
        request = cls.of(answer, parent)
        message = {key: value for key, value in request.message.items() if key not in _CHILDS_OWN}
        return replace(request, message=message, into=task)

    def _within(self, parent: Parent, timeout: float | None, budget: int | None) -> "ChildRequest":
        own = clock.now() + timedelta(seconds=timeout) if timeout is not None else None
        left = parent.ctx.tokens_left
        if left == 0:
            raise DelegationRefused(self.agent, "budget", "the token budget is exhausted")
        wanted = [tokens for tokens in (left, budget) if tokens is not None]
        deadline = earliest(parent.ctx.deadline, own)
        return replace(self, deadline=deadline, budget=min(wanted, default=None))


def _name_of(agent: Any) -> str:  # noqa: ANN401  # any value that an agent passes
    """Return the name of the agent to ask.

    Raises:
        DelegationRefused: `agent` is not a valid name and has none, or is a URL.
    """
    name = agent if isinstance(agent, str) else getattr(agent, "name", None)
    if not isinstance(name, str):
        reason = "pass an agent's name or an Agent"
        raise DelegationRefused(repr(agent)[:_SHOWN], "bad_request", reason)
    if _URL.match(name):
        raise DelegationRefused(name[:_SHOWN], "agent_unknown", _BY_URL)
    try:
        return check_agent_name(name)
    except InvalidName as error:
        raise DelegationRefused(name[:_SHOWN], "agent_unknown", str(error)) from None


def _message_of(
    agent: str,
    content: Any,  # noqa: ANN401  # any value that an agent passes
    parent: Parent,
) -> Json:
    """Return `content` as an A2A Message; a string becomes its text.

    Raises:
        DelegationRefused: it is neither a string nor a Message with parts.
    """
    message: Json = {"parts": [{"text": content}]} if isinstance(content, str) else content
    if not isinstance(message, dict):
        raise DelegationRefused(agent, "bad_request", "a message must be text or have parts")
    if (why := why_no_message(message)) is not None:
        raise DelegationRefused(agent, "bad_request", why)
    try:
        written = json_text.encode(message)
    except TypeError as error:
        raise DelegationRefused(
            agent, "bad_request", f"the message must be JSON: {error}"
        ) from None
    if (lost := json_text.lost_number(message, written, "message")) is not None:
        text = "task %s: to %s, %s is %s, which JSON does not have: null is sent"
        _log.warning(text, parent.ctx.key.task, agent, *lost)
    # What every reader of the request will find.
    return dict(json_text.decode(written))
