"""The stream of one tool call: progress, questions and the result, all from the log.

A client of a revision with a handshake may come back with the id of the last event that it has. The
id contains what the stream needs, so that any gateway continues it.
"""

import base64
import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from mcp_types import INTERNAL_ERROR

from headrace.model import json_text
from headrace.model.entry import Entry
from headrace.model.events import Json
from headrace.model.fold import TaskFold
from headrace.model.parts import text_of, tool_call, words_of
from headrace.model.task import INPUT_REQUIRED
from headrace_gateway.feeds import FeedBlock
from headrace_gateway.protocols.mcp.messages import MODERN, PRIMING, McpRequest, RpcId
from headrace_gateway.protocols.mcp.questions import AgentQuestion
from headrace_gateway.protocols.mcp.results import handle_of, result_of
from headrace_gateway.streaming.renderer import Cause, Interruption, Messages, Renderer
from headrace_gateway.streaming.sse import frame

_SEPARATOR = ":"
_LARGEST_ID = 2048
_GENERATION = re.compile(r"[0-9]{1,18}")

type Place = tuple[str, str, str]
"""An agent's name, a task's id, and the id of its log."""


@dataclass(frozen=True, slots=True)
class CallStream:
    """What a stream of a call needs to know besides the log."""

    place: Place
    request: RpcId
    """The id of the request that the last message answers."""
    token: RpcId | None
    """The token of progress notifications; None: the client wants none."""
    elicits: bool
    version: str
    after: int = 0
    """The generation up to which the client has received the stream."""

    @classmethod
    def of(cls, request: McpRequest, place: Place, after: int = 0) -> Self:
        """Return the stream that answers `request`, without progress up to generation `after`."""
        token, elicits = request.progress_token, request.elicits
        return cls(place, request.id, token, elicits, request.version, after)

    @classmethod
    def resumed(cls, event_id: str) -> Self | None:
        """Return the stream after the event of that id; None: the id is none of ours."""
        if len(event_id) > _LARGEST_ID:
            return None
        try:
            found = json_text.decode(base64.urlsafe_b64decode(event_id + "=="))
        except (ValueError, binascii.Error):
            return None
        match found:
            case [
                str(agent), str(task), str(log), str() | int() as request,
                str() | int() | None as token, bool(elicits), str(version), int(after),
            ]:  # fmt: skip
                return cls((agent, task, log), request, token, elicits, version, after)
        return None

    def event_id(self, generation: int) -> str:
        """Return the id of the event after which the stream continues behind `generation`."""
        content = [*self.place, self.request, self.token, self.elicits, self.version, generation]
        return base64.urlsafe_b64encode(json_text.encode(content)).decode().rstrip("=")

    @property
    def is_modern(self) -> bool:
        """Whether the stream is of the newest revision, whose events have no ids."""
        return self.version == MODERN

    @property
    def handle(self) -> str:
        """The task's id for MCP's clients."""
        return handle_of(*self.place[:2])

    def event(self, message: Json, generation: int) -> bytes:
        """Return an event with a JSON-RPC message."""
        data = json_text.encode({"jsonrpc": "2.0", **message})
        return b"data: %b\n\n" % data if self.is_modern else frame(self.event_id(generation), data)

    def question_id(self, question: AgentQuestion) -> str:
        """Return the id of the request that shows a question: the response names its task by it."""
        return _SEPARATOR.join((*self.place[:2], str(question.generation)))


def asked_in(request_id: RpcId) -> tuple[str, str, int] | None:
    """Return agent, task and generation of the question with that id; None: it is none of ours."""
    match str(request_id).split(_SEPARATOR):
        case [agent, task, generation] if _GENERATION.fullmatch(generation):
            return agent, task, int(generation)
    return None


def question_in(entry: Entry) -> AgentQuestion | None:
    """Return the question with which the entry ends; None if it ends with none."""
    if entry.stamp.state != INPUT_REQUIRED:
        return None
    return AgentQuestion.of(entry.events[-1], entry.last_generation)


