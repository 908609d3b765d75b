"""The events of an AG-UI agent, emitted to a task's log."""

from collections import Counter
from collections.abc import Awaitable, Callable

from headrace.adapters.call_ids import CallIds
from headrace.adapters.client_tools import client_tools
from headrace.model.events import Json
from headrace.model.file_links import LINKS_ARE_OURS, is_link
from headrace.model.task import CANCELED, FAILED, REJECTED
from headrace.sdk.context import RunContext
from headrace.sdk.emit import (
    Data,
    Emission,
    InputRequired,
    Outcome,
    Text,
    Thinking,
    ToolArguments,
    ToolResult,
)
from headrace.sdk.errors import MalformedOutput, Retryable
from headrace.sdk.signals import (
    Activity,
    ActivityDelta,
    Custom,
    Messages,
    Raw,
    State,
    StateDelta,
    Step,
)
from headrace.sdk.token_usage import usage_of

_SOURCE = "ag-ui"
_SILENT = frozenset({"RUN_STARTED", "REASONING_END", "THINKING_START", "THINKING_END"})
_SEALED = "REASONING_ENCRYPTED_VALUE"
_EMISSIONS: dict[str, Callable[[Json], Emission]] = {
    "STATE_SNAPSHOT": lambda e: State(e.get("snapshot")),
    "STATE_DELTA": lambda e: StateDelta(e.get("delta") or []),
    "MESSAGES_SNAPSHOT": lambda e: Messages(_checked(e.get("messages") or [])),
    "ACTIVITY_SNAPSHOT": lambda e: Activity(e["activityType"], e["content"], e["messageId"]),
    "ACTIVITY_DELTA": lambda e: ActivityDelta(e["messageId"], e.get("patch") or []),
    "STEP_STARTED": lambda e: Step(e["stepName"]),
    "STEP_FINISHED": lambda e: Step(e["stepName"], finished=True),
    "CUSTOM": lambda e: Custom(e["name"], e.get("value")),
    "RAW": lambda e: Raw(e.get("event"), e.get("source") or _SOURCE),
}


