"""The fold of a task's log into chunks of UI messages; deterministic for a given log.

A UI message is what the agent answers to a message of the user: one run, and those that go on with
results of the client's tools and with approvals.
"""

from typing import NamedTuple

from headrace.model import parts
from headrace.model.delegation import CHILD
from headrace.model.entry import Entry
from headrace.model.events import (
    ATTEMPT,
    DISCARDED_AFTER,
    INTERRUPTS,
    PENDING_TOOL_CALLS,
    RETRACTED,
    STEP,
    TAKEN,
    Json,
)
from headrace.model.run_ids import run_digest
from headrace.model.step import ShownStep
from headrace.model.task import (
    AUTH_REQUIRED,
    CANCELED,
    FAILED,
    INPUT_REQUIRED,
    REJECTED,
    TERMINAL,
    WORKING,
)
from headrace_gateway.protocols.ai_sdk.chunks import START, Chunk, StepChunks
from headrace_gateway.protocols.ai_sdk.content import UiContent

JSON_OUTPUT = "ai_sdk_json"
"""Metadata key of a client's tool result, true: its content is the text of JSON."""

_ERRORS = {FAILED: "the agent failed", REJECTED: "the agent rejected the message"}


class Asked(NamedTuple):
    """What a task that waits for input wants to know."""

    calls: dict[str, str]
    """The agent's ids of calls that the client executes, by the client's ids."""
    approvals: dict[str, str]
    """The agent's ids of interrupts that approve a call, by the client's ids."""

    @property
    def is_plain(self) -> bool:
        """Whether the user's next message is the answer."""
        return not self.calls and not self.approvals


