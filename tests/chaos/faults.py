"""What is done to the processes, decided by a seed alone."""

import asyncio
import logging
import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from headrace_cli.dev_file import Role
from tests.support.stack import Stack

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing done to one process."""

    after: float
    """Seconds since the fault before."""
    what: str
    """``kill``, ``kill all`` of the role, ``stop`` (and go on later) or ``drain`` (SIGTERM)."""
    role: Role
    index: int
    lasts: float = 0.0
    """Seconds that a stopped process is stopped for."""


_KINDS: tuple[tuple[str, Role, int], ...] = (
    ("kill", "worker", 8),
    ("stop", "worker", 6),
    ("drain", "worker", 3),
    ("kill all", "worker", 1),
    ("kill", "gateway", 4),
    ("stop", "gateway", 1),
    ("kill", "task-state", 4),
    ("stop", "task-state", 2),
    ("kill", "nats", 1),
    ("stop", "nats", 1),
    ("kill", "redis", 1),
)
"""What is done to whom, and how often in relation to the others."""

_SIZES: dict[Role, int] = {"worker": 4, "gateway": 2, "task-state": 2, "nats": 1, "redis": 1}
_SHORTEST, _LONGEST = 0.3, 1.7
_STOPPED = 8.0
_SERVER_STOPPED = 2.0


def plan(seed: int) -> Iterator[Fault]:
    """Yield the faults of `seed`, without end."""
    chance = random.Random(f"{seed}/faults")
    weights = [weight for _, _, weight in _KINDS]
    while True:
        [(what, role, _)] = chance.choices(_KINDS, weights)
        after, index = chance.uniform(_SHORTEST, _LONGEST), chance.randrange(_SIZES[role])
        longest = _SERVER_STOPPED if role == "nats" else _STOPPED
        lasts = chance.uniform(0.2, longest) if what == "stop" else 0.0
        yield Fault(after, what, role, index, lasts)


class Tormentor:
    """Does what is planned to a stack, until it is told to leave it in peace."""

    def __init__(self, stack: Stack) -> None:
        """Do it to `stack`."""
        self.done = Counter[str]()
        self._stack = stack
        self._stopped: dict[int, asyncio.TimerHandle] = {}

    async def torment(self, faults: Iterator[Fault]) -> None:
        """Do it all, one after the other."""
        for fault in faults:
            await asyncio.sleep(fault.after)
            with suppress(ProcessLookupError, IndexError):  # It is dead just now.
                self._do(fault)

    def leave_in_peace(self) -> None:
        """Let everything go on that is stopped."""
        for pid, handle in list(self._stopped.items()):
            handle.cancel()
            self._go_on(pid)

    def _do(self, fault: Fault) -> None:
        if fault.what == "kill all":
            self._kill_all(fault.role)
            return
        pid = self._stack.pids(fault.role)[fault.index]
        if pid in self._stopped and fault.what == "stop":
            return
        number = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "drain": signal.SIGTERM}
        os.kill(pid, number[fault.what])
        self.done[f"{fault.what} {fault.role}"] += 1
        _log.info("%s %s-%d %.1f", fault.what, fault.role, fault.index, fault.lasts)
        if fault.what == "stop":
            loop = asyncio.get_running_loop()
            self._stopped[pid] = loop.call_later(fault.lasts, self._go_on, pid)

    def _kill_all(self, role: Role) -> None:
        for pid in self._stack.pids(role):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.done[f"kill all {role}s"] += 1
        _log.info("kill all %ss", role)

    def _go_on(self, pid: int) -> None:
        del self._stopped[pid]
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
