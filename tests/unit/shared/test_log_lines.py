"""Text from elsewhere in log lines: escaped and cut, so that one event stays one line."""

import io
import json
import logging
from datetime import datetime
from typing import Any

import pytest

from headrace import log_lines
from headrace.log_context import LogContext, about, about_task
from headrace.log_lines import LONGEST, JsonFormatter, LineFormatter
from headrace.model.task import TaskKey

HOSTILE = "a\n2026-01-01 ERROR   all is lost\r\x1b[2J\x1b]0;title\x07\x9b31m\u2028\u202e\x00"


@pytest.fixture
def lines() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def log(lines: io.StringIO) -> logging.Logger:
    handler = logging.StreamHandler(lines)
    handler.setFormatter(LineFormatter("%(levelname)s %(message)s"))
    made = logging.getLogger("headrace.test_log_lines")
    made.propagate = False
    made.handlers.clear()
    made.addHandler(handler)
    return made


def test_what_would_begin_a_line_or_move_a_terminals_cursor_is_escaped(
    log: logging.Logger, lines: io.StringIO
) -> None:
    log.warning("client said %s", HOSTILE)
    received = lines.getvalue()
    assert received.count("\n") == 1
    assert received.removesuffix("\n").isprintable()
    assert r"a\n2026-01-01 ERROR" in received
    assert r"\x1b[2J" in received


def test_what_is_printable_stays_as_it_is(log: logging.Logger, lines: io.StringIO) -> None:
    log.warning("grüße, %s", "世界 🙂 C:\\new")
    assert lines.getvalue() == "WARNING grüße, 世界 🙂 C:\\new\n"


def test_a_long_message_is_cut_and_reports_it(log: logging.Logger, lines: io.StringIO) -> None:
    log.warning("%s", "x" * 1_000_000)
    received = lines.getvalue()
    assert len(received) < LONGEST + 100
    assert received.endswith("characters more)\n")


def test_an_exceptions_text_fakes_no_line(log: logging.Logger, lines: io.StringIO) -> None:
    log.error("failed", exc_info=ValueError(HOSTILE))
    first, *others = lines.getvalue().splitlines()
    assert first == "ERROR failed"
    assert all(line.startswith("  ") and line.isprintable() for line in others)
    assert any("ValueError: a" in line for line in others)


class Json:
    """A logger that writes JSON lines, and the lines read again."""

    def __init__(self) -> None:
        self._lines = io.StringIO()
        handler = logging.StreamHandler(self._lines)
        handler.setFormatter(JsonFormatter("headrace-worker"))
        self.log = logging.getLogger("headrace.test_json")
        self.log.propagate = False
        self.log.handlers = [handler]

    def written(self) -> list[dict[str, Any]]:
        text = self._lines.getvalue()
        assert text.endswith("\n")
        assert text.replace("\n", "").isprintable()
        return [json.loads(line) for line in text.removesuffix("\n").split("\n")]


def test_a_json_line_has_time_level_service_logger_and_message() -> None:
    made = Json()
    made.log.warning("grüße, %s", "世界")
    [line] = made.written()
    assert datetime.fromisoformat(line.pop("time")).tzinfo is not None
    assert line == {
        "level": "warning",
        "service": "headrace-worker",
        "logger": "headrace.test_json",
        "message": "grüße, 世界",
    }


@pytest.mark.parametrize("text", [HOSTILE, "lone \ud800 surrogate", "\x7f"])
def test_hostile_text_is_one_json_line_and_is_read_unchanged(text: str) -> None:
    made = Json()
    made.log.warning("%s", text)
    [line] = made.written()
    assert line["message"] == text


def test_a_traceback_is_inside_its_json_line() -> None:
    made = Json()
    try:
        int(HOSTILE)
    except ValueError:
        made.log.exception("failed")
    [line] = made.written()
    assert "test_log_lines.py" in line["exception"]
    assert "ValueError: invalid literal for int()" in line["exception"]


def test_a_json_line_names_what_it_is_about() -> None:
    made, context = Json(), LogContext("t1", 4, 2, "shop", f"00-{'a' * 32}-{'b' * 16}-01")
    with about(context):
        made.log.warning("inside")
    made.log.warning("outside")
    made.log.warning("of one", extra=about_task(TaskKey("acme", "shop", "t2")))
    inside, outside, one = made.written()
    found = {"task": "t1", "run": 4, "attempt": 2, "agent": "shop", "trace_id": "a" * 32}
    assert found.items() <= inside.items()
    assert "task" not in outside
    assert (one["task"], one["agent"]) == ("t2", "shop")


def test_an_uncaught_error_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Json()
    monkeypatch.setattr(log_lines, "_log", made.log)
    error = ValueError("lost")
    log_lines._log_uncaught(ValueError, error, None)
    [line] = made.written()
    assert line["level"] == "critical"
    assert line["exception"] == "ValueError: lost"
