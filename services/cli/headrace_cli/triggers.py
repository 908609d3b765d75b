"""``headrace triggers``: tasks that begin for events."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace_cli.failures import CannotStart
from headrace_cli.gateway import at_gateway, with_gateway
from headrace_cli.printer import Printer, with_json
from headrace_cli.services import run_service

if TYPE_CHECKING:
    from headrace.client import Client

_HEADS = ("NAME", "AGENT", "SUBJECT", "STREAM", "OWNER", "STATE")


@click.group()
def triggers() -> None:
    """Begin tasks for events."""


@triggers.command()
def serve() -> None:
    """Run a triggers service: it begins the tasks (HEADRACE_NATS_URL, …)."""
    run_service("triggers", "headrace_triggers")


@triggers.command("list")
@with_gateway
@with_json
def list_triggers(*, url: str, token: str | None, printer: Printer) -> None:
    """List your triggers; operators see those of their tenant."""
    found = at_gateway(url, token, lambda client: client.triggers())
    printer.table(_HEADS, [(one, _row(one)) for one in found])


@triggers.command()
@with_gateway
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@with_json
def apply(*, url: str, token: str | None, file: Path, printer: Printer) -> None:
    """Make the triggers that FILE declares, or change them; they run as you.

    FILE is a headrace.yaml, or any YAML with a list of triggers.
    """
    declared = _declared(file)

    async def put(client: "Client") -> list[dict[str, Any]]:
        return list(await asyncio.gather(*map(client.put_trigger, declared)))

    made = at_gateway(url, token, put)
    printer.table(_HEADS, [(one, _row(one)) for one in made])


@triggers.command()
@with_gateway
@click.argument("name")
@with_json
def delete(*, url: str, token: str | None, name: str, printer: Printer) -> None:
    """Delete the trigger NAME. Tasks that it began go on."""
    at_gateway(url, token, lambda client: client.delete_trigger(name))
    printer.record({"deleted": name}, f"trigger {name} is deleted")


def _row(trigger: dict[str, Any]) -> tuple[str, ...]:
    names = ("name", "agent", "subject", "stream", "owner")
    state = "paused" if trigger.get("paused") else "active"
    return (*(str(trigger.get(name, "")) for name in names), state)


def _declared(file: Path) -> list[dict[str, Any]]:
    try:
        import yaml  # noqa: PLC0415 - an extra
    except ImportError as missing:
        raise CannotStart("reading YAML needs pip install 'headrace[worker]'") from missing
    try:
        content = yaml.safe_load(file.read_text())
    except (ValueError, yaml.YAMLError) as invalid:
        raise CannotStart(f"{file}: {invalid}") from invalid
    declared = content.get("triggers") if isinstance(content, dict) else None
    if not isinstance(declared, list) or not all(isinstance(one, dict) for one in declared):
        raise CannotStart(f"{file}: triggers: must be a list of triggers")
    return declared
