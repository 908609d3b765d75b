"""``headrace gateway``, ``worker``, ``task-state`` and ``triggers serve``: each runs one service.

Only this module imports the services, and only by name: the command line installs and imports
without them.
"""

import os
import re
import signal
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import click

from headrace_cli.failures import CannotStart, Misconfigured
from headrace_cli.quick_imports import quick_imports

_DOTTED = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*"
_TARGET = re.compile(rf"{_DOTTED}:{_DOTTED}(,{_DOTTED}:{_DOTTED})*")

_UNUSED: Mapping[str, tuple[str, ...]] = {
    "gateway": ("watchfiles",),
    "task-state": ("opentelemetry.metrics", "opentelemetry.sdk", "uvicorn"),
    "triggers": ("uvicorn",),
}
"""What libraries of a service import if it is installed, for functions that the service does not
use: uvicorn's reload, redis-py's metrics, FastStream's HTTP server."""


_PLUGINS = "PYDANTIC_DISABLE_PLUGINS"


def check_target(target: str) -> str:
    """Return `target` if it has the form MODULE:ATTR, or is several of these with commas.

    Raises:
        CannotStart: it has not.
    """
    if not _TARGET.fullmatch(target):
        raise CannotStart(f"agents must be given as MODULE:ATTR, not {target!r}")
    return target


@click.command()
def gateway() -> None:
    """Run a gateway: A2A and AG-UI over HTTP (HEADRACE_HTTP_PORT, HEADRACE_NATS_URL, …)."""
    # gRPC's core reads it on import, and would write a line for each malformed header of a client.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    run_service("gateway", "headrace_gateway")


@click.command()
@click.argument("target", metavar="MODULE:ATTR", default="")
@click.option(
    "--config", metavar="FILE", default="", help="headrace.yaml with agents to run instead."
)
@click.option("--no-reload", is_flag=True, help="Do not follow the changes of --config.")
def worker(target: str, config: str, *, no_reload: bool) -> None:
    """Run a worker with the agents in MODULE:ATTR; MODULE may be in the current directory.

    Separate several by commas. With --config, run those that a headrace.yaml declares, and follow
    its changes. SIGTERM hands active runs to other workers after HEADRACE_DRAIN_SECONDS; SIGUSR1
    lets them end here first.
    """
    # Not ignored: the process that drains a worker waits for its end.
    signal.signal(signal.SIGUSR1, _exit)
    if bool(target) == bool(config):
        raise CannotStart("a worker needs either MODULE:ATTR or --config FILE")
    if target:
        check_target(target)
    import_from_here()
    run_service("worker", "headrace_worker", target, config, reload=not no_reload)


@click.command("task-state")
def task_state() -> None:
    """Run a task state service: the view of all tasks in Redis (HEADRACE_REDIS_URL, …)."""
    run_service("task-state", "headrace_task_state")


def import_from_here() -> None:
    """Let modules of the current folder be imported, as ``python -m`` does; our script does not."""
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)


def run_service(service: str, package: str, *arguments: str, **options: bool) -> NoReturn:
    """Run the service in this process until it ends."""
    # Importing a service takes most of its start, and an unhandled SIGUSR2 would end the process. A
    # function, because child processes would inherit SIG_IGN.
    signal.signal(signal.SIGUSR2, _ignore)
    # To find plugins, pydantic reads the metadata of all packages. Only agents may have some.
    is_given = _PLUGINS in os.environ
    os.environ.setdefault(_PLUGINS, "true")
    with quick_imports(_UNUSED.get(service, ())):
        run = module_of(service, f"{package}.main").run
    if service == "worker" and not is_given:
        del os.environ[_PLUGINS]
    sys.exit(run(*arguments, **options))


def _ignore(_number: int, _frame: object) -> None:
    """Ignore a signal that a service handles once it has its settings."""


def _exit(_number: int, _frame: object) -> NoReturn:
    """End a service that has begun nothing yet."""
    sys.exit()


def module_of(service: str, name: str) -> Any:  # noqa: ANN401  # whatever the service has
    """Return a module of a service.

    Raises:
        Misconfigured: what the service needs is not installed.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("headrace"):
            raise  # A broken installation, not a missing extra: the traceback shows where.
        raise Misconfigured(
            f"the {service} needs the module {missing.name}: pip install 'headrace[{service}]'"
        ) from missing
