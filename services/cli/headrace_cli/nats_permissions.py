"""``headrace nats-permissions``: permissions on the bus, as nats-server's configuration."""

import click
from pydantic import ValidationError

from headrace.jetstream.permissions import Permissions, WorkerGroup
from headrace.model.errors import InvalidName
from headrace.model.queues import DEFAULT_TENANT
from headrace.settings import BusSettings

DEMO = "worker=echo,assistant,counter"
"""The group of the demo agents, which `docker-compose.yml` and the manifests start."""

_HEAD = """\
# Accounts and users of a Headrace fleet. Made by: {command}
# Include it in nats-server's configuration. Passwords come from the server's environment, each a
# word that begins with a letter: {variables}.
"""


@click.command("nats-permissions")
@click.option(
    "--group",
    "groups",
    multiple=True,
    default=[DEMO],
    show_default=True,
    help="Group of workers that share a user, and its agents: NAME=AGENT,AGENT. Repeatable.",
)
@click.option(
    "--tenant",
    "tenants",
    multiple=True,
    default=[DEFAULT_TENANT],
    show_default=True,
    help="Tenant whose runs workers may take. Repeatable; '*': any, and runs of other groups.",
)
def nats_permissions(groups: tuple[str, ...], tenants: tuple[str, ...]) -> None:
    """Print the NATS accounts and users of the fleet that HEADRACE_* describes.

    headrace nats-permissions --group shop=cart,search --group desk=assistant > accounts.conf
    """
    try:
        click.echo(configuration(groups, tenants), nl=False)
    except InvalidName as error:
        raise click.UsageError(str(error)) from error
    except ValidationError as invalid:
        first = invalid.errors()[0]
        name = "_".join(map(str, first["loc"])).upper()
        raise click.UsageError(f"HEADRACE_{name}: {first['msg']}") from invalid


def configuration(groups: tuple[str, ...], tenants: tuple[str, ...]) -> str:
    """Return the text of the file.

    Raises:
        InvalidName: the name of a group, an agent or a tenant is invalid.
    """
    permissions = Permissions(BusSettings(), [_group(text) for text in groups], tenants)
    named = [*(f"--group {group}" for group in groups), *(f"--tenant '{t}'" for t in tenants)]
    head = _HEAD.format(
        command=" ".join(["headrace nats-permissions", *named]),
        variables=", ".join(permissions.passwords().values()),
    )
    return head + permissions.configuration()


def _group(text: str) -> WorkerGroup:
    name, separator, agents = text.partition("=")
    if not separator:
        raise InvalidName("group", text, "is not of the form NAME=AGENT,AGENT")
    return WorkerGroup(name, tuple(agent.strip() for agent in agents.split(",")))
