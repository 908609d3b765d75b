"""How large the source is, how often a thing stands in it, and how far a request goes.

``python -m tests.architecture.measure`` prints them for the tree as it is; ``--static`` leaves out
what needs a running stack. They are figures to compare, not limits: limits are tests.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.tree import ROOT, SOURCE_ROOTS, modules

_SMALL = 60

_COMMANDS = {
    "publish a run": r"(?<!_)\bsubjects\.run\(",
    "begin a task": r"(?<!def )\btask_submitted\(",
    "continue a task": r"\bstatus_update\([^)]*\bSUBMITTED\b",
    "write a dead letter": r"\bsubjects\.dead\((?!\s*\"\*\")",
    "cancel through a holder": r"\bask=[\"']cancel[\"']|\bask_holder\([^)]*\bCANCEL\b",
    "store large files": r"\b_?files\.put\(",
}
"""What a module that carries out a command itself has in it."""

_JETSTREAM = {
    "$JS.API": r"\$JS\.",
    "$KV, $O": r"\$KV|\$O\.",
    "Nats- headers": r"[\"']Nats-[A-Z]",
    "error numbers": r"(?<![\d.])10[01]\d\d(?![\d_])",
}

_READS_A_FEED = r"[Rr]eader(?:\([^)]*\))?\.read(?:_now)?\(\)"


def main() -> None:
    """Print the table."""
    for name, value in static():
        print(f"{name:<62} {value:>7}")  # noqa: T201
    if "--static" in sys.argv:
        return
    from tests.architecture.entered import trace  # noqa: PLC0415 - needs servers

    for request, entered in trace().items():
        print(f"{'files that ' + request + ' enters':<62} {len(set().union(*entered.values())):>7}")  # noqa: T201
        for role, files in entered.items():
            print(f"{'    in the process of: ' + role:<62} {len(files):>7}")  # noqa: T201
        if "--files" in sys.argv:
            for file in sorted(set().union(*entered.values())):
                print("      ", Path(file).relative_to(ROOT))  # noqa: T201


def static() -> Iterator[tuple[str, int]]:
    """Yield what is read from the source alone."""
    sources = {path: path.read_text(encoding="utf-8") for path in modules()}
    trees = {path: ast.parse(text) for path, text in sources.items()}
    yield "source modules", len(sources)
    yield "source lines", sum(len(text.splitlines()) for text in sources.values())
    yield f"modules with one importer and under {_SMALL} lines", len(_lonely(sources, trees))
    yield "class names that stand in several modules", len(repeated_classes(trees))
    outside_feeds = {p: t for p, t in sources.items() if not str(p).endswith("/feeds.py")}
    yield "modules outside feeds.py that read a feed", _count(outside_feeds, _READS_A_FEED)
    for command, pattern in _COMMANDS.items():
        yield f"modules that {command}", _count(sources, pattern)
    outside = {p: t for p, t in sources.items() if "shared/headrace/jetstream/" not in str(p)}
    for what, pattern in _JETSTREAM.items():
        yield f"modules outside jetstream/ with {what}", _count(outside, pattern)
    yield "imports between protocols", len(_between_protocols(sources, trees))


def _count(sources: dict[Path, str], pattern: str) -> int:
    return sum(re.search(pattern, _code(text)) is not None for text in sources.values())


def _code(text: str) -> str:
    """Return the text without docstrings' and comments' prose on what others do."""
    return re.sub(r'(?m)^\s*#.*$|"""(?:.|\n)*?"""', "", text)


def _name(path: Path) -> str:
    for root in SOURCE_ROOTS:
        if path.is_relative_to(ROOT / root):
            parts = path.relative_to(ROOT / root).with_suffix("").parts
            return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    raise ValueError(path)


def _lonely(sources: dict[Path, str], trees: dict[Path, ast.Module]) -> list[str]:
    names = {_name(path): path for path in sources}
    importers: dict[str, set[str]] = defaultdict(set)
    for path, tree in trees.items():
        for imported in _imports(tree):
            if imported in names and imported != _name(path):
                importers[imported].add(_name(path))
    return [
        name
        for name, path in names.items()
        if len(importers[name]) == 1
        and path.name != "__init__.py"
        and len(sources[path].splitlines()) < _SMALL
    ]


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def repeated_classes(trees: dict[Path, ast.Module]) -> list[str]:
    """Return the names of classes that stand at the top of several modules."""
    where: dict[str, set[Path]] = defaultdict(set)
    for path, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                where[node.name].add(path)
    return [name for name, paths in where.items() if len(paths) > 1]


def _between_protocols(sources: dict[Path, str], trees: dict[Path, ast.Module]) -> list[str]:
    """Return the modules of one protocol that another's import; A2A 0.3 builds on A2A.

    A module counts once for each that imports it, however many of its names that takes.
    """
    found = []
    names = {_name(path) for path in sources}
    for path, tree in trees.items():
        mine = _protocol(_name(path))
        for imported in names.intersection(_imports(tree)):
            theirs = _protocol(imported)
            if mine and theirs and mine != theirs and (mine, theirs) != ("a2a_v03", "a2a"):
                found.append(f"{_name(path)} -> {imported}")
    return found


def _protocol(module: str) -> str:
    found = re.match(
        r"headrace_gateway\.(?:protocols\.)?(a2a|a2a_v03|agui|hector|copilotkit)\b", module
    )
    return found[1] if found else ""


if __name__ == "__main__":
    main()
