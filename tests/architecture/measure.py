"""How large the source is, how often a thing is in it, and how many files a request enters.

``python -m tests.architecture.measure`` prints this for the tree as it is, and the lines of each
feature's folder; ``--static`` leaves out what needs a running stack, ``--files`` names the files
that a request enters. They are figures to compare, not limits: limits are tests.

Source is what is under version control and neither test nor build output: Python of the packages
and of the examples, Lua of task state's Redis store, TypeScript and CSS of the console, TypeScript
of the JavaScript client. The examples in JavaScript are not counted. Lines are all lines, also
empty ones, comments and docstrings; lines of code are those of Python without them.
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.architecture.tree import ROOT, SOURCE_ROOTS, modules, parsed, tracked

_SMALL = 60

_NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}
"""Kinds of tokens that make no line one of code."""

ERROR_NUMBERS = r"(?<![\w.])10(?!000)[01]\d\d(?![\w.])"
"""JetStream's error numbers: 10000 is none, and a common round number."""

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
    "error numbers": ERROR_NUMBERS,
}

_READS_A_FEED = r"\breader(?:\([^)]*\))?\.read(?:_now|_ring)?\(\)"
_WRITES_TO_A_CLIENT = (
    r"\b_?transport\.(?:write|write_now|end)\(|\bsend(?:_text|_bytes|_json)?\("
    r"|\bcontext\.write\("
)

_LOOPS = r"(?m)^\s*(?:async )?(?:while|for)\b"

_LANGUAGES = {
    ".py": "Python",
    ".lua": "Lua",
    ".ts": "TypeScript",
    ".tsx": "TypeScript",
    ".css": "CSS",
}
_OTHER_ROOTS = ("services/console/src", "clients/javascript/src")
_PROTOCOLS = "headrace_gateway/protocols/"
"""Each folder in it is a feature of its own."""


def main() -> None:
    """Print the table."""
    for name, value in static():
        print(f"{name:<62} {value:>7}")  # noqa: T201
    for folder, lines in sorted(lines_by_folder(tracked()).items()):
        print(f"{'lines in ' + folder:<62} {lines:>7}")  # noqa: T201
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
    trees = {path: parsed(text) for path, text in sources.items()}
    yield "source modules", len(sources)
    for kind, lines in source_lines(tracked()).items():
        yield f"source lines: {kind}", lines
    packages = [text for path, text in sources.items() if "examples" not in path.parts]
    yield "lines of code: Python, without examples", sum(map(code_lines, packages))
    yield f"modules with one importer and under {_SMALL} lines", len(_lone_modules(sources, trees))
    yield "class names that stand in several modules", len(repeated_classes(trees))
    code = [_code(text) for path, text in sources.items() if path.name != "feeds.py"]
    yield "modules outside feeds.py that read a feed", sum(map(reads_a_feed, code))
    yield "    and write to a client, in a loop", sum(map(streams_a_feed, code))
    outside = {p: t for p, t in sources.items() if "shared/headrace/jetstream/" not in str(p)}
    for command, pattern in _COMMANDS.items():
        yield f"modules that {command}", _count(outside, pattern)
    for what, pattern in _JETSTREAM.items():
        yield f"modules outside jetstream/ with {what}", _count(outside, pattern)
    yield "imports between protocols", len(_between_protocols(sources, trees))


def reads_a_feed(code: str) -> bool:
    """Return whether a module's `code` reads events of a feed."""
    return re.search(_READS_A_FEED, code) is not None


def streams_a_feed(code: str) -> bool:
    """Return whether a module's `code` has a loop, reads events of a feed and writes to a client.

    Those that only read look for one event, or fold a page, and return the result. One without a
    loop is a step of the loop that calls it.
    """
    needed = (_READS_A_FEED, _WRITES_TO_A_CLIENT, _LOOPS)
    return all(re.search(pattern, code) is not None for pattern in needed)


def source_lines(files: Iterable[Path]) -> Counter[str]:
    """Return the lines of source among `files`, by language; the examples' by themselves."""
    lines = Counter[str]()
    for path in filter(_is_source, files):
        is_example = path.is_relative_to(ROOT / "examples")
        lines["examples" if is_example else _LANGUAGES[path.suffix]] += _lines(path)
    return lines


def code_lines(text: str) -> int:
    """Return the lines of a module that are neither blank, comment nor docstring."""
    lines = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(parsed(text)):
        # A string that stands alone is a docstring, of a field too.
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            lines.difference_update(range(node.lineno, (node.end_lineno or 0) + 1))
    return len(lines)


def lines_by_folder(files: Iterable[Path]) -> Counter[str]:
    """Return the lines of source among `files`, by the folder of the feature."""
    lines = Counter[str]()
    for path in filter(_is_source, files):
        lines[_feature(path)] += _lines(path)
    return lines


def _is_source(path: Path) -> bool:
    return path.suffix in _LANGUAGES and _root(path) is not None


def _root(path: Path) -> str | None:
    name = str(path)
    roots = (*map(str, SOURCE_ROOTS), *_OTHER_ROOTS)
    return next((root for root in roots if name.startswith(f"{ROOT}/{root}/")), None)


def _feature(path: Path) -> str:
    """Return the first folder below the package; of the protocols, that of the protocol."""
    root = _root(path) or ""
    below = path.parent.relative_to(ROOT / root)
    depth = 1 if root in _OTHER_ROOTS else 3 if str(below).startswith(_PROTOCOLS) else 2
    return "/".join((root, *below.parts[:depth]))


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


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


def _lone_modules(sources: dict[Path, str], trees: dict[Path, ast.Module]) -> list[str]:
    names = {_name(path): path for path in sources}
    importers: dict[str, set[str]] = defaultdict(set)
    for name, path in names.items():
        for imported in names.keys() & _imports(trees[path]):
            if imported != name:
                importers[imported].add(name)
    return [
        name
        for name, path in names.items()
        if len(importers[name]) == 1
        and "examples" not in path.parts
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
    """Return the names of classes that stand at the top of several modules.

    A leading underscore makes no difference to who reads the name.
    """
    where: dict[str, set[Path]] = defaultdict(set)
    for path, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                where[node.name.lstrip("_")].add(path)
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
