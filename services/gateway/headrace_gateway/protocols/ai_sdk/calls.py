"""Tool calls in a UI message: a call, its arguments in pieces, its result or the user's refusal.

The client finds a call by id in all of its messages, so ids are those of `run_ids`. A call is shown
as the agent's own (``providerExecuted``), which the client leaves alone. Only when the run has
ended and waits for the client's result, it is shown as the client's. So no result comes too early.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from headrace.model import json_text, parts
from headrace.model.events import Json
from headrace.model.run_ids import unique_id
from headrace_gateway.protocols.ai_sdk.chunks import StepChunks

_UNKNOWN = "unknown"
"""Name of a tool whose call is in no event of the log."""


@dataclass(slots=True)
class ToolUse:
    """A tool call of the task."""

    id: str
    """The client's id."""
    tool: str
    generation: int
    message: str
    """The UI message that shows it."""
    arguments: list[str] = field(default_factory=list)
    is_whole: bool = False
    answered: int = 0
    """Generation of its result or refusal; 0: it has none."""
    input: Any = None


class ToolUses:
    """Emits the task's tool calls."""

    def __init__(self, chunks: StepChunks) -> None:
        """Emit to `chunks`."""
        self._chunks = chunks
        self._calls: dict[str, list[ToolUse]] = {}
        """By the agent's ids, oldest first."""
        self.message = self.digest = ""
        """The UI message and the run that the next calls belong to."""

    def part(self, part: Json, name: str) -> None:
        """Emit a call, a piece of its arguments, or a result; `name` is the fallback call id.

        Raises:
            ValueError: the part is none of these.
        """
        if (result := parts.tool_result(part)) is not None:
            self.result(result)
        elif parts.is_partial_tool_call(part):
            self._piece(part, parts.tool_call_id(part) or name)
        elif (call := parts.tool_call(part)) is not None:
            self._whole(call._replace(id=call.id or name))
        else:
            raise ValueError("neither a call nor a result")

    def result(
        self, result: parts.ToolResultPart, *, of_client: bool = False, is_json: bool = False
    ) -> None:
        """Emit the result of the oldest call with its id that has none.

        Args:
            result: The result.
            of_client: Whether the client has executed the call.
            is_json: Whether the content is the text of the client's JSON.
        """
        call = self._find(result.id) or self._begin(result.id, _UNKNOWN)
        if call.answered:
            return
        self._complete(call)
        call.answered = self._chunks.generation
        whose = {"providerExecuted": False} if of_client else {}
        if result.is_error:
            text = result.error or json_text.as_text(result.content)
            self._chunks.show("tool-output-error", toolCallId=call.id, errorText=text, **whose)
        else:
            output = parts.parsed_arguments(result.content) if is_json else result.content
            self._chunks.show("tool-output-available", toolCallId=call.id, output=output, **whose)

    def ask(self, own: str, approval: str, interrupt: Json) -> None:
        """Emit that the user has to approve a call."""
        call = self._find(own) or self._begin(own, _UNKNOWN)
        self._complete(call)
        reason = {"reason": interrupt["message"]} if interrupt.get("message") else {}
        self._chunks.show(
            "tool-approval-request", approvalId=approval, toolCallId=call.id, **reason
        )

    def decided(self, own: str, approval: str, *, approved: bool, reason: str) -> None:
        """Emit the user's decision; a call that is refused has no other result."""
        call = self._find(own)
        if call is None or call.message != self.message:
            return
        why = {"reason": reason} if reason else {}
        self._chunks.show("tool-approval-response", approvalId=approval, approved=approved, **why)
        if not approved:
            call.answered = self._chunks.generation
            self._chunks.show("tool-output-denied", toolCallId=call.id)

    def hand_over(self, pending: Iterable[str]) -> dict[str, str]:
        """Emit which calls the client executes; return the agent's ids by the client's."""
        handed = dict[str, str]()
        for own in pending:
            waiting = [one for one in self._calls.get(own, ()) if not one.answered]
            call = next((one for one in waiting if one.id not in handed), None)
            if call is not None:
                self._complete(call)
                self._available(call, is_agents=False)
                handed[call.id] = own
        return handed

    def shown(self, own: str) -> str:
        """Return the client's id of the call that the agent calls `own`."""
        call = self._find(own)
        return own if call is None else call.id

    def complete_all(self) -> None:
        """Complete the calls whose arguments end with the run."""
        for calls in self._calls.values():
            for call in calls:
                self._complete(call)

    def discard(self, after: int) -> None:
        """Drop the calls, and the results of others, that came after generation `after`."""
        for calls in self._calls.values():
            calls[:] = [call for call in calls if call.generation <= after]
            for call in calls:
                call.answered = call.answered if call.answered <= after else 0

    def _piece(self, part: Json, own: str) -> None:
        call = self._open(own)
        if call is None:
            call = self._begin(own, parts.tool_name(part))
        if not call.arguments:
            self._chunks.show(
                "tool-input-start", toolCallId=call.id, toolName=call.tool, providerExecuted=True
            )
        if text := part["text"]:
            call.arguments.append(text)
            self._chunks.show("tool-input-delta", toolCallId=call.id, inputTextDelta=text)
        if parts.is_block_end(part):
            self._complete(call)

    def _whole(self, stated: parts.ToolCallPart) -> None:
        call = self._open(stated.id)
        if call is None:
            latest = self._calls.get(stated.id, [])[-1:]
            if latest and not latest[0].answered and latest[0].input == stated.arguments:
                return  # It is stated again.
            call = self._begin(stated.id, stated.name)
        call.arguments, call.input = [], parts.parsed_arguments(stated.arguments)
        self._complete(call)

    def _open(self, own: str) -> ToolUse | None:
        """Return the call with that id whose arguments are still coming."""
        made = self._calls.get(own)
        return made[-1] if made and not made[-1].is_whole else None

    def _find(self, own: str) -> ToolUse | None:
        """Return the oldest call with that id that waits for a result, or the latest one."""
        made = self._calls.get(own, [])
        waiting = next((one for one in made if not one.answered), None)
        found = waiting or (made[-1] if made else None)
        if found is not None and found.message != self.message:
            # An earlier message has the call, where the client would not look for it.
            found.message = self.message
            self._available(found)
        return found

    def _begin(self, own: str, tool: str) -> ToolUse:
        made = self._calls.setdefault(own, [])
        number = sum(self.digest in one.id for one in made) + 1
        name = unique_id(own, self.digest, number)
        made.append(ToolUse(name, tool or _UNKNOWN, self._chunks.generation, self.message))
        return made[-1]

    def _complete(self, call: ToolUse) -> None:
        if call.is_whole:
            return
        call.is_whole = True
        if call.arguments:
            call.input = parts.parsed_arguments("".join(call.arguments))
        self._available(call)

    def _available(self, call: ToolUse, *, is_agents: bool = True) -> None:
        self._chunks.show(
            "tool-input-available",
            toolCallId=call.id,
            toolName=call.tool,
            input={} if call.input is None else call.input,
            providerExecuted=is_agents,
        )