class ChatFold:
    """Reads the entries of a log from the first one on and returns chunks."""

    def __init__(self, task: str) -> None:
        """Start before the first entry of the task's log."""
        self.message = ""
        """The id of the UI message that is being made."""
        self.over = False
        """Whether the newest run has ended."""
        self.asked: Asked | None = None
        """What the task waits for; None: it does not wait."""
        self._task = task
        self._chunks = StepChunks()
        self._content = UiContent(self._chunks)
        self._approvals = dict[str, str]()
        """The agent's ids of calls to approve, by the client's ids of the approvals."""

    def read(self, entry: Entry) -> list[Chunk]:
        """Return the chunks of the next entry."""
        for generation, event in enumerate(entry.parsed(), entry.generation):
            self._chunks.generation = generation
            if not self.message and generation != entry.stamp.run:
                # The head of the log is past its retention.
                self._begin_message(entry.stamp.run, entry.time)
                self._content.begin()
            try:
                self._event(event, entry, is_input=generation == entry.stamp.run)
            except (KeyError, TypeError, ValueError, AttributeError):
                # Workers may be written in any language. The run goes on.
                self._chunks.data("unreadable", str(generation), {"generation": generation})
        if entry.stamp.checkpoint is not None:
            self._content.save(entry.last_generation)
        if entry.ends_run and not self.over:
            self._end("error", "error", errorText="the run's last event can't be read")
        return self._chunks.pop()

    def _event(self, event: Json, entry: Entry, *, is_input: bool) -> None:
        if is_input:
            self._begin(event, entry)
        elif (update := event.get("artifactUpdate")) is not None:
            # A retraction is for clients that hold discarded output; the fold has dropped it.
            if not (update.get("metadata") or {}).get(RETRACTED):
                self._content.artifact(update)
        elif (update := event.get("statusUpdate")) is not None:
            self._status(update)
        elif (message := event.get("message")) is not None:
            self._content.message(message, final=True)
            self._end("stop")

    def _begin(self, event: Json, entry: Entry) -> None:
        """Begin the run of an input."""
        body = event.get("task") or event["statusUpdate"]
        history = body.get("history") or [body["status"].get("message") or {}]
        content = history[-1].get("parts", ())
        calls, asked, generation = self._content.calls, self.asked, self._chunks.generation
        self.over, self.asked = False, None
        if not self.message or not all(_goes_on(part, asked) for part in content):
            self._begin_message(generation, entry.time)
        calls.digest = run_digest(self._task, generation)
        self._content.begin()
        for part in content:
            self._answer(part, asked)

    def _begin_message(self, run: int, time: str) -> None:
        self.message = self._content.calls.message = f"{self._task}.{run}"
        self._content.calls.digest = run_digest(self._task, run)
        self._content.usage = []
        about = {"taskId": self._task, "createdAt": time}
        self._chunks.tell(START, messageId=self.message, messageMetadata=about)

    def _answer(self, part: Json, asked: Asked | None) -> None:
        """Emit a result of the client's tool, or the user's decision on a call."""
        if (result := parts.tool_result(part)) is not None:
            is_json = parts.metadata_of(part, JSON_OUTPUT) is True
            self._content.calls.result(result, of_client=True, is_json=is_json)
            return
        own, given = parts.interrupt_id(part), part.get("data")
        for approval, interrupt in (asked.approvals if asked else {}).items():
            if interrupt == own:
                decision = given if isinstance(given, dict) else {"approved": given is True}
                approved, reason = decision.get("approved") is True, decision.get("reason")
                self._content.calls.decided(
                    self._approvals[approval], approval, approved=approved, reason=str(reason or "")
                )

    def _status(self, update: Json) -> None:
        status, metadata = update["status"], update.get("metadata") or {}
        state, message = status["state"], status.get("message")
        if (child := metadata.get(CHILD)) is not None:
            self._content.child(child, message or {})
            return
        if ATTEMPT in metadata and (after := metadata.get(DISCARDED_AFTER)) is not None:
            self._content.restore(after)
        if STEP in metadata and (step := ShownStep.of(metadata)) is not None:
            self._content.recorded_step(step)
        if TAKEN in metadata:
            self._steer(message or {})
        elif state in {INPUT_REQUIRED, AUTH_REQUIRED}:
            self._ask(state, metadata, message)
        elif state in TERMINAL:
            self._finish(state, message)
        elif message is not None:
            self._content.message(message, final=state != WORKING)

    def _steer(self, message: Json) -> None:
        """Emit a message of the user that the agent has received while it works."""
        texts = [
            {"type": "text", "text": part["text"]}
            for part in message.get("parts", ())
            if isinstance(part.get("text"), str)
        ]
        self._chunks.show("steering-message", id=message["messageId"], parts=texts)

    def _ask(self, state: str, metadata: Json, message: Json | None) -> None:
        """Emit what the user, or the client, has to answer."""
        interrupts = metadata.get(INTERRUPTS) or []
        approvals = [one for one in interrupts if one.get("toolCallId")]
        if message is not None and (not interrupts or len(approvals) < len(interrupts)):
            self._content.message(message, final=True)
        calls = self._content.calls
        calls.complete_all()
        self._approvals.clear()
        asked = Asked({}, {})
        for one in interrupts:
            if not (call := one.get("toolCallId")):
                self._chunks.data("interrupt", str(one["id"]), one)
                continue
            # An approval may be named like its call, whose id may recur.
            shown = calls.shown(call) if one["id"] == call else one["id"]
            self._approvals[shown], asked.approvals[shown] = call, one["id"]
            calls.ask(call, shown, one)
        if state == AUTH_REQUIRED:
            return  # The run waits for the credentials, and the stream goes on.
        asked.calls.update(calls.hand_over(metadata.get(PENDING_TOOL_CALLS) or ()))
        self.asked = asked
        self._end("stop" if asked.is_plain else "tool-calls")

    def _finish(self, state: str, message: Json | None) -> None:
        if state in _ERRORS:
            text = parts.words_of((message or {}).get("parts", ()))
            self._end("error", "error", errorText=text or _ERRORS[state])
            return
        if message is not None:
            self._content.message(message, final=True)
        if state == CANCELED:
            self._end("interrupted", "abort", reason="canceled")
        else:
            self._end("stop")

    def _end(self, finish: str, before: str = "", /, **fields: object) -> None:
        """Emit the end of the run and why it `finish`es, after the chunk `before`, if any."""
        self._content.calls.complete_all()
        self._chunks.end_all()
        self._chunks.tell("finish-step")
        if before:
            self._chunks.tell(before, **fields)
        counted = [*self._content.usage]
        usage = {"messageMetadata": {"usage": counted}} if counted else {}
        self._chunks.tell("finish", finishReason=finish, **usage)
        self.over = True


def _goes_on(part: Json, asked: Asked | None) -> bool:
    """Return whether a part of an input belongs to the message before: a result, or a decision."""
    decides = asked is not None and parts.interrupt_id(part) in asked.approvals.values()
    return decides or parts.tool_result(part) is not None
