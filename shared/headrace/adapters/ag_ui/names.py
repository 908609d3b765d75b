"""The ids of an AG-UI agent's messages, kept for later runs.

The log has its own names for blocks and messages. An agent that identifies its messages by id must
get the same ids in the next run, or it takes its own messages for new ones.
"""

from dataclasses import asdict
from typing import override

from headrace.adapters.ag_ui.events import AguiEvents
from headrace.adapters.conversation.memory import stored
from headrace.adapters.conversation.turns import NAMES, MessageIds
from headrace.model import json_text
from headrace.model.events import Json
from headrace.sdk.context import RunContext, runtime_of
from headrace.sdk.emit import ToolResult

FINISHED = "finished"
"""Key in a checkpoint's data: the outcome of a finished run (`memory.stored`)."""
_MOST = 6 * 1024
"""Maximum size of the names in a checkpoint, in bytes."""


class NamedEvents(AguiEvents):
    """Emits a run's events, and saves the agent's ids where a run can resume.

    These points are tool results, if no other call or message is open, and the run's end. A worker
    that takes over neither repeats a finished tool call nor requests a finished run again.
    """

    def __init__(self, ctx: RunContext) -> None:
        """Emit events in the run of `ctx`."""
        super().__init__(ctx)
        self._names = MessageIds()
        self._seen: set[str] = set()

    async def relay(self, event: Json) -> None:
        """Emit `event`.

        Raises:
            Retryable: As for `AguiEvents.relay`.
            MalformedOutput: As for `AguiEvents.relay`.
        """
        self._note(event)
        await super().relay(event)

    async def emit_result(self, result: ToolResult) -> None:
        """Emit a tool's result, with a checkpoint if nothing is open."""
        if self.open:
            await super().emit_result(result)
        else:
            await runtime_of(self._ctx).output.checkpoint(self._taken(), result)

    @override
    def begin_call(self, own: str, event: Json) -> None:
        """Note the message that a call belongs to."""
        self._names.calls[own] = event.get("parentMessageId") or event.get("toolCallId") or own

    @override
    def end_message(self, message: str) -> None:
        """Note that a message has ended: its id may be used again, for another one."""
        self._seen.discard(message)

    async def finish(self, outcome: Json) -> None:
        """Save the outcome, and end the run."""
        kept = {**self._taken(), FINISHED: await stored(self._ctx, outcome)}
        await runtime_of(self._ctx).output.checkpoint(kept)
        await super().finish(outcome)

    def _note(self, event: Json) -> None:
        match event:
            case {"type": "TOOL_CALL_RESULT", "toolCallId": str(call), "messageId": str(name)}:
                self._names.results[self.ids.of(call)] = name
            case {"type": "REASONING_ENCRYPTED_VALUE", "entityId": str(name)}:
                if self.is_thought(name):
                    self._note_block("REASONING_MESSAGE_CONTENT", name, event)
            case {"type": str(kind), "messageId": str(name)}:
                self._note_block(kind, name, event.get("delta"))

    def _note_block(self, kind: str, name: str, delta: object) -> None:
        if not delta or name in self._seen:
            return
        if kind in {"TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CHUNK"}:
            self._names.text.append(name)
        elif kind in {"REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_CHUNK"}:
            self._names.reasoning.append(name)
        else:
            return
        self._seen.add(name)

    def _taken(self) -> Json:
        """Return the names since the last checkpoint, and clear them."""
        names, self._names = asdict(self._names), MessageIds()
        self._seen.clear()
        if len(json_text.encode(names)) > _MOST:
            self._ctx.log.warning("too many messages in a row; the agent gets new ids for them")
            return {}
        return {NAMES: names}
