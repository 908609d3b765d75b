"""``headrace credential``: create a token and its entry for the file of credentials."""

import hashlib
import json
import secrets

import click

from headrace.model.queues import PRIORITIES
from headrace_cli.printer import Printer, with_json


@click.command()
@click.option("--owner", required=True, help="Owner whose tasks the token can access.")
@click.option("--tenant", default="default", show_default=True, help="Tenant of the owner.")
@click.option(
    "--priority", type=click.Choice(PRIORITIES), help="Priority of requests with this token."
)
@click.option(
    "--role", "roles", multiple=True, help="Role defined in the credentials file; repeatable."
)
@with_json
def credential(
    *, owner: str, tenant: str, priority: str | None, roles: tuple[str, ...], printer: Printer
) -> None:
    """Create a token. It is printed once, on stderr; its entry for HEADRACE_CREDENTIALS on stdout.

    headrace credential --owner ann >> credentials.toml

    With --json, both are in one object: `token` and `credential`.
    """
    token = f"hr_{secrets.token_urlsafe(32)}"
    entry: dict[str, object] = {
        "sha256": hashlib.sha256(token.encode()).hexdigest(),
        "tenant": tenant,
        "owner": owner,
    }
    entry |= {"priority": priority} if priority else {}
    entry |= {"roles": list(roles)} if roles else {}
    if printer.as_json:
        printer.record({"token": token, "credential": entry}, "")
        return
    click.echo("[[credential]]")
    for name, value in entry.items():
        # A JSON string without control characters is a TOML string too.
        click.echo(f"{name} = {json.dumps(value, ensure_ascii=False)}")
    click.echo(f"token: {token}", err=True)
