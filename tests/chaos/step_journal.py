"""What steps and waits did outside of their tasks, in a file that survives every process."""

import os
import secrets
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from headrace.model.step import StepRecord

FILE = "CHAOS_STEPS"
"""Environment variable with the file's path."""

STEPS = 10
"""Steps of each task."""

DID, GOT = "did", "got"
"""What a line tells: a step's function was called, or an attempt got its result."""


def did(task: str, step: int, key: str) -> str:
    """Note the effect of a step, and return its result, which no other call returns."""
    result = secrets.token_hex(4)
    note(DID, task, step, key)
    return result


def got(task: str, step: int, result: str) -> None:
    """Note what an attempt got as the step's result."""
    note(GOT, task, step, result)


def note(kind: str, task: str, step: int, what: str) -> None:
    """Add a line about a task's step, or about the wait before it."""
    # One call, so that a killed process leaves no half of a line.
    file = os.open(os.environ[FILE], os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    try:
        os.write(file, f"{kind} {task} {step} {what}\n".encode())
    finally:
        os.close(file)


class StepJournal:
    """The file, as it is after a run."""

    def __init__(self, path: Path) -> None:
        """Read the file at `path`; without one, no step was done."""
        self.lines: dict[tuple[str, str, int], list[str]] = defaultdict(list)
        """What they tell, by kind, task and step."""
        for line in path.read_text().splitlines() if path.exists() else ():
            kind, task, step, what = line.split()
            self.lines[kind, task, int(step)].append(what)

    @property
    def done(self) -> int:
        """How many steps were done."""
        return sum(kind == DID for kind, *_ in self.lines)

    @property
    def calls(self) -> int:
        """How often functions of steps were called."""
        return sum(len(keys) for (kind, *_), keys in self.lines.items() if kind == DID)

    def problems(self, task: str, records: Sequence[StepRecord]) -> Iterator[str]:
        """Yield where a completed task did a step not once, by its key, or got several results."""
        if len(records) != len({record.id for record in records}):
            yield f"a step has two records: {sorted(str(record.id) for record in records)}"
        if len(records) != STEPS:
            yield f"{len(records)} steps are recorded"
        for step in range(1, STEPS + 1):
            if len(set(self.lines[DID, task, step])) != 1:
                yield f"step {step} was done with keys {self.lines[DID, task, step]}"
            if len(set(self.lines[GOT, task, step])) != 1:
                yield f"step {step} had the results {self.lines[GOT, task, step]}"
