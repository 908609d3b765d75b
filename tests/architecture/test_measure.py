"""What the table of `measure.py` counts, and what it does not."""

import re
from pathlib import Path

import pytest

from tests.architecture.measure import (
    ERROR_NUMBERS,
    code_lines,
    lines_by_folder,
    lone_modules,
    reads_a_feed,
    source_lines,
    streams_a_feed,
)
from tests.architecture.tree import ROOT, modules, tracked

BOUNDED = "while blocks := await reader.read_now():\n    rows += blocks\n"
STEP = "blocks = reader.read_ring()\ntransport.write_now(blocks)\n"
LOOP = "while blocks := await reader.read():\n    await transport.write(blocks)\n"


@pytest.mark.parametrize(("code", "counts"), [("FULL = 10077", True), ('len("10000")', False)])
def test_a_round_number_is_no_error_number(code: str, *, counts: bool) -> None:
    assert (re.search(ERROR_NUMBERS, code) is not None) is counts


@pytest.mark.parametrize(("code", "streams"), [(LOOP, True), (BOUNDED, False), (STEP, False)])
def test_a_loop_that_writes_to_a_client_is_distinguished_from_one_that_only_reads(
    code: str, *, streams: bool
) -> None:
    assert (reads_a_feed(code), streams_a_feed(code)) == (True, streams)


def test_lines_are_counted_by_language_and_those_of_tests_and_builds_are_not() -> None:
    files = tracked()
    counted = source_lines(files)
    assert counted.keys() == {"Python", "Lua", "TypeScript", "CSS", "examples"}
    assert counted.total() == lines_by_folder(files).total()
    others = [ROOT / "tests/conftest.py", ROOT / "services/console/tests/blocks.test.ts"]
    assert source_lines(others).total() == 0


MODULE = '''"""Docstring.

Two lines.
"""

import re  # a comment


class A:
    b: int
    """Of a field."""

    # Alone.
    def c(self) -> str:
        return """
        text
        """
'''


def test_lines_of_code_are_those_without_blanks_comments_and_docstrings() -> None:
    assert code_lines(MODULE) == len(["import", "class", "b", "def", "return", "text", "end"])


def test_each_protocol_is_a_folder_of_its_own_in_the_table() -> None:
    protocols = ROOT / "services/gateway/headrace_gateway/protocols"
    folders = {str(p.parent.relative_to(ROOT)) for p in protocols.glob("*/__init__.py")}
    assert len(folders) > 4
    assert folders <= lines_by_folder(tracked()).keys(), "add the new folder to git"


def test_a_folder_counts_all_files_below_it() -> None:
    one = ROOT / "services/task-state/headrace_task_state/store_redis/lua/page.lua"
    folder = str(Path("services/task-state/headrace_task_state/store_redis"))
    assert lines_by_folder([one]) == {folder: len(one.read_text().splitlines())}


_PAGE = ROOT / "docs" / "design.md"


def _section() -> str:
    page = _PAGE.read_text(encoding="utf-8")
    return page.partition("## The tree and its size\n")[2].partition("\n## ")[0]


def test_each_small_module_with_a_single_importer_has_a_reason() -> None:
    explained = set(re.findall(r"^\| `(headrace[\w.]*)[`*]", _section(), re.MULTILINE))
    found = {re.sub(r"^headrace_dojo\..*", "headrace_dojo.", name) for name in lone_modules()}
    assert found == explained, f"join it with its importer, or give the reason in {_PAGE}"


def test_the_documented_sizes_are_right_to_a_twentieth() -> None:
    [python, count] = re.findall(r"about ([\d,]+) lines of Python in\n?\s?([\d,]+)", _section())[0]
    [typescript] = re.findall(r"about ([\d,]+) lines of TypeScript", _section())
    lines = source_lines(tracked())
    assert _number(python) == pytest.approx(lines["Python"], rel=0.05)
    assert _number(typescript) == pytest.approx(lines["TypeScript"], rel=0.05)
    assert _number(count) == pytest.approx(len(modules()), rel=0.05)


def _number(text: str) -> int:
    return int(text.replace(",", ""))
