"""Keep the children of the development stack running until they are stopped."""

import asyncio
import itertools
import signal
import time
from collections.abc import Callable

from headrace_cli.dev.child_process import ChildProcess, ChildSpec
from headrace_cli.failures import FATAL_EXITS, CannotStart

RESTART_DELAY = 1.0
"""Seconds from a child's end to its next start."""

_TRIES = 3
"""How often a child may end before the stack is ready until the start is given up."""

_WAITED = 0.9
"""Fraction of the start's timeout; a child that ends by itself later than that has timed out."""

_SERVICE_GRACE = 3.0
_SERVER_GRACE = 1.0
"""Seconds to end in after SIGTERM; both together stay under 5."""

_SERVERS = ("nats", "redis")


class Supervisor:
    """Starts children, restarts them when they die, and ends them all."""

    def __init__(
        self,
        show: Callable[[str, str], None],
        on_change: Callable[[], None],
        *,
        restart: bool,
        startup_timeout: float,
    ) -> None:
        """Start without children.

        Args:
            show: takes a child's name and a line.
            on_change: called when a child runs again or, without `restart`, has ended for good.
            restart: whether children that die are restarted.
            startup_timeout: how long children wait for what they need, seconds.
        """
        self._show = show
        self._on_change = on_change
        self._restart = restart
        self._waited = _WAITED * startup_timeout
        self._settled = False
        self._ending = False
        self._children: list[ChildProcess] = []
        self._watchers: list[asyncio.Task[None]] = []
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Raises `CannotStart` when continuing is pointless."""

    @property
    def children(self) -> list[ChildProcess]:
        """Children that run or will be restarted."""
        return [child for child in self._children if self._restart or child.is_running]

    async def start(self, spec: ChildSpec) -> None:
        """Start one more child and watch it."""
        child = ChildProcess(spec, self._show)
        await child.start()
        self._children.append(child)
        self._watchers.append(asyncio.create_task(self._watch(child)))

    def settle(self) -> None:
        """Stop treating a child's end as a reason to give up: the stack has been ready."""
        self._settled = True

    async def end(self) -> None:
        """End the services, then the servers that they use; all within 5 s."""
        self._ending = True
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        services = [c for c in self._children if c.spec.role not in _SERVERS]
        servers = [c for c in self._children if c.spec.role in _SERVERS]
        await asyncio.gather(*(child.end(_SERVICE_GRACE) for child in services))
        await asyncio.gather(*(child.end(_SERVER_GRACE) for child in servers))

    async def _watch(self, child: ChildProcess) -> None:
        for ends in itertools.count(1):
            started = time.monotonic()
            code = await child.ended()
            self._show("headrace", f"{child.spec.name} ended: {_reason(code)}")
            waited = code > 0 and time.monotonic() - started > self._waited
            if code in FATAL_EXITS or waited or ends >= _TRIES or not self._restart:
                self._give_up(child, code)
            if not self._restart:
                self._on_change()
                return
            await self._start_again(child)
            self._on_change()

    async def _start_again(self, child: ChildProcess) -> None:
        while True:
            await asyncio.sleep(RESTART_DELAY)
            try:
                await child.start()
            except OSError as refused:  # Out of processes, or of memory: it may pass.
                self._show("headrace", f"cannot start {child.spec.name}: {refused}")
            else:
                self._show("headrace", f"{child.spec.name} was restarted")
                return

    def _give_up(self, child: ChildProcess, code: int) -> None:
        """Abort the start; a stack that has been ready continues."""
        if self._settled or self.failure.done():
            return
        words = child.last_line.removeprefix("Error: ")
        if code not in FATAL_EXITS or not words:
            words = ": ".join(
                filter(None, [f"{child.spec.name} will not be restarted", _reason(code), words])
            )
        self.failure.set_exception(CannotStart(words))


def _reason(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name
