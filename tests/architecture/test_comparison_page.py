"""The comparison claims nothing for Headrace without a test that exists."""

import re

from tests.architecture.tree import ROOT

_ROW = re.compile(r"^\| (?!\||--)([^|]+) \| ([^|]+) \|", re.MULTILINE)
_TEST = re.compile(r"`tests/\S+/test_\w+\.py`")


def test_each_claim_of_the_comparison_names_a_test() -> None:
    rows = dict(_ROW.findall((ROOT / "docs" / "comparison.md").read_text()))
    assert len(rows) > 15
    without = [what for what, cell in rows.items() if cell != "no" and not _TEST.search(cell)]
    assert without == []
