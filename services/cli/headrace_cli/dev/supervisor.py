"""Keep the children of the development stack running until they are stopped."""

import asyncio
import itertools
import signal
import time
from collections.abc import Callable, Sequence

from headrace_cli.dev.child_process import ChildProcess, ChildSpec
from headrace_cli.dev.ready_reports import ready_reports
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


class NotRunning(Exception):
    """The process to kill does not run."""


class Supervisor:
    """Starts processes, restarts those that exit, and ends them all."""

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
            on_change: called when a child runs again or was replaced, when a replaced one has ended
                and, without `restart`, when one has ended and is not restarted.
            restart: whether processes that exit are restarted.
            startup_timeout: how long children wait for what they need, seconds.
        """
        self._show = show
        self._on_change = on_change
        self._restart = restart
        self._waited = _WAITED * startup_timeout
        self._settled = False
        self._ending = False
        self._children: list[ChildProcess] = []
        self._retiring: list[ChildProcess] = []
        """Replaced children that have not ended yet."""
        self._watchers: dict[ChildProcess, asyncio.Task[None]] = {}
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Raises `CannotStart` when continuing is pointless."""

    @property
    def children(self) -> list[ChildProcess]:
        """Children that run or will be restarted."""
        return [child for child in self._children if self._restart or child.is_running]

    @property
    def specs(self) -> list[ChildSpec]:
        """The specs of `children`, and of replaced ones that have not ended."""
        return [child.spec for child in (*self.children, *self._retiring)]

    async def start(self, spec: ChildSpec, **variables: str) -> None:
        """Start one more child, with `variables` for this start only, and watch it."""
        child = ChildProcess(spec, self._show)
        await child.start(**variables)
        self._children.append(child)
        self._watchers[child] = asyncio.create_task(self._watch(child))

    def kill(self, role: str, index: int) -> None:
        """Kill a process as ``kill -9`` does; it is treated like any process that exits.

        Raises:
            NotRunning: no process of that role and index runs.
        """
        running = [child for child in self._children if child.is_running]
        found = [one for one in running if (one.spec.role, one.spec.index) == (role, index)]
        if not found:
            names = ", ".join(child.spec.name for child in running)
            raise NotRunning(f"{role}-{index} is not running; running processes: {names}")
        found[0].send(signal.SIGKILL)

    async def replace(self, specs: Sequence[ChildSpec], timeout: float) -> None:
        """Start services from `specs`; once all are ready, retire those with the same names.

        Raises:
            CannotStart: one ended, or was not ready in `timeout` seconds. The old ones continue.
        """
        fresh = [ChildProcess(spec, self._show) for spec in specs]
        try:
            async with asyncio.timeout(timeout):
                await _all_ready(fresh)
        except BaseException as error:
            await asyncio.gather(*(child.end(_SERVICE_GRACE) for child in fresh))
            if isinstance(error, TimeoutError):
                raise CannotStart(f"not ready after {timeout:.0f} s") from None
            raise
        for child in fresh:
            self._succeed(child)
        self._on_change()

    def _succeed(self, child: ChildProcess) -> None:
        place = next(i for i, c in enumerate(self._children) if c.spec.name == child.spec.name)
        old, self._children[place] = self._children[place], child
        self._watchers.pop(old).cancel()
        self._watchers[child] = asyncio.create_task(self._watch(child))
        self._retiring.append(old)
        self._watchers[old] = asyncio.create_task(self._retire(old))

    async def _retire(self, child: ChildProcess) -> None:
        """Let the active runs of a replaced worker end in it."""
        child.send(signal.SIGUSR1)
        if code := await child.ended():
            self._show("headrace", f"{child.spec.name} of the old code ended: {_reason(code)}")
        self._retiring.remove(child)
        del self._watchers[child]
        self._on_change()

    def settle(self) -> None:
        """Stop treating a child's end as a reason to give up: the stack has been ready."""
        self._settled = True

    async def end(self) -> None:
        """End the services, then the servers that they use; all within 5 s."""
        self._ending = True
        watchers = list(self._watchers.values())
        for watcher in watchers:
            watcher.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)
        services = [c for c in self._children if c.spec.role not in _SERVERS] + self._retiring
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
        error = _last_error(child)
        if code not in FATAL_EXITS or not error:
            error = ": ".join(
                filter(None, [f"{child.spec.name} will not be restarted", _reason(code), error])
            )
        self.failure.set_exception(CannotStart(error))


async def _all_ready(children: Sequence[ChildProcess]) -> None:
    """Start `children`, and return when all have reported that they are ready.

    Raises:
        CannotStart: one ended.
    """
    starting = [asyncio.create_task(_ready(child)) for child in children]
    try:
        await asyncio.gather(*starting)
    finally:
        for task in starting:
            task.cancel()
        await asyncio.gather(*starting, return_exceptions=True)


async def _ready(child: ChildProcess) -> None:
    async with ready_reports() as reports:
        await child.start(NOTIFY_SOCKET=reports.path)
        ended, reported = asyncio.create_task(child.ended()), asyncio.create_task(reports.next())
        try:
            await asyncio.wait((ended, reported), return_when=asyncio.FIRST_COMPLETED)
            if not reported.done():
                raise CannotStart(_last_error(child) or _reason(await ended))
        finally:
            ended.cancel()
            reported.cancel()
            await asyncio.gather(ended, reported, return_exceptions=True)


def _last_error(child: ChildProcess) -> str:
    return child.last_line.removeprefix("Error: ")


def _reason(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name
