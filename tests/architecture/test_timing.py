"""Durations are passed to what waits (`timing.py`, parameters), and not patched in its module."""

import ast

from tests.architecture.tree import ROOT

_FOLDERS = ("unit", "integration", "contract")


def patched_durations(source: str) -> list[int]:
    """Return the lines on which an attribute is patched with a number of seconds."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "setattr"
        and isinstance(node.args[-1], ast.Constant)
        and isinstance(node.args[-1].value, float)
    ]


def test_no_test_patches_a_duration() -> None:
    paths = [path for folder in _FOLDERS for path in (ROOT / "tests" / folder).rglob("*.py")]
    patching = {path: text for path in paths if ".setattr(" in (text := path.read_text())}
    assert len(patching) > 10
    found = {str(path): patched_durations(text) for path, text in patching.items()}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_a_patched_duration_is_found() -> None:
    patched = 'monkeypatch.setattr(poll, "PAUSE", 0.1)\nmonkeypatch.setattr("poll.PAUSE", 0.2)\n'
    assert patched_durations(f"{patched}monkeypatch.setattr(poll, 'MOST', 2)\n") == [1, 2]
