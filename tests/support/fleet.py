"""The stack that end-to-end tests share: how tests break it and restore it."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import httpx

from headrace_cli.dev.dev_file import Role
from headrace_cli.dev.readiness import until_ready
from tests.support.pids import freeze
from tests.support.plain_http import NO_TLS
from tests.support.server_process import ServerProcess
from tests.support.servers import NatsProcess, ValkeyProcess
from tests.support.stack import Stack
from tests.support.waiting import eventually


class Fleet:
    """Two gateways, two workers, two task states and their servers."""

    def __init__(self, stack: Stack, servers: tuple[NatsProcess, ValkeyProcess] | None) -> None:
        """Use `stack`; `servers` are its own where it has not started them itself."""
        self.stack = stack
        self._servers: dict[Role, ServerProcess] = {}
        if servers is not None:
            self._servers = {"nats": servers[0], "redis": servers[1]}

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

    async def until_whole(self, timeout: float = 90.0) -> None:
        """Return when every gateway serves, agents are there and task state follows."""
        await until_ready(self.gateways, with_agents=True, timeout=timeout)
        async with httpx.AsyncClient(timeout=timeout, verify=NO_TLS) as http:
            for gateway in self.gateways:
                await eventually(partial(_knows_tasks, http, gateway), "tasks are known", timeout)

    def restart(self, role: Role, index: int = 0) -> None:
        """Kill a process as ``kill -9`` does; return when it has been started again."""
        if role in self._servers:
            self._servers[role].restart()
            return
        pid = self.stack.kill(role, index)
        self.stack.until_restarted(role, index, pid)

    @contextmanager
    def frozen(self, role: Role) -> Iterator[None]:
        """Stop all processes of `role` in their tracks; let them go on at the end."""
        if role in self._servers:
            self._servers[role].freeze()
        else:
            for pid in self.stack.pids(role):
                freeze(pid)
        try:
            yield
        finally:
            if role in self._servers:
                self._servers[role].thaw()
            else:
                for pid in self.stack.pids(role):
                    os.kill(pid, signal.SIGCONT)


async def _knows_tasks(http: httpx.AsyncClient, gateway: str) -> bool:
    """Tell whether a gateway knows that there is no such task: for a while after an outage not."""
    answer = await http.get(f"{gateway}/v1/agents/echo/tasks/0-{'0' * 32}")
    return answer.status_code == httpx.codes.NOT_FOUND
