"""``headrace triggers``: tasks that begin for events."""

from typing import Any

import click

from headrace_cli import declarations
from headrace_cli.declarations import some_declared_in, with_source
from headrace_cli.gateway import at_gateway, with_gateway
from headrace_cli.printer import Printer, with_json
from headrace_cli.services import run_service

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
@with_source
@with_json
def apply(*, url: str, token: str | None, source: str, printer: Printer) -> None:
    """Make the triggers that FILE or agents declare, or change them; they run as you.

    FILE is a headrace.yaml, or any YAML with a list of triggers. MODULE:ATTR are agents with
    @on; MODULE may be in the current directory.
    """
    declared = some_declared_in(source, "triggers")
    made = at_gateway(url, token, lambda client: declarations.apply(client, "triggers", declared))
    printer.table(_HEADS, [(one, _row(one)) for one in made])


@triggers.command()
@with_gateway
@click.argument("name")
@with_json
def pause(*, url: str, token: str | None, name: str, printer: Printer) -> None:
    """Let the events of the trigger NAME wait in their stream until it is resumed."""
    paused = at_gateway(url, token, lambda client: client.pause_trigger(name))
    printer.table(_HEADS, [(paused, _row(paused))])


@triggers.command()
@with_gateway
@click.argument("name")
@with_json
def resume(*, url: str, token: str | None, name: str, printer: Printer) -> None:
    """Let the events of the paused trigger NAME begin tasks again."""
    resumed = at_gateway(url, token, lambda client: client.resume_trigger(name))
    printer.table(_HEADS, [(resumed, _row(resumed))])


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
