"""Recorded cases: a task's inputs and its agent's output, as JSON lines.

The first line names the format and the agent. Each further line is one step: ``input`` (the parts
of a user's message) or what the agent emitted. Steps have no times, owners or metadata, and no ids
but those of interrupts, which the recorded answers refer to.
"""

import json
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from headrace.model import parts
from headrace.model.delegation import CHILD
from headrace.model.events import DISCARDED_AFTER, QUEUED, RETRACTED, Json
from headrace.model.task import INTERRUPTED, RUN_ENDED
from headrace.model.task_report import TaskEvent, state_name

FORMAT, VERSION = "headrace.case", 1

MAX_FILE_BYTES = 64 * 1024
"""Largest file whose content a case has, unless the recorder has another bound."""

INPUT = "input"

KINDS = {
    INPUT: list,
    "text": str,
    "thinking": str,
    "notice": str,
    "tool_arguments": str,
    "tool_call": dict,
    "tool_result": dict,
    "file": dict,
    "data": dict,
    "state": dict,
}
"""The kinds of steps, and the JSON type of their values."""

_JOINED = frozenset({"text", "thinking", "tool_arguments"})
_PAUSES = frozenset(map(state_name, RUN_ENDED | INTERRUPTED))
"""States that the agent sets; the others follow from the queue."""

_SUBAGENTS = frozenset({parts.SUBAGENT_STARTED, parts.SUBAGENT_FINISHED})
_NOT_RECORDED = frozenset({parts.USAGE})
"""Parts that measure a run, and so differ from one run to the next."""


class CaseInvalid(ValueError):
    """A file is not a case that this version can read."""


@dataclass(frozen=True, slots=True)
class Case:
    """A recorded task."""

    agent: str
    steps: list[Json]
    """Each with one of `KINDS` as its only key."""
    source: str = "case"
    """The file that the case is from."""

    def lines(self) -> Iterator[str]:
        """Yield the lines of the case's file."""
        yield json.dumps({"format": FORMAT, "version": VERSION, "agent": self.agent})
        for step in self.steps:
            yield json.dumps(step)


def parse_case(text: str, source: str) -> Case:
    """Return the case in `text`, the content of the file `source`.

    Raises:
        CaseInvalid: a line does not match the format; the error names file, line and rule.
    """
    # Not `splitlines`: JSON may contain other characters at which that splits.
    lines = [_object(line, f"{source}:{n}") for n, line in _numbered(text)]
    agent = _agent(lines[0] if lines else {}, f"{source}:1")
    steps = [_step(line, f"{source}:{n}") for n, line in enumerate(lines[1:], 2)]
    if not steps or INPUT not in steps[0]:
        raise CaseInvalid(f"{source}:2: the first step must be an {INPUT}")
    return Case(agent, steps, source)


def _numbered(text: str) -> Iterator[tuple[int, str]]:
    return enumerate(text.rstrip("\n").split("\n"), 1)


def _object(line: str, place: str) -> Json:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise CaseInvalid(f"{place}: a line must be a JSON object: {error}") from None
    if not isinstance(found, dict):
        raise CaseInvalid(f"{place}: a line must be a JSON object, not {type(found).__name__}")
    return found


def _agent(header: Json, place: str) -> str:
    if header.get("format") != FORMAT:
        raise CaseInvalid(f"{place}: the first line must have format {FORMAT!r}")
    if header.get("version") != VERSION:
        raise CaseInvalid(
            f"{place}: version must be {VERSION}, not {header.get('version')!r}; export it again"
        )
    agent = header.get("agent")
    if not isinstance(agent, str) or not agent:
        raise CaseInvalid(f"{place}: agent must be an agent's name")
    return agent


def _step(line: Json, place: str) -> Json:
    kind = next(iter(line), "")
    if len(line) != 1 or kind not in KINDS:
        raise CaseInvalid(f"{place}: a step must have one key of {', '.join(KINDS)}")
    if not isinstance(line[kind], KINDS[kind]):
        raise CaseInvalid(f"{place}: {kind} must be a JSON {_JSON_NAMES[KINDS[kind]]}")
    if kind == INPUT and not all(isinstance(part, dict) for part in line[kind]):
        raise CaseInvalid(f"{place}: {kind} must be a list of A2A Parts")
    interrupts = line.get("state", {}).get("interrupts", [])
    if not isinstance(interrupts, list) or not all(isinstance(one, dict) for one in interrupts):
        raise CaseInvalid(f"{place}: interrupts must be a list of AG-UI Interrupts")
    return line


_JSON_NAMES: dict[type, str] = {list: "array", str: "string", dict: "object"}