class CallRenderer(Renderer):
    """Renders the log of a call's task for one client."""

    __slots__ = ("_fold", "_newest", "_stream")

    def __init__(self, stream: CallStream) -> None:
        """Render what follows the place up to which the client has received `stream`."""
        self._stream, self._fold = stream, TaskFold()
        self._newest: Entry | None = None

    def opening(self) -> Messages:
        """Return the event that a client without any other can come back with."""
        stream = self._stream
        if stream.version != PRIMING or stream.after:
            return ()
        return (b"id: %b\ndata: \n\n" % stream.event_id(0).encode(),)

    def render(self, blocks: Sequence[FeedBlock], after: int) -> Messages:  # noqa: ARG002 - the fold needs all entries
        """Return progress, and the question if the newest entry asks one that the client shows."""
        messages = list[bytes]()
        for block in blocks:
            entry = self._newest = block.entry
            self._fold.apply_entry(entry)
            if self._stream.token is not None and entry.last_generation > self._stream.after:
                messages += self._progress(entry)
        question = self._question() if self._shows_questions else None
        if question is not None and question.generation > self._stream.after:
            request = {"id": self._stream.question_id(question), **question.elicitation()}
            messages.append(self._stream.event(request, question.generation))
            self._stream = replace(self._stream, after=question.generation)
        return messages

    def is_over(self, *, run_ended: bool) -> bool:
        """Return whether the call is over: a question that the client shows does not end it."""
        return run_ended and not (self._shows_questions and self._question() is not None)

    def ending(self) -> Messages:
        """Return the result."""
        if not self._fold.generation:
            return self._failed("the log ended before the task")
        generation = self._fold.generation
        return (self._stream.event(self._response(), generation),)

    def interrupted(self, why: Interruption) -> Messages:
        """Return an error, unless the client can come back for the rest."""
        if not self._stream.is_modern and why.cause not in {Cause.LOST, Cause.FAILED}:
            return ()
        return self._failed(why.reason)

    @property
    def _shows_questions(self) -> bool:
        """Whether questions are requests on this stream."""
        return self._stream.elicits and not self._stream.is_modern

    def _question(self) -> AgentQuestion | None:
        return None if self._newest is None else question_in(self._newest)

    def _response(self) -> Json:
        stream, question = self._stream, self._question()
        agent, task, _ = stream.place
        if question is not None and stream.is_modern and stream.elicits:
            asked: Json = {
                "resultType": "input_required",
                "inputRequests": {question.key: question.elicitation()},
                "requestState": f"{task}{_SEPARATOR}{question.generation}",
            }
            return {"id": stream.request, "result": asked}
        result = result_of(agent, self._fold.task(0), question)
        if stream.is_modern:
            result["resultType"] = "complete"
        return {"id": stream.request, "result": result}

    def _progress(self, entry: Entry) -> Messages:
        progress: Json = {"progressToken": self._stream.token, "progress": entry.last_generation}
        if said := "".join(map(_said, entry.events)):
            progress["message"] = said
        message = {"method": "notifications/progress", "params": progress}
        return (self._stream.event(message, entry.last_generation),)

    def _failed(self, reason: str) -> Messages:
        data = {"task": self._stream.handle}
        error = {"code": INTERNAL_ERROR, "message": reason, "data": data}
        message = {"id": self._stream.request, "error": error}
        return (self._stream.event(message, self._fold.generation),)


def state_in(request_state: object) -> tuple[str, int] | None:
    """Return the task and the question's generation that a ``requestState`` names."""
    match str(request_state).split(_SEPARATOR):
        case [task, generation] if _GENERATION.fullmatch(generation):
            return task, int(generation)
    return None


def _said(event: Json) -> str:
    """Return what an event says to people: a piece of the answer, or what the agent does."""
    update = event.get("artifactUpdate") or {}
    message = ((event.get("statusUpdate") or {}).get("status") or {}).get("message") or {}
    parts = (update.get("artifact") or {}).get("parts") or ()
    if message.get("role") == "ROLE_USER":
        return ""
    called = [call.name for part in message.get("parts") or () if (call := tool_call(part))]
    return text_of(parts) or ", ".join(called) or words_of(message.get("parts") or ())
