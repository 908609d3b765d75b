"""``headrace credential``: a new token, and what the file of credentials is to say of it."""

import hashlib
import json
import secrets

import click

from headrace.model.queues import PRIORITIES


@click.command()
@click.option("--owner", required=True, help="Whose tasks it sees.")
@click.option("--tenant", default="default", show_default=True, help="The owner's tenant.")
@click.option("--priority", type=click.Choice(PRIORITIES), help="Class of what is sent with it.")
@click.option("--role", "roles", multiple=True, help="A role of the file; may be given again.")
def credential(owner: str, tenant: str, priority: str | None, roles: tuple[str, ...]) -> None:
    """Make a token: it goes to stderr, once; its entry for HEADRACE_CREDENTIALS to stdout.

    headrace credential --owner ann >> credentials.toml
    """
    token = f"hr_{secrets.token_urlsafe(32)}"
    entry: dict[str, object] = {
        "sha256": hashlib.sha256(token.encode()).hexdigest(),
        "tenant": tenant,
        "owner": owner,
    }
    entry |= {"priority": priority} if priority else {}
    entry |= {"roles": list(roles)} if roles else {}
    click.echo("[[credential]]")
    for name, value in entry.items():
        # A JSON string without control characters is a TOML string too.
        click.echo(f"{name} = {json.dumps(value, ensure_ascii=False)}")
    click.echo(f"token: {token}", err=True)
