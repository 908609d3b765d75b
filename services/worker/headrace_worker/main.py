"""Entry point of a worker: ``headrace worker MODULE:ATTR``."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from headrace import service
from headrace.background import keep_running
from headrace.sdk.errors import Misdeclared
from headrace_worker.config import DeclaredAgents, Unusable, declared_in
from headrace_worker.config.follow import follow
from headrace_worker.loading import load
from headrace_worker.settings import WorkerSettings
from headrace_worker.worker import Worker

_log = logging.getLogger(__name__)


def run(target: str = "", config: str = "") -> int:
    """Serve the agents of `target` (MODULE:ATTR) or of the file `config` until SIGTERM.

    Returns the process's exit code (see `headrace.service`).
    """
    prepare = partial(_prepare, target, Path(config) if config else None)
    return service.run(prepare, fatal=(Misdeclared, Unusable))


def _prepare(target: str, file: Path | None) -> service.Prepared:
    settings = WorkerSettings()
    declared = declared_in(file, os.environ) if file else DeclaredAgents(load(target))
    return service.Prepared(settings.log_level, lambda _: serving(settings, declared, file))


@asynccontextmanager
async def serving(
    settings: WorkerSettings, declared: DeclaredAgents, file: Path | None = None
) -> AsyncIterator[None]:
    """Run a worker for the duration of the block; reload the agents when `file` changes.

    Raises:
        PortTaken: HEADRACE_METRICS_PORT is in use.
        BusUnavailable: NATS was not available within HEADRACE_STARTUP_TIMEOUT.
        StreamsDiffer: the streams differ from the settings.
    """
    declared.warn(_log)
    worker = Worker(settings, declared.agents)
    service.observe(settings.metrics_host, settings.metrics_port, lambda: worker.is_ready)
    await worker.start()
    _log.info("%s serves %s", worker.id, ", ".join(agent.name for agent in declared.agents))
    following = _following(worker, file) if file else None
    try:
        yield
    finally:
        if following is not None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        await worker.stop()


def _following(worker: Worker, file: Path) -> asyncio.Task[None]:
    return keep_running(partial(follow, worker, file, os.environ), str(file))