class AguiEvents:
    """Emits the events of one run."""

    def __init__(self, ctx: RunContext) -> None:
        """Emit events in the run of `ctx`."""
        self._ctx = ctx
        self._frontend = {tool["name"] for tool in client_tools(ctx)}
        self._calls: dict[str, str] = {}
        self.ids = CallIds(ctx, set())
        """Ids in the log of the calls, of which an agent may number several alike in a run."""
        self._chunked = ""
        """The call that the last chunk belongs to."""
        self.open: set[str] = set()
        """Ids of the messages and calls that have not ended."""
        self._answered: set[str] = set()
        self._ended = Counter[tuple[type[Text | Thinking], str]]()
        """How many blocks with a message's id have ended, of which an agent may use one again."""
        self._text = self._thought = self._call = ""
        self._thinks = False
        """Whether the reasoning has not ended."""
        self._thought_over = ""
        """Ended reasoning. Its end is emitted with the next event, which may bring its encrypted
        value."""
        self._seals: dict[str, str] = {}
        """Encrypted values that calls' providers require back, by call id."""
        self._is_over = False
        self._relays: dict[str, Callable[[Json], Awaitable[None]]] = {
            "TEXT_MESSAGE_START": self._text_started,
            "TEXT_MESSAGE_CONTENT": self._text_content,
            "TEXT_MESSAGE_CHUNK": self._text_content,
            "TEXT_MESSAGE_END": self._text_ended,
            "REASONING_START": self._reasoning_start,
            "REASONING_MESSAGE_START": self._reasoning_start,
            "REASONING_MESSAGE_CONTENT": self._reasoning_content,
            "REASONING_MESSAGE_CHUNK": self._reasoning_content,
            "REASONING_MESSAGE_END": self._reasoning_end,
            "THINKING_TEXT_MESSAGE_CONTENT": self._reasoning_content,
            "THINKING_TEXT_MESSAGE_END": self._reasoning_end,
            _SEALED: self._sealed,
            "TOOL_CALL_START": self._call_content,
            "TOOL_CALL_ARGS": self._call_content,
            "TOOL_CALL_CHUNK": self._call_chunk,
            "TOOL_CALL_END": self._call_ended,
            "TOOL_CALL_RESULT": self._result,
            "RUN_ERROR": self._failed,
            "RUN_FINISHED": self._finished,
        }

    async def relay(self, event: Json) -> None:
        """Emit `event`; an event of an unknown type is passed on unchanged.

        Raises:
            Retryable: The event lacks a required field.
        """
        kind = event.get("type", "")
        if self._is_over:
            return
        if self._thought_over and kind != _SEALED:
            ended, self._thought_over, self._thought = self._thought_over, "", ""
            await self._end_block(Thinking, ended)
        if kind in _SILENT:
            return
        try:
            if (relay := self._relays.get(kind)) is not None:
                await relay(event)
            elif (emission_of := _EMISSIONS.get(kind)) is not None:
                await self._ctx.emit(emission_of(event))
            else:
                await self._ctx.emit(Raw(event, _SOURCE))
        except KeyError as error:
            raise Retryable(f"the AG-UI agent sent a {kind} without {error}") from error

    async def end(self) -> None:
        """End the stream.

        Raises:
            Retryable: The stream closed before the run ended.
        """
        if not self._is_over:
            raise Retryable("the AG-UI agent's answer was cut off")

    async def _text_started(self, event: Json) -> None:
        self._text = event["messageId"]

    async def _text_content(self, event: Json) -> None:
        self._text = event.get("messageId") or self._text
        if delta := event.get("delta"):
            self.open.add(self._text)
            await self._ctx.emit(Text(delta, self._label(Text, self._text)))

    async def _text_ended(self, event: Json) -> None:
        if event["messageId"] in self.open:
            self.open.discard(event["messageId"])
            await self._end_block(Text, event["messageId"])

    async def _reasoning_start(self, event: Json) -> None:
        self._thought = event["messageId"]

    async def _reasoning_content(self, event: Json) -> None:
        self._thought = event.get("messageId") or self._thought
        if delta := event.get("delta"):
            self._thinks = True
            await self._ctx.emit(Thinking(delta, self._label(Thinking, self._thought)))

    async def _reasoning_end(self, event: Json) -> None:
        self._thinks = False
        self._thought_over = event.get("messageId") or self._thought

    async def _sealed(self, event: Json) -> None:
        """Emit an encrypted value with the item it belongs to, or unchanged if there is none."""
        entity, value = event["entityId"], event["encryptedValue"]
        if event.get("subtype") == "tool-call" and entity in self.open:
            self._seals[entity] = value
        elif event.get("subtype") == "message" and self.is_thought(entity):
            if not self._thinks:
                self._thought_over = entity
            label = self._label(Thinking, entity)
            await self._ctx.emit(Thinking("", label, encrypted=value))
        else:
            await self._ctx.emit(Raw(event, _SOURCE))

    def _label(self, kind: type[Text | Thinking], message: str) -> str:
        """Return the label of the block of `kind` with that id that is open, or of the next one."""
        number = self._ended[kind, message]
        return f"{message}\n{number}" if number else message

    async def _end_block(self, kind: type[Text | Thinking], message: str) -> None:
        await self._ctx.emit(kind("", self._label(kind, message), end=True))
        self._ended[kind, message] += 1
        self.end_message(message)

    def end_message(self, message: str) -> None:
        """Note that a message has ended: its id may be used again, for another one."""

    def is_thought(self, message: str) -> bool:
        """Return whether a message is the last reasoning, which can still be extended."""
        return bool(message) and message in {self._thought, self._thought_over}

    async def _call_content(self, event: Json) -> None:
        call = event.get("toolCallId") or self._call
        if call != self._chunked and self._chunked in self.open:
            # Chunks have no end event: the next call ends the one before.
            await self._call_ended({"toolCallId": self._chunked})
        name = event.get("toolCallName") or self._calls.get(call, "")
        self._call, self._calls[call] = call, name
        if call and call not in self.open:
            self.open.add(call)
            self._answered.discard(call)
            self.begin_call(self.ids.add(call), event)
        await self._ctx.emit(ToolArguments(self.ids.of(call), event.get("delta") or "", name))

    async def _call_chunk(self, event: Json) -> None:
        await self._call_content(event)
        self._chunked = self._call

    def begin_call(self, own: str, event: Json) -> None:
        """Note that a call begins with `event`; `own` is its id in the log."""

    async def _call_ended(self, event: Json) -> None:
        call = event["toolCallId"]
        if call in self.open:
            self.open.discard(call)
            name, sealed = self._calls.get(call, ""), self._seals.pop(call, "")
            own = self.ids.of(call)
            await self._ctx.emit(ToolArguments(own, "", name, end=True, encrypted=sealed))

    async def _result(self, event: Json) -> None:
        call = event["toolCallId"]
        await self._call_ended(event)
        self._answered.add(call)
        await self.emit_result(ToolResult(self.ids.of(call), event.get("content", "")))

    async def _failed(self, event: Json) -> None:
        state = REJECTED if event.get("code") == "rejected" else FAILED
        reason = event.get("message") or "the AG-UI agent failed"
        await self._emit_usage(event)
        self._is_over = True
        await self._ctx.emit(Outcome.because(reason, state))

    async def _finished(self, event: Json) -> None:
        for call in [call for call in self._calls if call in self.open]:
            await self._call_ended({"toolCallId": call})
        outcome = event.get("outcome") or {}
        if event.get("result") is not None:
            await self._ctx.emit(Data(event["result"], "result"))
        if outcome.get("type") != "cancelled":
            open_calls = {each.get("toolCallId") for each in outcome.get("interrupts") or ()}
            left = [call for call in self._pending() if call not in open_calls]
            pending = outcome.get("pendingToolCallIds") or left
            outcome = {"type": "success", **outcome, "pendingToolCallIds": pending}
            outcome = _named_as_in_the_log(outcome, self.ids)
        await self._emit_usage(event)
        self._is_over = True
        await self.finish(outcome)

    async def emit_result(self, result: ToolResult) -> None:
        """Emit a tool's result."""
        await self._ctx.emit(result)

    async def finish(self, outcome: Json) -> None:
        """End the run."""
        if (ending := ending_of(outcome)) is not None:
            await self._ctx.emit(ending)

    def _pending(self) -> list[str]:
        """Return open calls of the user interface's tools; agents of AG-UI 0.x do not list them."""
        return [
            call
            for call, name in self._calls.items()
            if name in self._frontend and call not in self._answered
        ]

    async def _emit_usage(self, event: Json) -> None:
        reported = event.get("usage")
        for used in reported if isinstance(reported, list) else ():
            await self._ctx.emit(usage_of(used))


