"""The steps of docs/tutorial: the files that a reader has after each, the commands and outputs."""

from pathlib import Path

from tests.architecture.tree import ROOT
from tests.support.document import blocks, examples

STEPS = sorted((ROOT / "docs" / "tutorial").glob("*.md"))


def files_after(step: Path) -> dict[str, str]:
    """Return the files by name, as they are after `step`."""
    done = STEPS[: STEPS.index(step) + 1]
    return {block.title: block.code for page in done for block in blocks(page) if block.title}


def write_files(folder: Path, step: Path) -> None:
    """Write the files as they are after `step`."""
    for name, content in files_after(step).items():
        (folder / name).write_text(content)


def outputs(step: Path) -> dict[str, str]:
    """Return what each command of `step` writes, by the command."""
    return {code.strip(): output for code, output in examples(step, "sh")}


def commands(step: Path) -> list[str]:
    """Return each line that a reader of `step` enters."""
    return [line for block in blocks(step, "sh") for line in block.code.splitlines()]
