"""The files, folders, modules, settings and sections that documents name exist."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath

import pytest

from tests.architecture.tree import ROOT, tracked

_FILE = re.compile(r"`((?:[\w.-]+/)*[\w-]+\.(?:conf|json|lua|mjs|py|toml|ya?ml)|(?:[\w.-]+/)+)`")
_MODULE = re.compile(r"`(headrace_\w+\.\w+)")
_SETTING = re.compile(r"\bHEADRACE_[A-Z_]+[A-Z]\b")
_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]*))?\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)

_SOURCES = {".py", ".sh", ".yml", ".yaml", ".conf", ".mjs", ""}


def pages() -> list[Path]:
    """Return every document."""
    return [path for path in tracked() if path.suffix == ".md"]


@cache
def places() -> set[str]:
    """Return every way to name a tracked file or folder: from any of its folders on."""
    paths = [PurePosixPath(path.relative_to(ROOT).as_posix()) for path in tracked()]
    parts = {path.parts[:end] for path in paths for end in range(1, len(path.parts) + 1)}
    return {"/".join(part[begin:]) for part in parts for begin in range(len(part))}


@cache
def settings() -> set[str]:
    """Return every environment variable that a file other than a document or this one names."""
    files = [path for path in tracked() if path.suffix in _SOURCES and path != Path(__file__)]
    table = (ROOT / "docs" / "settings.md").read_text()
    return set(_SETTING.findall("\n".join([table, *map(_read, files)])))


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="ignore")


def unknown(text: str) -> Iterator[str]:
    """Yield the files, folders, modules and settings in `text` that do not exist."""
    yield from (name for name in _FILE.findall(text) if name.rstrip("/") not in places())
    for name in _MODULE.findall(text):
        if not {name.replace(".", "/"), f"{name.replace('.', '/')}.py"} & places():
            yield name
    yield from (name for name in _SETTING.findall(text) if name not in settings())


def dead_links(text: str, page: Path) -> Iterator[str]:
    """Yield the links in `text`, a document at `page`, that lead to no file or heading."""
    for target, section in _LINK.findall(text):
        place = page.parent / target
        if target and not place.exists():
            yield target
        elif section and section not in _sections(place.read_text() if target else text):
            yield f"{target}#{section}"


def _sections(text: str) -> set[str]:
    """Return the anchors of a document's headings, as GitHub makes them."""
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in _HEADING.findall(text)
    }


def test_what_documents_name_exists() -> None:
    found = pages()
    assert len(found) > 20
    assert [(page.name, name) for page in found for name in unknown(page.read_text())] == []


def test_links_lead_somewhere() -> None:
    found = pages()
    assert len(found) > 20
    assert [(page.name, to) for page in found for to in dead_links(page.read_text(), page)] == []


@pytest.mark.parametrize(
    "name",
    ["tasks/nowhere.py", "protocols/nothing/", "headrace_worker.nowhere", "HEADRACE_NOTHING"],
)
def test_what_does_not_exist_is_seen(name: str) -> None:
    assert list(unknown(f"See `{name}`, `tasks/cancel.py` and `HEADRACE_PREFIX`.")) == [name]


@pytest.mark.parametrize("to", ["nowhere.md", "#no-section", "design.md#no-section"])
def test_a_link_to_nowhere_is_seen(to: str) -> None:
    text = f"# A page\n[a]({to}), [b](#a-page), [c](design.md#what-always-holds)"
    assert list(dead_links(text, ROOT / "docs" / "page.md")) == [to]
