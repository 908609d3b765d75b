"""The table of adapters and what they can do names tests that there are."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_REFERS = ("the same", "as above", "\N{EN DASH} ")
"""How a cell begins that names no test: one beside or above it does, or a reason follows."""


def test_each_cell_names_a_test() -> None:
    page = (ROOT / "docs/frameworks.md").read_text().partition("## What is tested")[2]
    rows = [line for line in page.splitlines() if line.startswith("|")][2:]
    named = {name for row in rows for name in re.findall(r"`([a-z_0-9]+)`", row)}
    folders = ("tests/integration/worker", "tests/unit/worker")
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    tests = {name for path in sources for name in re.findall(r"def test_(\w+)\(", path.read_text())}
    assert len(rows) > 10
    assert named - tests == set()


def test_a_cell_without_a_test_gives_the_reason() -> None:
    page = (ROOT / "docs/frameworks.md").read_text()
    table = page[page.index("\n| |") :].strip().partition("\n\n")[0]
    cells = [cell.strip() for row in table.split("\n")[2:] for cell in row.split("|")[2:-1]]
    unshown = [cell for cell in cells if "`" not in cell and not cell.startswith(_REFERS)]
    assert unshown == []
