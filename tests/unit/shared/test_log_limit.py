"""The limit on repeated lines: how many pass, and that what is left out is counted."""

import logging
from threading import Event

import pytest

from headrace.log_lines import UNLIMITED, WINDOW, RepeatLimit


class Lines:
    """What a limited logger writes, at a time that the test sets."""

    def __init__(self, name: str, per_minute: int, window: float = WINDOW) -> None:
        self.now = 0.0
        self.written: list[logging.LogRecord] = []
        self.reported = Event()
        self.limit = RepeatLimit(per_minute, self._report, lambda: self.now, window)
        self._name = name

    def log(
        self, message: str, *, level: int = logging.WARNING, line: int = 1, unlimited: bool = False
    ) -> None:
        record = logging.LogRecord(self._name, level, "module.py", line, "%s", (message,), None)
        if unlimited:
            record.__dict__ |= UNLIMITED
        if self.limit.filter(record):
            self.written.append(record)

    def _report(self, line: logging.LogRecord) -> None:
        self.written.append(line)
        self.reported.set()

    @property
    def texts(self) -> list[str]:
        return [record.getMessage() for record in self.written]


@pytest.fixture
def lines() -> Lines:
    return Lines("headrace_worker.appender", 2)


def test_further_lines_of_a_place_are_left_out_and_counted(lines: Lines) -> None:
    for number in range(10):
        lines.log(f"full {number}")
    assert lines.texts == ["full 0", "full 1"]
    lines.limit.flush()
    assert lines.texts[2:] == ["left out 8 more lines like: full 9"]
    assert lines.written[2].__dict__["left_out"] == 8


def test_lines_of_the_http_server_which_anybody_can_cause_are_limited() -> None:
    server = Lines("uvicorn.error", 2)
    for _ in range(5):
        server.log("Invalid HTTP request received.")
    assert len(server.written) == 2


def test_another_place_has_a_limit_of_its_own(lines: Lines) -> None:
    for line in (1, 1, 1, 2):
        lines.log(f"from line {line}", line=line)
    assert lines.texts == ["from line 1", "from line 1", "from line 2"]


def test_the_next_minute_begins_with_the_count_of_the_last_one(lines: Lines) -> None:
    for _ in range(3):
        lines.log("full")
    lines.now = WINDOW
    lines.log("still full")
    assert lines.texts == ["full", "full", "left out 1 more lines like: full", "still full"]


def test_the_count_is_written_without_a_further_line() -> None:
    lines = Lines("headrace", 1, window=0.05)
    for _ in range(4):
        lines.log("full")
    assert lines.reported.wait(10)
    assert lines.texts == ["full", "left out 3 more lines like: full"]


def test_debug_lines_unlimited_ones_and_those_of_others_pass(lines: Lines) -> None:
    others = Lines("shop.agent", 2)
    for _ in range(5):
        lines.log("detail", level=logging.DEBUG)
        lines.log("error 1f2e", unlimited=True)
        others.log("an agent's")
    assert len(lines.written) == 10
    assert len(others.written) == 5
