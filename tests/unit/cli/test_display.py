"""Output on a terminal: each thing begins where the one before it ends."""

import io

import pytest
from rich.console import Console

from headrace_cli.display import RichDisplay


@pytest.fixture
def screen() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def display(screen: io.StringIO) -> RichDisplay:
    return RichDisplay(Console(file=screen, width=40))


def lines_of(screen: io.StringIO) -> list[str]:
    return [line.rstrip() for line in screen.getvalue().splitlines()]


def test_pieces_of_reasoning_continue_a_line(display: RichDisplay, screen: io.StringIO) -> None:
    display.think("one, ", depth=1)
    display.think("two\nthree", depth=1)
    assert lines_of(screen) == ["  one, two", "  three"]


def test_a_remark_ends_a_line_of_reasoning(display: RichDisplay, screen: io.StringIO) -> None:
    display.think("one", depth=1)
    display.remark("asks echo", depth=1)
    display.think("two", depth=1)
    assert lines_of(screen) == ["  one", "  asks echo", "  two"]


def test_a_card_ends_a_line_of_reasoning(display: RichDisplay, screen: io.StringIO) -> None:
    display.think("one", depth=1)
    display.tool_call("add", "{}", depth=1)
    display.think("two", depth=1)
    before, *card, after = lines_of(screen)
    assert (before, after) == ("  one", "  two")
    assert card[0].startswith("  ╭")


def test_the_answer_ends_a_line_of_reasoning(display: RichDisplay, screen: io.StringIO) -> None:
    display.think("one", depth=1)
    display.write("The answer.\n")
    display.think("two", depth=1)
    assert lines_of(screen) == ["  one", "The answer.", "  two"]
