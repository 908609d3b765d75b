"""A task's events as lines in a terminal."""

import pytest

from headrace.model.step import COMPLETED, STARTED, ShownStep
from headrace.model.task import WORKING
from headrace_cli.display import PlainDisplay
from headrace_cli.transcript import Transcript


def test_steps_are_lines_with_their_names_and_times(capsys: pytest.CaptureFixture[str]) -> None:
    transcript = Transcript(PlainDisplay(), "http://localhost")
    for step in (ShownStep("charge", STARTED), ShownStep("charge", COMPLETED, 1.25)):
        status = {"state": WORKING, "timestamp": "2030-01-01T00:00:00Z"}
        update = {"taskId": "t", "status": status, "metadata": step.metadata()}
        transcript.show({"statusUpdate": update})
    assert capsys.readouterr().err.splitlines() == [
        "task t WORKING",
        "step charge started",
        "step charge completed in 1.25 s",
    ]


def test_writes_to_memory_are_counted_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    transcript = Transcript(PlainDisplay(), "http://localhost")
    status = {"state": WORKING, "timestamp": "2030-01-01T00:00:00Z"}
    metadata = {"headrace.memory": {"conversation": 2, "task": 1}}
    transcript.show({"statusUpdate": {"taskId": "t", "status": status, "metadata": metadata}})
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["task t WORKING", "memory written: conversation 2, task 1"]
