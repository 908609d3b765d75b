"""Why a command gives up: one line for the person at the terminal, and an exit code."""

import os

import click

from headrace_cli.tables import printable

FATAL_EXITS = {2, os.EX_CONFIG}
"""How a service exits when starting it again cannot help: a bad setting, a missing module.

`headrace dev` then stops with the service's last line instead of starting it again.
"""


class CommandFailed(click.ClickException):
    """Why a command gives up; it may have another's words, also those of a server."""

    def format_message(self) -> str:
        """Return the message as a terminal may show it."""
        return printable(super().format_message())


class CannotStart(CommandFailed):
    """Something that the command needs is not there, or not as it must be."""


class Misconfigured(CannotStart):
    """As `CannotStart`; the exit code also reports it to this process's supervisor."""

    exit_code = os.EX_CONFIG


class RequestFailed(CommandFailed):
    """The gateway refused what the command asked for, or did not answer."""
