"""``headrace``: all commands of the command line, each imported on use.

Lazy imports keep ``headrace send`` fast and let each service run without the others' dependencies.
"""

from difflib import get_close_matches
from importlib import import_module

import click

from headrace_cli.quick_imports import quick_imports

_COMMANDS = {
    "init": "Create a project in DIR: an agent, its test, headrace.yaml, "
    "README.md and pyproject.toml.",
    "dev": "Run the whole stack on this machine until Ctrl-C.",
    "gateway": "Run a gateway: A2A and AG-UI over HTTP (HEADRACE_HTTP_PORT, HEADRACE_NATS_URL, …).",
    "worker": "Run a worker with the agents in MODULE:ATTR; "
    "MODULE may be in the current directory.",
    "task-state": "Run a task state service: the view of all tasks in Redis "
    "(HEADRACE_REDIS_URL, …).",
    "triggers": "Begin tasks for events.",
    "open": "Open the console in the browser.",
    "agents": "List agents and whether a worker serves them.",
    "send": "Send TEXT to an agent and stream its answer.",
    "chat": "Chat with an agent until Ctrl-D.",
    "tail": "Stream TASK's answer; dropped connections are resumed.",
    "logs": "Show and change the levels at which running processes log; for operators.",
    "tasks": "List tasks, the latest first; without --agent those of every agent.",
    "schedules": "Begin tasks at a time, at an interval, or by cron.",
    "usage": "Show the usage of runs: tokens, cost, number and duration.",
    "cancel": "Cancel TASK.",
    "fork": "Begin a new task with TASK's past.",
    "completion": "Print a script that completes commands and options in SHELL.",
    "credential": "Create a token.",
    "rotate-key": "Add a new key for signing agent cards and notifications.",
    "doctor": "Check settings, NATS, Redis and services, and report problems and remedies.",
    "dead": "Inspect dead letters: failed runs, unreadable messages, undeliverable notifications.",
    "memory": "Show and delete what agents remember; for operators.",
    "workers": "List live workers and the agents that they serve; for operators.",
    "view": "Show how far lists are behind each event stream; for operators.",
    "streams": "Compare streams and buckets with the settings, and change them.",
    "backup": "Write the fleet's streams into FOLDER while the fleet works.",
    "restore": "Create the fleet's streams from the backup in FOLDER, on a NATS without them.",
    "config": "Check a headrace.yaml, or print its JSON Schema.",
    "settings": "Print all environment variables as a Markdown table.",
    "asyncapi": "Print the bus contract as an AsyncAPI 3.0 document, in JSON.",
    "nats-permissions": "Print the NATS accounts and users of the fleet that HEADRACE_* describes.",
}
"""Each command's line in ``headrace --help``, which imports none of them."""

_PLACES = {
    "init": "init.command:init",
    "dev": "dev.command:dev",
    "gateway": "services:gateway",
    "worker": "services:worker",
    "task-state": "services:task_state",
    "open": "open:open_console",
    "doctor": "doctor.command:doctor",
    "restore": "backup:restore",
    "dead": "dead.command:dead",
    "settings": "settings_table:settings",
}
"""Commands that are not in the module of their name, and where they are."""


class LazyGroup(click.Group):
    """A group whose commands are named here and imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """Return the commands' names, in the order in which help lists them."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # click's signature
        """Import and return the command `cmd_name`; None if it does not exist."""
        if cmd_name not in _COMMANDS:
            return None
        own = cmd_name.replace("-", "_")
        module, attribute = _PLACES.get(cmd_name, f"{own}:{own}").split(":")
        with quick_imports():
            command = getattr(import_module(f"headrace_cli.{module}"), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{module}:{attribute} is not a click command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that `args` begin with; the error names one of nearly the same name."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as unknown:
            near = get_close_matches(args[0], _COMMANDS, n=1)
            if not near:
                raise
            raise click.UsageError(f"{unknown.message} Did you mean {near[0]!r}?", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # click's signature
        """Write the list of commands."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="headrace", prog_name="headrace")
def main() -> None:
    """Run A2A and AG-UI agents as a fleet, send messages to them, and inspect their tasks."""
