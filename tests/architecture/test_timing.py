"""Durations are passed to what waits (`timing.py`, parameters), and not patched in its module."""

import ast
import re

from tests.architecture.tree import ROOT, parsed

_FOLDERS = ("unit", "integration", "contract")
_NAMES = re.compile(r"PAUSE|TIMEOUT|SECONDS|INTERVAL")


def patched_durations(source: str) -> list[int]:
    """Return the lines on which an attribute is patched with seconds or a `timedelta`."""
    return [
        node.lineno
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "setattr"
        and (_is_duration(node.args[-1]) or _is_pause(node))
    ]


def _is_pause(call: ast.Call) -> bool:
    """Tell whether a number is set under a duration's name: ``"_PAUSE", 0``."""
    *names, value = call.args
    return any(_NAMES.search(ast.unparse(name)) for name in names) and isinstance(
        value, ast.Constant
    )


def _is_duration(value: ast.expr) -> bool:
    match value:
        case ast.UnaryOp(operand=operand):
            return _is_duration(operand)
        case ast.Call(func=ast.Name("timedelta") | ast.Attribute(attr="timedelta")):
            return True
    return isinstance(value, ast.Constant) and isinstance(value.value, float)


def test_no_test_patches_a_duration() -> None:
    paths = [path for folder in _FOLDERS for path in (ROOT / "tests" / folder).rglob("*.py")]
    patching = {path: text for path in paths if ".setattr(" in (text := path.read_text())}
    assert len(patching) > 10
    found = {str(path): patched_durations(text) for path, text in patching.items()}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_a_patched_duration_is_found() -> None:
    patched = 'monkeypatch.setattr(poll, "PAUSE", 0.1)\nmonkeypatch.setattr("poll.PAUSE", 0.2)\n'
    patched += "monkeypatch.setattr(poll, 'PAUSE', -1e9)\n"
    patched += "monkeypatch.setattr(poll, 'PAUSE', timedelta(0))\n"
    patched += "monkeypatch.setattr(poll, '_PAUSE', 0)\n"
    patched += "monkeypatch.setattr(poll, 'MOST', 2)\n"
    assert patched_durations(patched) == [1, 2, 3, 4, 5]
