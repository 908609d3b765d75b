"""``headrace agents``: list agents and whether a worker serves them."""

import json
from dataclasses import asdict

import click

from headrace_cli.gateway import at_gateway, with_gateway, with_json
from headrace_cli.tables import table


@click.command()
@with_gateway
@with_json
def agents(url: str, token: str | None, *, as_json: bool) -> None:
    """List agents and whether a worker serves them."""
    found = at_gateway(url, token, lambda client: client.agents())
    if as_json:
        for one in found:
            click.echo(json.dumps(asdict(one)))
        return
    rows = [
        (one.name, "available" if one.is_available else "no worker", one.description)
        for one in found
    ]
    table(("AGENT", "STATE", "DESCRIPTION"), rows)
