"""The commands' access to a gateway, through `headrace.client`."""

import os
import shlex
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from headrace.did_you_mean import did_you_mean
from headrace_cli.failures import RequestFailed
from headrace_cli.interrupts import run
from headrace_cli.quick_imports import quick_imports

if TYPE_CHECKING:
    from headrace.client import Client, RequestRefused

USUAL_URL = "http://127.0.0.1:8080"
"""The gateway that commands ask without ``--url`` and ``HEADRACE_URL``."""

_UNUSED = ("httpx._main",)
"""httpx's command line, which it imports where rich and pygments are installed."""

_AGENT_UNKNOWN = "AGENT_NOT_FOUND"
_TASK_UNKNOWN = "TASK_NOT_FOUND"
_NOBODY = "; start `headrace dev`, or name another gateway with --url or HEADRACE_URL"


@dataclass(frozen=True, slots=True)
class Gateway:
    """The gateway that a command asks, and with what credential."""

    url: str
    token: str | None

    def ask[Result](
        self,
        work: "Callable[[Client], Awaitable[Result]]",
        agent: str | None = None,
        task: str = "",
    ) -> Result:
        """Return the result of `work` as `ask_gateway` does, in a loop of its own."""
        return run(ask_gateway(self.url, self.token, work, agent, task))


async def ask_gateway[Result](
    url: str,
    token: str | None,
    work: "Callable[[Client], Awaitable[Result]]",
    agent: str | None = None,
    task: str = "",
) -> Result:
    """Return the result of `work`, which gets a client of the gateway at `url`.

    If the fleet has no `agent`, the error names one that is called nearly the same. If it has no
    `task`, the error names the task.

    Raises:
        RequestFailed: the gateway refused, or did not answer.
    """
    try:
        with quick_imports(_UNUSED):
            from headrace.client import (  # noqa: PLC0415 - an extra
                Client,
                ClientError,
                ConnectionLost,
                RequestRefused,
            )
    except ImportError as missing:
        raise RequestFailed(str(missing)) from missing

    try:
        async with Client(url, token=token) as client:
            try:
                return await work(client)
            except RequestRefused as refused:
                raise RequestFailed(await _why(client, refused, agent, task)) from refused
    except ConnectionLost as lost:
        was_there = getattr(lost.__cause__, "was_connected", True)
        raise RequestFailed(f"{lost}{'' if was_there else _NOBODY}") from lost
    except BrokenPipeError:  # Whoever read the output has stopped: click ends the command.
        raise
    except (ClientError, ValueError, OSError) as error:  # also a file that can't be read
        raise RequestFailed(str(error)) from error


async def _why(client: "Client", refused: "RequestRefused", agent: str | None, task: str) -> str:
    """Return why the gateway refused, and what the user may have meant."""
    if refused.reason == _AGENT_UNKNOWN:
        names = [one.name for one in await client.agents()]
        return f"{refused}{did_you_mean(agent or '', names)}"
    if task and refused.reason == _TASK_UNKNOWN:
        return f"{refused}: {task}"
    return str(refused)


def command_line(command: str, url: str) -> str:
    """Return how `command` is entered in this shell for the gateway at `url`."""
    usual = os.environ.get("HEADRACE_URL") or USUAL_URL
    return f"headrace {command}" if url == usual else f"headrace {command} --url {shlex.quote(url)}"


def console_url(gateway: str) -> str:
    """Return the URL of the console that the gateway at the URL `gateway` serves.

    Raises:
        click.UsageError: `gateway` is no URL of a gateway.
    """
    parts = urlsplit(gateway)
    if parts.scheme not in {"http", "https"} or not parts.netloc or parts.query or parts.fragment:
        raise click.UsageError(f"{gateway!r} is not the URL of a gateway, like http://HOST:PORT")
    return f"{gateway.rstrip('/')}/console/"


async def agent_of(client: "Client", agent: str | None, task: str) -> str:
    """Return `agent` if it is given, and otherwise the agent that has `task`."""
    return agent or await client.agent_of(task)


with_url = click.option(
    "--url",
    envvar="HEADRACE_URL",
    default=USUAL_URL,
    show_default=True,
    help="URL of any gateway.",
)
_token = click.option(
    "--token",
    envvar="HEADRACE_TOKEN",
    metavar="TOKEN",
    help="Bearer token. Prefer HEADRACE_TOKEN, which other processes can't see.",
)


def with_gateway(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for the gateway's URL and the credential to a command.

    The command gets a `Gateway` as its parameter ``gateway``.
    """

    @wraps(command)
    def asking(*arguments: Any, url: str, token: str | None, **options: Any) -> None:  # noqa: ANN401 - as the command takes them
        command(*arguments, gateway=Gateway(url, token), **options)

    return with_url(_token(asking))


with_agent = click.option(
    "--agent", metavar="NAME", help="Agent to use; default: the default agent."
)

with_agent_of_task = click.option(
    "--agent", metavar="NAME", help="Agent of the task; by default it is looked up."
)
