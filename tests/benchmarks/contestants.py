"""The two servers: each with the counter agent, each asked in the same way."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tests.benchmarks.http_client import Connection
from tests.support.stack import Stack
from tests.support.starting import start_process

OFFICIAL = "official"
HEADRACE = "headrace"

type Pids = dict[str, list[int]]


@dataclass(frozen=True, slots=True)
class Contestant:
    """A server under measurement."""

    name: str
    urls: Sequence[str]
    """Its replicas; connections are spread over them."""
    base: str
    """Path of its counter agent; empty for the root."""
    pids: Callable[[], Pids]
    """Its processes, by role."""

    @property
    def hosts(self) -> list[str]:
        """``host:port`` of each replica."""
        return [urlsplit(url).netloc for url in self.urls]

    @contextmanager
    def connections(self, count: int) -> Iterator[list[Connection]]:
        """Lend `count` connections, spread over the replicas."""
        places = [urlsplit(self.urls[index % len(self.urls)]) for index in range(count)]
        lent = [Connection(place.hostname or "", place.port or 80) for place in places]
        try:
            yield lent
        finally:
            for connection in lent:
                connection.close()


@contextmanager
def official(folder: Path) -> Iterator[Contestant]:
    """Run the official SDK's in-process server, which logs to `folder`."""
    command = [sys.executable, "-m", "tests.benchmarks.official_server"]
    process = start_process(command, folder / "official.log", stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        with process.stdout as lines:
            url = lines.readline().decode().removeprefix("ready ").strip()
        assert url, (folder / "official.log").read_text()
        yield Contestant(OFFICIAL, [url], "", lambda: {"official": [process.pid]})
    finally:
        process.kill()
        process.wait()


@contextmanager
def headrace(
    folder: Path, *, gateways: int = 1, workers: int = 1, task_states: int = 1
) -> Iterator[Contestant]:
    """Run a development stack of that size, which logs to `folder`."""
    stack = Stack(folder / "stack", gateways=gateways, workers=workers, task_states=task_states)
    with stack.start():
        yield of_stack(stack)


def of_stack(stack: Stack) -> Contestant:
    """Return a running stack as a contestant."""

    def pids() -> Pids:
        by_role: Pids = {}
        for process in stack.processes():
            by_role.setdefault(process["role"], []).append(process["pid"])
        return by_role

    return Contestant(HEADRACE, stack.gateways, "/v1/agents/counter", pids)
