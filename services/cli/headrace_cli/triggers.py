"""``headrace triggers``: tasks that begin for events."""

import click

from headrace_cli.services import run_service


@click.group()
def triggers() -> None:
    """Begin tasks for events."""


@triggers.command()
def serve() -> None:
    """Run a triggers service: it begins the tasks (HEADRACE_NATS_URL, …)."""
    run_service("triggers", "headrace_triggers")
