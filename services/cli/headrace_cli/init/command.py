"""``headrace init``: begin a project."""

import shlex
from pathlib import Path

import click

from headrace_cli.init.project import create
from headrace_cli.tables import one_line


@click.command()
@click.option("--force", is_flag=True, help="Add the missing files to a folder that is not empty.")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
def init(folder: Path, *, force: bool) -> None:
    """Create a project in DIR: an agent, its test, headrace.yaml, README.md and pyproject.toml.

    No existing file is changed.
    """
    written = create(folder, force=force)
    for name in written.created:
        click.echo(one_line(f"created {folder / name}"))
    for name in written.kept:
        click.echo(one_line(f"kept {folder / name}"))
    click.echo("\nNext:")
    if folder.resolve() != Path.cwd():
        click.echo(f"  cd {shlex.quote(str(folder))}")
    click.echo("  python -m pytest       # needs headrace[testing]")
    click.echo("  headrace dev           # serves until Ctrl-C")
    click.echo("  headrace send nails    # in another terminal")
