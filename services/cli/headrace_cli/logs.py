"""``headrace logs``: the levels at which running processes log."""

import click

from headrace_cli.gateway import Gateway, with_gateway
from headrace_cli.printer import Printer, with_json

_LEVELS = ("debug", "info", "warning", "error", "configured")
_SERVICES = ("gateway", "task-state", "triggers", "worker")
_HEADS = ("SERVICE", "PROCESS", "RELEASE", "LOG LEVEL")


@click.group()
def logs() -> None:
    """Show and change the levels at which running processes log; for operators."""


@logs.command()
@click.argument("name", metavar="[LEVEL]", type=click.Choice(_LEVELS), required=False)
@click.option("--service", type=click.Choice(_SERVICES), help="Only processes of this service.")
@click.option("--process", help="Only the process with this id.")
@with_gateway
@with_json
def level(
    *,
    name: str | None,
    service: str | None,
    process: str | None,
    gateway: Gateway,
    printer: Printer,
) -> None:
    """Have processes log at LEVEL until they end; without it, list processes and their levels.

    LEVEL `configured` is that of each process's settings. Workers that drain don't answer.
    """
    if name is None:
        found = [
            one
            for one in gateway.ask(lambda client: client.processes())
            if service in {None, one["service"]} and process in {None, one["process"]}
        ]
    else:
        found = gateway.ask(
            lambda client: client.set_log_level(name, service=service, process=process),
        )
    shown = ("service", "process", "release", "logLevel")
    printer.table(_HEADS, [(one, tuple(one[key] for key in shown)) for one in found])
