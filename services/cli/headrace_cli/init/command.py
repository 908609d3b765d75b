"""``headrace init``: begin a project."""

import shlex
from pathlib import Path

import click

from headrace_cli.init.project import create
from headrace_cli.printer import Printer, with_json


@click.command()
@click.option("--force", is_flag=True, help="Add the missing files to a folder that is not empty.")
@with_json
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
def init(folder: Path, *, force: bool, printer: Printer) -> None:
    """Create a project in DIR: an agent, its test, headrace.yaml, README.md and pyproject.toml.

    No existing file is changed.
    """
    written = create(folder, force=force)
    for outcome, names in (("created", written.created), ("kept", written.kept)):
        for name in names:
            path = str(folder / name)
            printer.record({"file": path, "outcome": outcome}, f"{outcome} {path}")
    printer.remark("\nNext:")
    if folder.resolve() != Path.cwd():
        printer.remark(f"  cd {shlex.quote(str(folder))}")
    printer.remark("  python -m pytest       # needs headrace[testing]")
    printer.remark("  headrace dev           # serves until Ctrl-C")
    printer.remark("  headrace send nails    # in another terminal")
