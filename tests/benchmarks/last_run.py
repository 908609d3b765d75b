"""What the last recorded run measured, and the parts of pages that are made of it."""

from collections.abc import Callable, Mapping
from pathlib import Path

import orjson

from tests.benchmarks import tables
from tests.benchmarks.report import Json
from tests.support.compose_file import ROOT

WHOLE = Path(__file__).parent / "last_run.json"
"""All that `make bench` measured."""

SMALL = Path(__file__).parent / "last_small_run.json"
"""What the small form measured, which is compared with by `tests.benchmarks.falls`."""

_BEGIN, _END = "<!-- measured: begin -->\n", "<!-- measured: end -->\n"


def save(report: Json, file: Path) -> None:
    """Write a report where it is read from."""
    file.write_bytes(orjson.dumps(_rounded(report), option=orjson.OPT_INDENT_2) + b"\n")


def _rounded(value: object) -> object:
    """Return the report without digits that mean nothing."""
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def load(file: Path) -> Json:
    """Read a report."""
    report: Json = orjson.loads(file.read_bytes())
    return report


def _tables(report: Json) -> str:
    return "\n".join(
        [
            tables.circumstances(report) + "\n",
            tables.summary(report).as_markdown(),
            tables.comparison(report).as_markdown(),
            tables.processes(report).as_markdown(),
        ]
    )


PAGES: Mapping[Path, Callable[[Json], str]] = {
    ROOT / "docs" / "benchmarks.md": _tables,
    ROOT / "README.md": tables.headline,
}
"""The pages with a measured part, and what makes it of a report."""


def parts(page: str) -> tuple[str, str, str]:
    """Return what stands before the measured part of a page, that part, and what stands behind."""
    before, _, rest = page.partition(_BEGIN)
    measured, _, after = rest.partition(_END)
    return before + _BEGIN, measured.strip("\n") + "\n", _END + after


def write_pages() -> None:
    """Write the measured parts of the pages anew, from the recorded run."""
    report = load(WHOLE)
    for page, measured in PAGES.items():
        before, _, after = parts(page.read_text())
        page.write_text(f"{before}\n{measured(report)}\n{after}")