def ending_of(outcome: Json) -> Emission | None:
    """Return how RUN_FINISHED with `outcome` ends the run; None if the run is complete."""
    if outcome.get("type") == "interrupt":
        return _question(outcome)
    if outcome.get("type") == "cancelled":
        return Outcome(CANCELED)
    if pending := outcome.get("pendingToolCallIds"):
        return InputRequired(tool_calls=pending)
    return None


def _named_as_in_the_log(outcome: Json, ids: CallIds) -> Json:
    """Return an outcome with the log's ids of the calls that it names."""
    named = {**outcome, "pendingToolCallIds": [*map(ids.of, outcome["pendingToolCallIds"])]}
    if outcome.get("interrupts"):
        named["interrupts"] = [
            {**each, "toolCallId": ids.of(each["toolCallId"])} if each.get("toolCallId") else each
            for each in outcome["interrupts"]
        ]
    return named


def _checked(messages: list[Json]) -> list[Json]:
    """Refuse links to this fleet's files, which only the fleet's own agents may send."""
    for number, message in enumerate(messages):
        content = message.get("content")
        for place, part in enumerate(content if isinstance(content, list) else ()):
            if is_link((part.get("source") or {}).get("value")):
                where = f"messages.{number}.content.{place}.source.value"
                raise MalformedOutput(f"{where} {LINKS_ARE_OURS}")
    return messages


def _question(outcome: Json) -> InputRequired:
    interrupts = outcome.get("interrupts") or []
    words = [interrupt["message"] for interrupt in interrupts if interrupt.get("message")]
    schema = interrupts[0].get("responseSchema") if len(interrupts) == 1 else None
    return InputRequired(
        "\n".join(words), schema, interrupts, outcome.get("pendingToolCallIds") or []
    )
