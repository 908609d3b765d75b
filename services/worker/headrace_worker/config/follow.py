"""Reloading of ``headrace.yaml`` in a running worker, without interrupting runs."""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

from headrace.model.errors import BusUnavailable
from headrace_worker.config import Unusable, declared_in
from headrace_worker.worker import Worker

_log = logging.getLogger(__name__)

LOOK_EVERY = 1.0
"""Seconds between checks of the file."""


async def follow(worker: Worker, path: Path, environment: Mapping[str, str]) -> None:
    """Serve the file's agents, and reload them when it changes; an invalid file changes nothing."""
    seen = _stamp(path)
    while True:
        await asyncio.sleep(LOOK_EVERY)
        if (stamp := _stamp(path)) == seen:
            continue
        # A file read while it is written has changed again at the next check.
        seen = stamp
        try:
            declared = await asyncio.to_thread(declared_in, path, environment)
            await worker.update(declared.agents)
        except Unusable as trouble:
            _log.error("could not reload the agents; the old ones stay in use: %s", trouble)
        except BusUnavailable as trouble:
            _log.warning("agents will be updated after the reconnect to NATS: %s", trouble)
            seen = ()
        except Exception as trouble:  # noqa: BLE001  # the next change must be seen too
            _log.error("could not reload the agents; the old ones stay in use: %s", trouble)
        else:
            declared.warn(_log)
            names = ", ".join(agent.name for agent in declared.agents)
            _log.info("%s reloaded: %s serves %s", path.name, worker.id, names)


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return (found.st_mtime_ns, found.st_size, found.st_ino)
