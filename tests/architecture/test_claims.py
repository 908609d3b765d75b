"""What pages for users claim is shown by tests, which `tests/claims.toml` names and pages do not.

A claim is the first cell of a row on its page.
"""

import re
import tomllib
from collections.abc import Iterable
from functools import cache

import pytest

from tests.architecture.test_named_tests import names_in
from tests.architecture.test_site import sections
from tests.architecture.tree import ROOT, modules_of_tests
from tests.architecture.words import INTERNAL

TABLES = ("docs/comparison.md", "docs/guides/operating.md")
"""Pages on which each row is a claim."""

_FIRST_CELL = re.compile(r"^\| (?!---)(.+?) \| ", re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+)`")


@cache
def claims() -> dict[str, dict[str, list[str]]]:
    """Return the tests of each claim, by page."""
    return tomllib.loads((ROOT / "tests" / "claims.toml").read_text())


def pages_for_users() -> list[str]:
    return [page for title, pages in sections().items() if title != INTERNAL for page in pages]


def claims_of(text: str) -> list[str]:
    """Return the first cells of a page's rows, without those of its tables' heads."""
    head = re.compile(r"^\| .+\n(?=\|---)", re.MULTILINE)
    return _FIRST_CELL.findall(head.sub("", text))


@cache
def existing() -> frozenset[str]:
    """Return every test module, as a path below `tests`, and every test, as ``path::name``."""
    found = set[str]()
    for file in modules_of_tests():
        path = file.relative_to(ROOT / "tests").as_posix()
        found |= {path, *(f"{path}::{name}" for name in names_in(file))}
    return frozenset(found)


@cache
def names_of_tests() -> frozenset[str]:
    """Return how a page could name one of the project's tests, in code."""
    named = [one.split("::") for one in existing() if "test_" in one]
    return frozenset(part for path, *names in named for part in (path.split("/")[-1], *names))


def named_tests(text: str) -> list[str]:
    """Return the project's tests that a text names."""
    parts = (part for code in _CODE.findall(text) for part in re.split(r"[/:\s]", code))
    return [part for part in parts if part.startswith("test_") and part in names_of_tests()]


def gone(named: Iterable[str]) -> list[str]:
    return [test for test in named if test not in existing()]


def test_each_claim_is_on_its_page_and_its_tests_exist() -> None:
    assert sum(map(len, claims().values())) > 50
    for page, stated in claims().items():
        found = claims_of((ROOT / page).read_text())
        assert [claim for claim in stated if claim not in found] == [], page
        assert {claim: gone(named) for claim, named in stated.items() if gone(named)} == {}, page
        assert [claim for claim, named in stated.items() if not named] == [], page


@pytest.mark.parametrize("page", [one for one in pages_for_users() if one.startswith(TABLES)])
def test_each_row_of_a_table_of_claims_has_a_test(page: str) -> None:
    rows = claims_of((ROOT / page).read_text())
    assert len(rows) > 10
    assert [what for what in rows if what not in claims()[page]] == []


def test_no_page_for_users_names_a_test() -> None:
    assert len(pages_for_users()) > 40
    found = {page: named_tests((ROOT / page).read_text()) for page in pages_for_users()}
    assert {page: named for page, named in found.items() if named} == {}


@pytest.mark.parametrize(
    "code",
    [
        "tests/e2e/test_chaos.py",
        "tests/e2e/test_chaos.py::test_a_seed",
        "test_no_page_for_users_names_a_test",
    ],
)
def test_a_page_that_names_a_test_is_seen(code: str) -> None:
    assert named_tests(f"It is shown by `{code}`, unlike `test_my_agent.py`.") != []
    assert named_tests("A test of yours: `test_my_agent.py`.") == []


def test_a_claim_whose_test_is_gone_is_seen() -> None:
    assert gone(["e2e/test_chaos.py", "e2e/test_chaos.py::test_nothing"]) == [
        "e2e/test_chaos.py::test_nothing"
    ]
