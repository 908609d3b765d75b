"""The parts of an agent's output as chunks of a UI message."""

from base64 import b64encode
from collections.abc import Callable

from headrace.model import parts
from headrace.model.delegation import CHILD
from headrace.model.events import Json
from headrace.model.json_patch import Document
from headrace.model.step import ShownStep
from headrace.model.task import RUN_ENDED
from headrace.model.usage_counts import add_usage
from headrace_gateway.protocols.ai_sdk.calls import ToolUses
from headrace_gateway.protocols.ai_sdk.chunks import REASONING, TEXT, StepChunks

_STATE = ("state", "state")
_BINARY = "application/octet-stream"
_PAGES = frozenset({"", "text/html"})
"""Media types of addresses that are sources of the answer, not files."""


class UiContent:
    """Emits parts: text, reasoning, calls and files; everything else is a data part."""

    def __init__(self, chunks: StepChunks) -> None:
        """Emit to `chunks`."""
        self._chunks, self.calls = chunks, ToolUses(chunks)
        self.usage: list[Json] = []
        """What the UI message has used, by provider and model."""
        self._documents: dict[tuple[str, str], Document] = {}
        """The shared state, and the content of activities: by name and key of their data part."""
        self._saved: dict[int, dict[tuple[str, str], Document]] = {0: {}}
        """As they were at the run's input and at the last checkpoint, by generation."""
        self._children: dict[str, Json] = {}
        self._by_type: dict[str, Callable[[Json, str], None]] = {
            parts.TOOL_CALL: self.calls.part,
            parts.STATE_SNAPSHOT: self._state,
            parts.STATE_DELTA: self._state_delta,
            parts.ACTIVITY_SNAPSHOT: self._activity,
            parts.ACTIVITY_DELTA: self._activity_delta,
            parts.STEP_STARTED: self._step,
            parts.STEP_FINISHED: self._step,
            parts.SUBAGENT_STARTED: self._subagent,
            parts.SUBAGENT_FINISHED: self._subagent,
            parts.USAGE: self._usage,
            parts.CUSTOM: self._custom,
            parts.RAW: self._raw,
            # It would replace the client's messages, which no chunk can.
            parts.MESSAGES_SNAPSHOT: lambda _part, _name: None,
        }

    def begin(self) -> None:
        """Begin another run."""
        self._chunks.begin_step()
        self._saved = {self._chunks.generation: dict(self._documents)}

    def save(self, generation: int) -> None:
        """Record a checkpoint."""
        self._chunks.save(generation)
        first = min(self._saved)
        self._saved = {first: self._saved[first], generation: dict(self._documents)}

    def restore(self, after: int) -> None:
        """Take back what a new attempt discards, which followed generation `after`."""
        kept = self._chunks.restore(after)
        self.calls.discard(kept)
        before, self._documents = self._documents, dict(self._saved[kept])
        for (name, key), held in self._documents.items():
            if before.get((name, key)) is not held:
                self._chunks.data(name, key, held.value)

    def artifact(self, update: Json) -> None:
        """Emit an artifact, or the chunk of one.

        Raises:
            ValueError, KeyError, TypeError: a part does not match its metadata.
        """
        artifact = update["artifact"]
        name, content = artifact["artifactId"], artifact.get("parts", [])
        blocks = dict.fromkeys([name, *(parts.block_id(part) or name for part in content)])
        if not update.get("append"):
            for block in blocks:
                self._chunks.retract(block)
        for number, part in enumerate(content):
            if not self._part(part, name):
                self._rest(part, name, f"{self._chunks.generation}.{number}")
        if update.get("lastChunk"):
            for block in blocks:
                self._chunks.end(TEXT, block)

    def message(self, message: Json, *, final: bool) -> None:
        """Emit a message; in the `final` one, notices are answers.

        Raises:
            ValueError, KeyError, TypeError: a part does not match its metadata.
        """
        name = message.get("messageId") or f"message-{self._chunks.generation}"
        notices = list[str]()
        for number, part in enumerate(message.get("parts", [])):
            if self._part(part, name):
                if not parts.event_type(part):  # The agent does not use blocks.
                    self._chunks.end(TEXT, parts.block_id(part) or name)
            elif "text" in part and not part.get("filename"):
                notices.append(part["text"])
            else:
                self._rest(part, name, f"{self._chunks.generation}.{number}")
        if notices and final:
            self._chunks.piece(TEXT, name, "".join(notices))
            self._chunks.end(TEXT, name)
        elif notices:
            self._chunks.data("status", "status", {"text": "".join(notices)})

    def recorded_step(self, step: ShownStep) -> None:
        """Emit what an event shows of a recorded step."""
        self._chunks.data("step", step.name, {"name": step.name, "state": step.state})

    def child(self, update: Json, message: Json) -> None:
        """Emit what an event shows of a delegated task: its agent, its state and what it said."""
        task, state = str(update["task"]), update.get("state")
        held = self._children.setdefault(
            task, {"agent": update.get("agent") or "agent", "state": "working", "text": ""}
        )
        held["text"] += parts.text_of(message.get("parts", ()))
        is_new = not update.get("generation") and not update.get(CHILD)
        if state in RUN_ENDED or is_new or update.get("givenUp"):
            held["state"] = str(state or "working").removeprefix("TASK_STATE_").lower()
            self._chunks.data("subagent", task, dict(held))

    def _part(self, part: Json, name: str) -> bool:
        """Emit a part; return False if it is a file, data or a notice."""
        name = parts.block_id(part) or name
        if "text" in part and parts.is_thinking(part):
            self._piece(REASONING, part, name)
        elif parts.is_answer(part):
            self._piece(TEXT, part, name)
        elif (show := self._by_type.get(parts.event_type(part))) is not None:
            show(part, name)
        else:
            return False
        return True

    def _piece(self, kind: str, part: Json, block: str) -> None:
        if not isinstance(text := part["text"], str):
            raise TypeError("text must be a string")
        if text:
            self._chunks.piece(kind, block, text)
        if parts.is_block_end(part):
            self._chunks.end(kind, block)

    def _rest(self, part: Json, name: str, key: str) -> None:
        """Emit a file, the address of a source, or data."""
        media_type, filename = part.get("mediaType") or "", part.get("filename") or ""
        about = {"providerMetadata": {"headrace": {"filename": filename}}} if filename else {}
        if "data" in part:
            self._chunks.data("artifact", f"{name}-{key}", part["data"], name)
        elif "url" in part and media_type in _PAGES and not filename:
            self._chunks.show("source-url", name, sourceId=f"{name}-{key}", url=part["url"])
        elif (url := file_url(part, media_type)) is not None:
            media_type = media_type or _BINARY
            self._chunks.show("file", name, url=url, mediaType=media_type, **about)

    def _state(self, part: Json, _name: str) -> None:
        self._set(_STATE, Document(part["data"]))

    def _state_delta(self, part: Json, _name: str) -> None:
        self._set(_STATE, self._documents.get(_STATE, Document({})).patched(part["data"]))

    def _activity(self, part: Json, name: str) -> None:
        kind = parts.metadata_of(part, parts.ACTIVITY_TYPE)
        self._set(("activity", name), Document({"type": kind, "content": part["data"]}))

    def _activity_delta(self, part: Json, name: str) -> None:
        if (held := self._documents.get(("activity", name))) is None:
            raise ValueError("unknown activity")
        content = Document(held.value["content"]).patched(part["data"]).value
        self._set(("activity", name), Document({**held.value, "content": content}))

    def _set(self, key: tuple[str, str], value: Document) -> None:
        self._documents[key] = value
        self._chunks.data(*key, value.value)

    def _step(self, part: Json, name: str) -> None:
        name = _named(part, parts.STEP_NAME, name)
        is_over = parts.event_type(part) == parts.STEP_FINISHED
        self._chunks.data(
            "step", name, {"name": name, "state": "completed" if is_over else "started"}
        )

    def _subagent(self, part: Json, _name: str) -> None:
        own, state = part["data"]["id"], part["data"].get("outcome", "working")
        shown = {"agent": part["data"]["name"], "state": state, "text": ""}
        self._chunks.data("subagent", own, shown)

    def _usage(self, part: Json, _name: str) -> None:
        add_usage(self.usage, part["data"])

    def _custom(self, part: Json, name: str) -> None:
        self._chunks.show(f"data-{_named(part, parts.CUSTOM_NAME, name)}", data=part["data"])

    def _raw(self, part: Json, _name: str) -> None:
        self._chunks.show("data-raw", data=part["data"])


def file_url(part: Json, media_type: str) -> str | None:
    """Return where a file is: its address, or a URL that contains it."""
    if "url" in part:
        return str(part["url"])
    if "raw" in part:
        return f"data:{media_type or _BINARY};base64,{part['raw']}"
    if "text" in part:
        content = b64encode(str(part["text"]).encode(errors="replace")).decode()
        return f"data:{media_type or 'text/plain'};base64,{content}"
    return None


def _named(part: Json, key: str, default: str) -> str:
    name = parts.metadata_of(part, key)
    return name if isinstance(name, str) and name else default
