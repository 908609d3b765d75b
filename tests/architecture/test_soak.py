"""What only `make soak` runs names a test of `make test` that shows the same."""

import ast
import re

from tests.architecture.named_tests import exists, looked_at
from tests.architecture.tree import ROOT, tracked

_NAMES = {"in_soak", "marks"}


def _shown_by() -> list[str]:
    tests = [file for file in tracked() if re.fullmatch(r"test_\w+\.py", file.name)]
    texts = [file.read_text() for file in tests if ROOT / "tests" in file.parents]
    return [
        str(keyword.value.value)
        for text in texts
        if "tests.support.soak" in text
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        if call.func.id in _NAMES
        for keyword in call.keywords
        if keyword.arg == "shown_by" and isinstance(keyword.value, ast.Constant)
    ]


def test_what_shows_it_is_a_test_of_make_test() -> None:
    named = _shown_by()
    assert len(named) >= 5
    assert [one for one in named if not exists(one)] == []
    assert [one for one in named if "@in_soak" in looked_at(one)] == []
