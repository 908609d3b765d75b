"""``headrace config``: a ``headrace.yaml`` checked before it is used, and its JSON Schema."""

import os
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import orjson

from headrace.model.errors import HeadraceError
from headrace_cli.failures import CannotStart, Misconfigured
from headrace_cli.printer import Printer, with_json
from headrace_cli.services import import_from_here


@click.group()
def config() -> None:
    """Check a headrace.yaml, or print its JSON Schema."""


@config.command()
@with_json
@click.argument("file", default="headrace.yaml")
def check(file: str, printer: Printer) -> None:
    """Validate FILE and list its agents; no connection is opened."""
    import_from_here()
    try:
        declared = _configuration().declared_in(Path(file), os.environ, connect=False)
    except HeadraceError as error:
        raise CannotStart(str(error)) from None
    for warning in declared.warnings:
        click.echo(f"Warning: {warning}", err=True)
    for agent in declared.agents:
        for caution in agent.card.cautions:
            click.echo(f"Warning: agents.{agent.name}: {caution}", err=True)
        record = {"name": agent.name, "description": agent.card.description}
        printer.record(record, f"{agent.name}: {agent.card.description}")


@config.command("schema")
def schema_() -> None:
    """Print the JSON Schema of headrace.yaml, for editors."""
    click.echo(orjson.dumps(_configuration().schema(), option=orjson.OPT_INDENT_2).decode())


def _configuration() -> Any:  # noqa: ANN401  # the worker's, imported where it is installed
    try:
        return import_module("headrace_worker.config")
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("headrace"):
            raise
        raise Misconfigured(
            f"headrace.yaml needs the module {missing.name}: pip install 'headrace[worker]'"
        ) from missing