class CaseRecorder:
    """Makes steps of a task's events, from the first one on."""

    def __init__(self, max_file_bytes: int = MAX_FILE_BYTES) -> None:
        """Record files of up to `max_file_bytes` with their content, larger ones by a digest."""
        self._max_file_bytes = max_file_bytes
        self._recorded = list[tuple[int, Json]]()
        self._messages = set[str]()

    @property
    def steps(self) -> list[Json]:
        """The steps so far; pieces of one text are joined."""
        steps = list[Json]()
        for _, step in self._recorded:
            [(kind, value)] = step.items()
            if kind in _JOINED and steps and kind in steps[-1]:
                steps[-1] = {kind: steps[-1][kind] + value}
            else:
                steps.append(step)
        return steps

    def add(self, event: TaskEvent) -> None:
        """Record an event."""
        body = next(body for body in event.json.values() if isinstance(body, dict))
        metadata = body.get("metadata") or {}
        if CHILD in metadata or RETRACTED in metadata:
            return
        if DISCARDED_AFTER in metadata:
            self._discard(metadata[DISCARDED_AFTER])
        queued = (metadata.get(QUEUED) or {}).get("message")
        status = (body.get("status") or {}).get("message")
        for message in filter(None, [*body.get("history", []), queued, status]):
            if message.get("role") == "ROLE_USER":
                self._add_input(event.generation, message)
        for step in self._output(event):
            self._recorded.append((event.generation, step))

    def _discard(self, after: int) -> None:
        self._recorded = [
            (generation, step)
            for generation, step in self._recorded
            if generation <= after or INPUT in step
        ]

    def _add_input(self, generation: int, message: Json) -> None:
        # A message that was queued is in the log again when the agent gets it.
        identity = str(message.get("messageId", ""))
        if identity not in self._messages:
            self._messages.add(identity)
            content = [self._input_part(part) for part in message.get("parts", [])]
            self._recorded.append((generation, {INPUT: content}))

    def _output(self, event: TaskEvent) -> Iterator[Json]:
        if event.state not in _PAUSES:
            yield from filter(None, map(self._output_part, event.content))
            return
        others = [part for part in event.content if "text" not in part]
        yield from filter(None, map(self._output_part, others))
        state: Json = {"state": event.state}
        if event.text:
            state["text"] = event.text
        if event.interrupts:
            state["interrupts"] = event.interrupts
        yield {"state": state}

    def _output_part(self, part: Json) -> Json | None:
        kind = parts.event_type(part)
        if kind in _NOT_RECORDED:
            return None
        if "raw" in part or "url" in part:
            return {"file": self._file(part)}
        if "text" in part:
            return _text(part)
        if call := parts.tool_call(part):
            return {"tool_call": {"name": call.name, "arguments": call.arguments}}
        if result := parts.tool_result(part):
            return {"tool_result": {"content": result.content, "error": result.error}}
        return {"data": {"type": kind, "value": part.get("data")}}

    def _input_part(self, part: Json) -> Json:
        kept: Json = {name: part[name] for name in ("text", "data") if name in part}
        if "raw" in part or "url" in part:
            kept = self._file(part)
        answer = {
            parts.INTERRUPT_ID: parts.interrupt_id(part),
            parts.RESUME_STATUS: parts.resume_status(part),
        }
        return {**kept, "metadata": answer} if answer[parts.INTERRUPT_ID] else kept

    def _file(self, part: Json) -> Json:
        kept = {name: part[name] for name in ("filename", "mediaType") if part.get(name)}
        if "url" in part:
            return {**kept, "url": _public(part["url"])}
        content = b64decode(part["raw"])
        kept |= {"bytes": len(content), "sha256": sha256(content).hexdigest()}
        return {**kept, "raw": part["raw"]} if len(content) <= self._max_file_bytes else kept


def _text(part: Json) -> Json | None:
    text = part["text"]
    if parts.is_partial_tool_call(part):
        kind = "tool_arguments"
    elif parts.thinking_of([part]):
        kind = "thinking"
    else:
        kind = "text" if parts.text_of([part]) else "notice"
    return {kind: text} if text else None


def _public(url: str) -> str:
    """Return `url` without user, password, query and fragment, which may be credentials."""
    found = urlsplit(url)
    return urlunsplit((found.scheme, found.netloc.rpartition("@")[2], found.path, "", ""))


def outline(steps: list[Json]) -> list[str]:
    """Return `steps` as lines to compare and read, without ids and the addresses of files."""
    return [line for step in steps for line in _outlined(step)]


def _outlined(step: Json) -> list[str]:
    [(kind, value)] = step.items()
    if kind == INPUT:
        value = [_without(part, _LOCAL) for part in value]
    elif kind == "file":
        value = _without(value, _LOCAL)
    elif "interrupts" in value and kind == "state":
        interrupts = [_without(one, _CHANGING) for one in value["interrupts"]]
        value = {**value, "interrupts": interrupts}
    elif kind == "data" and value.get("type") in _SUBAGENTS:
        value = {**value, "value": _without(value.get("value"), _CHANGING)}
    return _labelled(kind.replace("_", " "), value)


_LOCAL = frozenset({"url", "raw", "metadata"})
"""What differs in a file, or an answer to an interrupt, although it is the same."""
_CHANGING = frozenset({"id", "toolCallId", "expiresAt"})
"""What differs in an interrupt although it asks the same."""


def _without(value: Any, names: frozenset[str]) -> Any:  # noqa: ANN401  # any JSON
    if not isinstance(value, dict):
        return value
    return {name: content for name, content in value.items() if name not in names}


def _labelled(label: str, value: Any) -> list[str]:  # noqa: ANN401  # any JSON
    if not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False, sort_keys=True)
    first, *more = value.split("\n")
    return [f"{label}: {first}", *(f"{' ' * len(label)}| {line}" for line in more)]
