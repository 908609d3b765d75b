"""Bars on terminals, nothing elsewhere."""

import io
import sys

import pytest

from headrace_cli.progress import progress


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


def test_a_terminal_shows_how_many_steps_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress("Deleting", 4) as done:
        done(3)
    assert "Deleting" in terminal.getvalue()
    assert "3/4" in terminal.getvalue()


def test_nothing_is_shown_to_a_pipe_with_json_or_without_rich(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal, pipe = _Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    with progress("Deleting", 4) as done:
        done(3)
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress("Deleting", 4, is_shown=False) as done:
        done(3)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with progress("Deleting", 4) as done:
        done(3)
    assert (terminal.getvalue(), pipe.getvalue()) == ("", "")
