"""The one stack that the end-to-end tests share, and how they break it and find it whole again."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from headrace_cli.dev_file import Role
from headrace_cli.dev_ready import until_ready
from tests.support.servers import NatsProcess
from tests.support.stack import Stack
from tests.support.waiting import until


class Fleet:
    """Two gateways, three workers, two task states and their servers."""

    def __init__(self, stack: Stack, nats: NatsProcess | None = None) -> None:
        """Use `stack`; `nats` is its server where the stack has not started it itself."""
        self.stack, self._nats = stack, nats

    @property
    def gateways(self) -> list[str]:
        """The gateways' URLs."""
        return self.stack.gateways

    @property
    def nats_url(self) -> str:
        """Where the log is."""
        return self.stack.dev()["nats_url"]

    @property
    def redis_url(self) -> str:
        """Where task state has its view."""
        return self.stack.dev()["redis_url"]

    async def until_whole(self, timeout: float = 30.0) -> None:
        """Return when every process runs, every gateway serves and task state follows."""
        await until_ready(self.gateways, with_agents=True, timeout=timeout)

    def restart(self, role: Role, index: int) -> None:
        """Kill a process as ``kill -9`` does; return when `headrace dev` has started it again."""
        pid = self.stack.kill(role, index)
        self.stack.until_restarted(role, index, pid)

    def restart_nats(self) -> None:
        """Kill nats-server as ``kill -9`` does; return when it has been started again."""
        if self._nats is not None:
            self._nats.restart()
        else:
            self.restart("nats", 0)

    @contextmanager
    def frozen(self, role: Role) -> Iterator[None]:
        """Stop all processes of `role` in their tracks; let them go on at the end."""
        pids = self.stack.pids(role)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    @contextmanager
    def frozen_nats(self) -> Iterator[None]:
        """Stop nats-server in its tracks; let it go on at the end."""
        if self._nats is None:
            with self.frozen("nats"):
                yield
            return
        self._nats.freeze()
        try:
            yield
        finally:
            self._nats.thaw()
            until(self._nats.answers, "nats-server answers again")
