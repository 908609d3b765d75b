"""Entry point of a worker: ``headrace worker MODULE:ATTR``."""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

from headrace import service
from headrace.sdk.agent import Agents
from headrace.sdk.errors import Misdeclared
from headrace.sdk.source import imported_at
from headrace_worker.load import load
from headrace_worker.settings import WorkerSettings
from headrace_worker.worker import Worker, warn_of

_log = logging.getLogger(__name__)


class AgentSource(Protocol):
    """Where a worker's agents come from."""

    fatal: tuple[type[Exception], ...]
    """Errors of `load` that another start would meet too."""

    def load(self) -> Agents:
        """Return the agents."""

    def warn(self) -> None:
        """Log what `load` noticed."""

    def follow(self, worker: Worker) -> asyncio.Task[None] | None:
        """Keep `worker` up to date until the task is canceled; None: the agents do not change."""


class CodeSource:
    """Agents in Python, as MODULE:ATTR."""

    fatal: tuple[type[Exception], ...] = (Misdeclared,)

    def __init__(self, target: str) -> None:
        """Take the agents of `target`."""
        self._target = target

    def load(self) -> Agents:
        """See `AgentSource.load`."""
        return load(self._target)

    def warn(self) -> None:
        """See `AgentSource.warn`."""

    def follow(self, worker: Worker) -> None:
        """See `AgentSource.follow`."""


def run(target: str = "", config: str = "", *, reload: bool = True) -> int:
    """Serve the agents of `target` (MODULE:ATTR) or of the file `config` until SIGTERM.

    SIGUSR1 drains the worker: it starts no more runs, and ends once its active ones have ended.
    Without `reload`, changes of the file have no effect. Returns the process's exit code (see
    `headrace.service`).
    """
    source = _file_source(Path(config)) if config else CodeSource(target)
    return service.run(partial(_prepare, source, reload=reload), os.environ, source.fatal)


def _file_source(file: Path) -> AgentSource:
    # Here, because agents in Python need neither YAML nor the models of the file.
    from headrace_worker.config.follow import FileSource  # noqa: PLC0415 - see above

    return FileSource(file, os.environ)


def _prepare(source: AgentSource, *, reload: bool) -> service.PreparedService:
    settings = WorkerSettings()
    agents = source.load()
    return service.PreparedService(
        settings.log_options("headrace-worker"),
        lambda stop: serving(settings, agents, source, stop, reload=reload),
        _log_exit,
    )


def _log_exit(exit_: BaseException) -> None:
    """Log that an agent's own task exited; the agent gets the error if it awaits that task."""
    _log.error(
        "a task of an agent raised %s; only that task ends: return, or raise an Exception%s",
        type(exit_).__name__,
        imported_at(exit_.__traceback__),
    )


@asynccontextmanager
async def serving(
    settings: WorkerSettings,
    agents: Agents,
    source: AgentSource,
    stop: service.Stop,
    *,
    reload: bool,
) -> AsyncIterator[None]:
    """Run a worker for the duration of the block; with `reload`, follow the changes of `source`.

    `stop` is set when the worker has been drained, as SIGUSR1 does, and failed if NATS is lost for
    good. During the start, SIGUSR1 sets it at once.

    Raises:
        PortTaken: HEADRACE_METRICS_PORT is in use.
        BusUnavailable: NATS was not available within HEADRACE_STARTUP_TIMEOUT.
        StreamsDiffer: the streams differ from the settings.
    """
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, stop.set)
    source.warn()
    worker = Worker(settings, agents)
    worker.on_closed(stop.fail)
    service.export_build("worker")
    service.observe(settings.metrics_host, settings.metrics_choice, lambda: worker.is_ready)
    await worker.start()
    _log.info("%s serves %s", worker.id, ", ".join(agent.name for agent in agents))
    warn_of(agents)
    following = source.follow(worker) if reload else None
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, worker.drain)
    ending = asyncio.create_task(_end_when_drained(worker, stop))
    try:
        yield
    finally:
        for task in filter(None, (following, ending)):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await worker.stop()


async def _end_when_drained(worker: Worker, stop: asyncio.Event) -> None:
    await worker.drained.wait()
    stop.set()
