"""Text from elsewhere in log lines: escaped and cut, so that one event stays one line."""

import io
import logging

import pytest

from headrace.log_lines import LONGEST, LineFormatter

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
    told = lines.getvalue()
    assert told.count("\n") == 1
    assert told.removesuffix("\n").isprintable()
    assert r"a\n2026-01-01 ERROR" in told
    assert r"\x1b[2J" in told


def test_what_is_printable_stays_as_it_is(log: logging.Logger, lines: io.StringIO) -> None:
    log.warning("grüße, %s", "世界 🙂 C:\\new")
    assert lines.getvalue() == "WARNING grüße, 世界 🙂 C:\\new\n"


def test_a_long_message_is_cut_and_says_so(log: logging.Logger, lines: io.StringIO) -> None:
    log.warning("%s", "x" * 1_000_000)
    told = lines.getvalue()
    assert len(told) < LONGEST + 100
    assert told.endswith("characters more)\n")


def test_an_exceptions_text_fakes_no_line(log: logging.Logger, lines: io.StringIO) -> None:
    log.error("failed", exc_info=ValueError(HOSTILE))
    first, *others = lines.getvalue().splitlines()
    assert first == "ERROR failed"
    assert all(line.startswith("  ") and line.isprintable() for line in others)
    assert any("ValueError: a" in line for line in others)
