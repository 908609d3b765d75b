"""The examples of docs/testing-agents.md, run as the one file that a reader makes of them."""

from pathlib import Path

from tests.architecture.tree import ROOT
from tests.support.document import blocks, pytest_in


def test_every_example_passes(tmp_path: Path) -> None:
    shown = [block.code for block in blocks(ROOT / "docs" / "testing-agents.md", "python")]
    (tmp_path / "test_page.py").write_text("\n\n".join(shown))
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    output = pytest_in(tmp_path)
    count = sum(block.count("async def test_") for block in shown)
    assert count == 7
    assert f"{count} passed" in output, output
