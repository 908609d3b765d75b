"""``headrace agents``: list agents and whether a worker serves them."""

import click

from headrace_cli.client import GatewayClient, with_gateway
from headrace_cli.tables import table


@click.command()
@with_gateway
def agents(url: str, token: str | None) -> None:
    """List agents and whether a worker serves them."""
    rows = [
        (
            agent["id"],
            "available" if agent.get("available") else "no worker",
            agent.get("description", ""),
        )
        for agent in GatewayClient(url, token).get("/v1/agents").get("agents", [])
    ]
    table(("AGENT", "STATE", "DESCRIPTION"), rows)
