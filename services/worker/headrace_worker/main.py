"""Where a worker is put together: ``headrace worker MODULE:ATTR``."""

import asyncio
import logging
import os
import signal
import sys
from functools import partial
from pathlib import Path

import uvloop
from pydantic import ValidationError

from headrace import garbage, log_lines, observing
from headrace.background import keep_running
from headrace.model.errors import BusUnavailable, StreamsDiffer
from headrace.sdk.agent import Agents
from headrace.sdk.errors import Misdeclared
from headrace.secret_settings import first_error
from headrace_worker.config import Unusable, build, read
from headrace_worker.config.follow import follow
from headrace_worker.loading import load
from headrace_worker.settings import WorkerSettings
from headrace_worker.worker import Worker

_log = logging.getLogger(__name__)


def run(target: str = "", config: str = "") -> int:
    """Serve the agents that `target` (MODULE:ATTR) or the file `config` names until SIGTERM.

    Returns the process's exit code: 78 (EX_CONFIG) where starting again cannot help.
    """
    file = Path(config) if config else None
    try:
        settings = WorkerSettings()
        agents = build(read(file, os.environ)) if file else load(target)
    except (ValidationError, Misdeclared, Unusable) as error:
        sys.stderr.write(f"{_one_line(error)}\n")
        return os.EX_CONFIG
    log_lines.configure(settings.log_level)
    return uvloop.run(serve(settings, agents, file))


async def serve(settings: WorkerSettings, agents: Agents, file: Path | None = None) -> int:
    """Work until a signal says to leave; follow the `file` that the agents are from, if any."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    worker = Worker(settings, agents)
    try:
        observing.serve(settings.metrics_host, settings.metrics_port, lambda: worker.is_ready)
    except OSError as error:
        sys.stderr.write(f"HEADRACE_METRICS_PORT: {error}\n")
        return 1
    starting = asyncio.create_task(worker.start())
    leaving = asyncio.create_task(told.wait())
    await asyncio.wait({starting, leaving}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        return 0
    try:
        starting.result()
    except (BusUnavailable, StreamsDiffer) as error:
        sys.stderr.write(f"{error}\n")
        return os.EX_CONFIG if isinstance(error, StreamsDiffer) else 1
    garbage.settle()
    _log.info("%s serves %s", worker.id, ", ".join(agent.name for agent in agents))
    following = _following(worker, file) if file else None
    await leaving
    if following is not None:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    await worker.stop()
    return 0


def _following(worker: Worker, file: Path) -> asyncio.Task[None]:
    return keep_running(partial(follow, worker, file, os.environ), str(file))


def _one_line(error: ValidationError | Misdeclared | Unusable) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    return first_error(error)
