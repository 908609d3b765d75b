"""``headrace triggers``: tasks that begin for events."""

from typing import Any

import click

from headrace_cli.declared_commands import DeclaredCommands
from headrace_cli.services import run_service

_with_owner = click.option("--owner", help="Owner of the trigger; for operators.")


@click.group()
def triggers() -> None:
    """Begin tasks for events."""


def _row(trigger: dict[str, Any]) -> tuple[str, ...]:
    names = ("name", "agent", "subject", "stream", "owner")
    problem = trigger.get("problem")
    state = "paused" if trigger.get("paused") else "active"
    if problem and not trigger.get("paused"):
        state = f"failing: {problem['reason']}"
    return (*(str(trigger.get(name, "")) for name in names), state)


_COMMANDS = DeclaredCommands(
    triggers, "triggers", ("NAME", "AGENT", "SUBJECT", "STREAM", "OWNER", "STATE"), _row
)


@triggers.command()
def serve() -> None:
    """Run a triggers service: it begins the tasks (HEADRACE_NATS_URL, …)."""
    run_service("triggers", "headrace_triggers")


_COMMANDS.add_list(_with_owner)
_COMMANDS.add_apply("on")
_COMMANDS.add_change(
    "pause",
    "Pause the trigger NAME: its events wait in their stream until it is resumed.",
    lambda client, name, **terms: client.triggers.pause(name, **terms),
    _with_owner,
)
_COMMANDS.add_change(
    "resume",
    "Resume the paused trigger NAME: waiting events begin tasks.",
    lambda client, name, **terms: client.triggers.resume(name, **terms),
    _with_owner,
)
_COMMANDS.add_dead_letters()
_COMMANDS.add_change(
    "delete",
    "Delete the trigger NAME; tasks that it began continue.",
    lambda client, name, **terms: client.triggers.delete(name, **terms),
    _with_owner,
)
