"""Recorded cases, run again by the agents of a test fleet."""

import difflib
import logging
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from headrace.model import parts
from headrace.model.case import INPUT, Case, CaseInvalid, CaseRecorder, outline, parse_case
from headrace.model.events import Json
from headrace.model.task_report import RUN_ENDED_NAMES, TERMINAL_NAMES
from headrace.model.user_message import MessageContent
from headrace.testing.task import FleetTask

_log = logging.getLogger(__name__)


class Starter(Protocol):
    """The methods of a fleet that a replay uses."""

    async def start(  # noqa: D102 - as `TestFleet.start`
        self, agent: str, message: MessageContent, *, stepped: bool = False
    ) -> FleetTask: ...


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """What an agent did with a case; as a string, the difference to what was recorded."""

    recorded: list[str]
    """The case as lines, without ids and times."""
    replayed: list[str]
    """The same of the task that ran now."""

    @property
    def differences(self) -> list[str]:
        """The lines of a unified diff; empty: the agent did what was recorded."""
        return list(
            difflib.unified_diff(self.recorded, self.replayed, "recorded", "replayed", lineterm="")
        )

    def __str__(self) -> str:
        return "\n".join(self.differences)


def load_case(path: str | Path) -> Case:
    """Return the case in a file that ``headrace tasks export`` wrote.

    Raises:
        CaseInvalid: the file is not a case; the error names file, line and rule.
        OSError: the file can't be read.
    """
    try:
        return parse_case(Path(path).read_bytes().decode(), str(path))
    except UnicodeDecodeError as error:
        raise CaseInvalid(f"{path}: a case must be UTF-8: {error}") from None


async def replay(fleet: Starter, case: Case) -> ReplayReport:
    """Run `case` again (see `TestFleet.replay`)."""
    inputs = _inputs(case)
    recorder = CaseRecorder()
    task = await fleet.start(case.agent, inputs.popleft().parts, stepped=True)
    generation, state, interrupts = 0, "", list[Json]()
    while True:
        async for event in task.events(generation):
            recorder.add(event)
            generation = max(generation, event.generation)
            state = event.state or state
            interrupts = event.interrupts or interrupts
            if (
                inputs
                and inputs[0].is_due_after(len(recorder.steps))
                and state not in TERMINAL_NAMES
            ):
                await task.follow_up(inputs.popleft().answering(interrupts))
        if not inputs or state in TERMINAL_NAMES:
            break
        await task.follow_up(inputs.popleft().answering(interrupts))
    report = ReplayReport(outline(case.steps), outline(recorder.steps))
    if report.differences:
        _log.warning("%s: the agent's output differs:\n%s", case.source, report)
    return report


@dataclass(frozen=True, slots=True)
class _RecordedInput:
    parts: list[Json]
    position: int
    """Number of steps before it."""
    interrupts: list[Json]
    """The interrupts that were recorded last."""
    is_to_working_agent: bool

    def is_due_after(self, steps: int) -> bool:
        """Return whether it was sent to a working agent that had done so many `steps`."""
        return self.is_to_working_agent and steps >= self.position

    def answering(self, interrupts: list[Json]) -> list[Json]:
        """Return the parts, with the ids of the present `interrupts`."""
        now = {
            was.get("id"): now["id"] for was, now in zip(self.interrupts, interrupts, strict=False)
        }
        return [_renamed(part, now) for part in self.parts]


def _renamed(part: Json, ids: dict[str | None, str]) -> Json:
    metadata = part.get("metadata") or {}
    interrupt = metadata.get(parts.INTERRUPT_ID)
    if interrupt not in ids:
        return part
    return {**part, "metadata": {**metadata, parts.INTERRUPT_ID: ids[interrupt]}}


def _inputs(case: Case) -> deque[_RecordedInput]:
    found, interrupts = deque[_RecordedInput](), list[Json]()
    for position, step in enumerate(case.steps):
        interrupts = step.get("state", {}).get("interrupts", interrupts)
        if INPUT in step:
            content = [_sent(part, f"{case.source}:{position + 2}") for part in step[INPUT]]
            before = case.steps[position - 1].get("state", {}).get("state")
            works = position > 0 and before not in RUN_ENDED_NAMES
            found.append(_RecordedInput(content, position, interrupts, works))
    return found


def _sent(part: Json, place: str) -> Json:
    if "sha256" in part and "raw" not in part:
        raise CaseInvalid(
            f"{place}: a file of an input must have its content, {part.get('filename', '')!r} has "
            f"none; export the task with --max-file-bytes {part.get('bytes')}"
        )
    return {name: value for name, value in part.items() if name not in ("bytes", "sha256")}
