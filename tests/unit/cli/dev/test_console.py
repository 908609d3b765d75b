import os
import pty
from collections.abc import Iterator

import pytest

from headrace_cli.dev.console import Console
from tests.support.waiting import until


def shown(writing: int, reading: int, *lines: tuple[str, str]) -> str:
    console = Console(writing)
    for name, line in lines:
        console.show(name, line)
    console.close()
    text = ""
    while text.count("\n") < len(lines):  # A terminal passes on what was written piece by piece.
        text += os.read(reading, 65_536).decode().replace("\r\n", "\n")
    return text


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    os.close(writing)
    os.close(reading)


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    reading, writing = pty.openpty()
    yield reading, writing
    os.close(writing)
    os.close(reading)


def test_lines_stand_under_their_agent(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    text = shown(writing, reading, ("worker-0", "hello"), ("task-state-0", "there"))
    assert text == "worker-0     | hello\ntask-state-0 | there\n"


def test_a_terminal_gets_a_colour_per_name(
    terminal: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    reading, writing = terminal
    lines = shown(writing, reading, ("a", "x"), ("b", "x"), ("a", "x")).splitlines()
    assert lines[0] == lines[2]
    assert lines[0].startswith("\x1b[")
    assert lines[0].split("m")[0] != lines[1].split("m")[0]


def test_no_color_is_respected(terminal: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    reading, writing = terminal
    assert "\x1b" not in shown(writing, reading, ("a", "x"))


def test_an_unread_pipe_blocks_no_process_and_skipped_lines_are_counted() -> None:
    reading, writing = os.pipe()
    console = Console(writing)
    for _ in range(20_000):
        console.show("worker-0", "x" * 100)
    read = b""
    while b"lines skipped: the terminal is too slow" not in read:
        read += os.read(reading, 65_536)
    assert b"headrace     | " in read
    os.close(reading)
    console.close()
    os.close(writing)


def test_a_reader_that_is_gone_is_no_failure() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    console = Console(writing)
    console.show("worker-0", "unheard")
    console.close()
    until(lambda: not console._writer.is_alive(), "the writer has ended")
    os.close(writing)


def test_a_pipe_made_non_blocking_loses_nothing(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    os.set_blocking(writing, False)
    console = Console(writing)
    for _ in range(2_000):
        console.show("worker-0", "x" * 100)
    console.show("worker-0", "the end")
    read = b""
    while b"the end" not in read:
        read += os.read(reading, 65_536)
    assert read.count(b"\n") == 2_001
    console.close()
