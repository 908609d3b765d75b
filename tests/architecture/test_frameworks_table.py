"""The table of adapters and what they can do names tests that there are."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_each_cell_names_a_test() -> None:
    page = (ROOT / "docs/frameworks.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("|")][2:]
    named = {name for row in rows for name in re.findall(r"`([a-z_0-9]+)`", row)}
    folders = ("tests/integration/worker", "tests/unit/worker")
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    tests = {name for path in sources for name in re.findall(r"def test_(\w+)\(", path.read_text())}
    assert len(rows) > 10
    assert named - tests == set()
