"""A task's result and events, in a form that is easy to assert on."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from headrace.model import parts
from headrace.model.events import GENERATION, INTERRUPTS, Json
from headrace.model.step import ShownStep
from headrace.model.task import RUN_ENDED, TERMINAL

_PREFIX = "TASK_STATE_"


@dataclass(frozen=True, slots=True)
class CalledTool:
    """A tool call of an agent, with its result if it has one."""

    name: str
    arguments: Any
    result: Any = None
    error: str = ""
    id: str = ""


@dataclass(frozen=True, slots=True)
class ResultFile:
    """A file in a task's results."""

    name: str
    media_type: str
    content: bytes | None
    """None: the result is a URL."""
    url: str = ""


@dataclass(frozen=True)
class TaskEvent:
    """One event of a task's log."""

    json: Json
    """An A2A StreamResponse."""

    @property
    def generation(self) -> int:
        """The event's number in its task's log, from 1."""
        return int(self._metadata.get(GENERATION, 0))

    @property
    def state(self) -> str:
        """The state that the event sets, such as ``working``; empty: none."""
        return state_name(self._body.get("status", {}).get("state", ""))

    @cached_property
    def content(self) -> list[Json]:
        """The A2A Parts that the agent emitted with it."""
        if "task" in self.json:
            return []
        content = self._body.get("artifact") or self._body.get("status", {}).get("message") or {}
        if "message" in self.json:
            content = self._body
        found: list[Json] = content.get("parts", [])
        return [] if content.get("role") == "ROLE_USER" else found

    @property
    def text(self) -> str:
        """The event's piece of the answer."""
        return parts.text_of(self.content)

    @property
    def thinking(self) -> str:
        """The event's piece of reasoning."""
        return parts.thinking_of(self.content)

    @property
    def tool_call(self) -> CalledTool | None:
        """The event's tool call."""
        called = next(filter(None, map(parts.tool_call, self.content)), None)
        return None if called is None else CalledTool(called.name, called.arguments, id=called.id)

    @property
    def tool_result(self) -> parts.ToolResultPart | None:
        """The event's tool result."""
        return next(filter(None, map(parts.tool_result, self.content)), None)

    @property
    def step(self) -> ShownStep | None:
        """The recorded step that the event shows."""
        return ShownStep.of(self._metadata)

    @property
    def interrupts(self) -> list[Json]:
        """The agent's questions, as AG-UI Interrupts, if the event ends the run with them."""
        found: list[Json] = self._metadata.get(INTERRUPTS, [])
        return found

    @property
    def _metadata(self) -> Json:
        return self._body.get("metadata") or {}

    @property
    def _body(self) -> Json:
        return next((body for body in self.json.values() if isinstance(body, dict)), {})


@dataclass(frozen=True)
class TaskReport:
    """A task at the end of a run, or when the run asked its user."""

    task: Json
    """The A2A Task; a bare Message is in its history."""

    @property
    def id(self) -> str:
        """The task's id."""
        return str(self.task["id"])

    @property
    def state(self) -> str:
        """The task's state, such as ``completed``, ``failed`` or ``input-required``."""
        return state_name(self.task["status"]["state"])

    @property
    def text(self) -> str:
        """The text of the answer; if there is none, of the last status."""
        artifact_text = "".join(parts.text_of(one["parts"]) for one in self.artifacts)
        return artifact_text or self.status_text

    @property
    def status_text(self) -> str:
        """The text of the last status: a question, or why the task failed."""
        message = self.task["status"].get("message") or {}
        return "".join(
            part["text"] for part in message.get("parts", []) if isinstance(part.get("text"), str)
        )

    @property
    def thinking(self) -> str:
        """The agent's reasoning."""
        return parts.thinking_of(self._parts())

    @property
    def artifacts(self) -> list[Json]:
        """The A2A Artifacts."""
        found: list[Json] = self.task.get("artifacts", [])
        return found

    @property
    def data(self) -> list[Any]:
        """The structured results."""
        return [part["data"] for part in self._results() if "data" in part]

    @property
    def tool_calls(self) -> list[CalledTool]:
        """The agent's tool calls in order, each with its result."""
        results = dict[str, list[parts.ToolResultPart]]()
        for one in filter(None, map(parts.tool_result, self._parts())):
            results.setdefault(one.id, []).append(one)
        found = list[CalledTool]()
        for call in filter(None, map(parts.tool_call, self._parts())):
            # An id may recur: its results belong to its calls in order.
            of_id = results.get(call.id)
            result = of_id.pop(0) if of_id else None
            content, error = (result.content, result.error) if result else (None, "")
            found.append(CalledTool(call.name, call.arguments, content, error, call.id))
        return found

    @property
    def usage(self) -> Json:
        """``tokens_used``, ``model`` and ``execution_time``; empty: the agent reported none."""
        names = ("tokens_used", "model", "execution_time")
        metadata = self.task.get("metadata") or {}
        return {name: metadata[name] for name in names if name in metadata}

    def _results(self) -> Iterator[Json]:
        for artifact in self.artifacts:
            yield from artifact["parts"]

    def _parts(self) -> list[Json]:
        """Return the parts of all messages and artifacts of the agent."""
        return [*_of_agent(self.task.get("history", [])), *self._results()]


def _of_agent(history: Iterable[Json]) -> Iterator[Json]:
    for message in history:
        if message.get("role") == "ROLE_AGENT":
            yield from message.get("parts", [])


def state_name(state: str) -> str:
    """Return ``input-required`` for A2A's ``TASK_STATE_INPUT_REQUIRED``."""
    return state.removeprefix(_PREFIX).lower().replace("_", "-")


RUN_ENDED_NAMES = frozenset(map(state_name, RUN_ENDED))
TERMINAL_NAMES = frozenset(map(state_name, TERMINAL))
