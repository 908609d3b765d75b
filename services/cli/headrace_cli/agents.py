"""``headrace agents``: list agents and whether a worker serves them."""

from dataclasses import asdict

import click

from headrace_cli.gateway import at_gateway, with_gateway
from headrace_cli.printer import Printer, with_json


@click.command()
@with_gateway
@with_json
def agents(url: str, token: str | None, printer: Printer) -> None:
    """List agents and whether a worker serves them."""
    found = at_gateway(url, token, lambda client: client.agents())
    rows = [
        (
            asdict(one),
            (one.name, "available" if one.is_available else "no worker", one.description),
        )
        for one in found
    ]
    printer.table(("AGENT", "STATE", "DESCRIPTION"), rows)
