"""``headrace``: all commands of the command line, each imported on use.

Lazy imports keep ``headrace send`` fast and let each service run without the others' dependencies.
"""

from importlib import import_module

import click

_COMMANDS = {
    "dev": "headrace_cli.dev:dev",
    "gateway": "headrace_cli.services:gateway",
    "worker": "headrace_cli.services:worker",
    "task-state": "headrace_cli.services:task_state",
    "agents": "headrace_cli.reading:agents",
    "send": "headrace_cli.sending:send",
    "tail": "headrace_cli.sending:tail",
    "tasks": "headrace_cli.reading:tasks",
    "cancel": "headrace_cli.sending:cancel",
    "credential": "headrace_cli.credential:credential",
    "rotate-key": "headrace_cli.rotating:rotate_key",
    "dead": "headrace_cli.dead:dead",
    "streams": "headrace_cli.streams:streams",
    "agui": "headrace_cli.agui.command:agui",
    "config": "headrace_cli.configuring:config",
    "settings": "headrace_cli.settings_table:settings",
    "asyncapi": "headrace_cli.asyncapi:asyncapi",
    "nats-permissions": "headrace_cli.nats_permissions:nats_permissions",
}


class LazyGroup(click.Group):
    """A group whose commands are named here and imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        """Return the commands' names, in the order in which help lists them."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # click's signature
        """Import and return the command `cmd_name`; None if it does not exist."""
        if cmd_name not in _COMMANDS:
            return None
        module, attribute = _COMMANDS[cmd_name].split(":")
        command = getattr(import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{_COMMANDS[cmd_name]} is not a click command")
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="headrace", prog_name="headrace")
def main() -> None:
    """Run A2A and AG-UI agents as a fleet: start it, talk to it, look into it."""
