"""Reloading of ``headrace.yaml`` in a running worker, without interrupting runs."""

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from headrace.background import keep_running
from headrace.model.errors import BusUnavailable
from headrace.sdk.agent import Agents
from headrace.sdk.errors import Misdeclared
from headrace_worker.config import DeclaredAgents, Unusable, declared_in
from headrace_worker.worker import Worker, warn_of

_log = logging.getLogger(__name__)

LOOK_EVERY = 1.0
"""Seconds between checks of the file."""


class FileSource:
    """Agents of a ``headrace.yaml``."""

    fatal: tuple[type[Exception], ...] = (Misdeclared, Unusable)

    def __init__(self, path: Path, environment: Mapping[str, str]) -> None:
        """Take the agents of the file at `path`; it may refer to variables of `environment`."""
        self._path, self._environment = path, environment
        self._declared: DeclaredAgents | None = None

    def load(self) -> Agents:
        """Return the agents.

        Raises:
            Unusable: the file can't be read, is invalid, or an agent can't be created.
        """
        self._declared = declared_in(self._path, self._environment)
        return self._declared.agents

    def warn(self) -> None:
        """Log the fields without effect."""
        if self._declared is not None:
            self._declared.warn(_log)

    def follow(self, worker: Worker) -> asyncio.Task[None]:
        """Reload the agents when the file changes, until the task is canceled."""
        return keep_running(partial(follow, worker, self._path, self._environment), str(self._path))


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
        except Unusable as error:
            _log.error("could not reload the agents; the old ones stay in use: %s", error)
        except BusUnavailable as error:
            _log.warning("agents will be updated after the reconnect to NATS: %s", error)
            seen = ()
        except Exception as error:  # noqa: BLE001  # the next change must be seen too
            _log.error("could not reload the agents; the old ones stay in use: %s", error)
        else:
            declared.warn(_log)
            names = ", ".join(agent.name for agent in declared.agents)
            _log.info("%s reloaded: %s serves %s", path.name, worker.id, names)
            warn_of(declared.agents)


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return (found.st_mtime_ns, found.st_size, found.st_ino)
