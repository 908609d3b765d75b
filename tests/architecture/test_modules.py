"""Modules are named after an idea and leave the environment to who composes them."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.measure import repeated_classes
from tests.architecture.tree import ROOT, modules, parsed

NAMES_OF_NOTHING = {"base", "common", "core", "helpers", "manager", "misc", "util", "utils"}

ENVIRONMENT = {"environ", "environb", "getenv"}


def surroundings(source: str) -> Iterator[str]:
    """Yield each place in `source` that reads the environment, itself or by making settings."""
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Attribute | ast.Name):
            name = node.attr if isinstance(node, ast.Attribute) else node.id
            if name in ENVIRONMENT:
                yield f"line {node.lineno}: {name}"
        if isinstance(node, ast.Call) and _last_name(node.func).endswith("Settings"):
            yield f"line {node.lineno}: {_last_name(node.func)}()"


def _last_name(function: ast.expr) -> str:
    return ast.unparse(function).rpartition(".")[2]


def is_composition_root(path: Path) -> bool:
    """Whether `path` may read the environment.

    It is a service's main, what stands for it in an application of the user's, or the command line.
    In such an application OpenTelemetry reads its own variables, and so do its spans. Settings read
    the environment where they are made, which counts as reading it.
    """
    may = (f"shared/headrace/{name}.py" for name in ("embedding", "environment", "tracing"))
    is_named = any(path.match(one) for one in may)
    return path.name == "main.py" or is_named or "headrace_cli" in path.parts


def test_every_module_is_named_after_something() -> None:
    assert [path for path in modules() if NAMES_OF_NOTHING & {path.stem, path.parent.name}] == []


def test_only_composition_roots_read_their_surroundings() -> None:
    found = {
        str(path.relative_to(ROOT)): places
        for path in modules()
        if not is_composition_root(path) and (places := list(surroundings(path.read_text())))
    }
    assert found == {}


REPEATED = {
    "Order": "of two examples, which nobody reads side by side",
}
"""Names of classes that stand in several modules, each with the reason."""


def test_class_names_are_unique() -> None:
    found = repeated_classes({path: parsed(path.read_text()) for path in modules()})
    assert found == [*REPEATED], "rename one of them"


def test_a_class_name_in_two_modules_is_seen() -> None:
    trees = {
        Path("a.py"): ast.parse("class Same: ...\nclass _Own: ..."),
        Path("b.py"): ast.parse("class _Same: ..."),
        Path("c.py"): ast.parse("class Other: ..."),
    }
    assert repeated_classes(trees) == ["Same"]


@pytest.mark.parametrize(
    "source",
    ["x = GatewaySettings()", "import os\nos.environ['X']", "from os import getenv\ngetenv"],
)
def test_reading_the_surroundings_is_seen(source: str) -> None:
    assert list(surroundings(source)) != []
