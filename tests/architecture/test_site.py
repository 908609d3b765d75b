"""The documentation site shows every page, and every file that pages link to is on it.

The build itself (`make docs`) checks links and anchors between pages; `test_document_paths.py`
does the same on each run of the tests.
"""

import re
import tomllib
from pathlib import Path

from tests.architecture.tree import ROOT, tracked

_SITE = re.compile(r"^SITE = (.+)$", re.MULTILINE)
_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]+)")
_OTHER_PAGES = {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}


_INTERNALS = ROOT / "docs" / "design.md"


def internals() -> list[str]:
    """Return the pages of the internals: that of the navigation, and those that it lists."""
    listed = {(_INTERNALS.parent / to).resolve() for to in _LINK.findall(_INTERNALS.read_text())}
    pages = {_INTERNALS, *(path for path in listed if path.suffix == ".md")}
    return sorted(path.relative_to(ROOT).as_posix() for path in pages)


def sections() -> dict[str, list[str]]:
    """Return the pages of each section of the site; not all internals are in the navigation."""
    listed = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    named = {title: pages for section in listed for title, pages in section.items()}
    [*users, last] = named
    of_users = {page for title in users for page in named[title]}
    return {**named, last: [page for page in internals() if page not in of_users]}


def on_site() -> list[Path]:
    """Return the files that are copied to the site."""
    found = _SITE.search((ROOT / "Makefile").read_text())
    assert found
    parts = [ROOT / part for part in found[1].split()]
    return [path for path in tracked() if any(path.is_relative_to(part) for part in parts)]


def test_every_page_is_in_the_navigation_or_among_the_internals_once() -> None:
    pages = [path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert len(pages) > 20
    reached = [page for pages in sections().values() for page in pages]
    assert sorted(reached) == sorted([*pages, *_OTHER_PAGES])


def test_what_pages_link_to_is_on_the_site() -> None:
    files = set(on_site())
    pages = [path for path in files if path.suffix == ".md"]
    links = [(page, to) for page in pages for to in _LINK.findall(page.read_text())]
    assert len(links) > 100
    missing = [(page.name, to) for page, to in links if (page.parent / to).resolve() not in files]
    assert missing == []
