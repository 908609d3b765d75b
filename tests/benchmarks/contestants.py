"""The servers: each with the counter agent, each asked in the same way."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from tests.benchmarks.event_path import SEEN, EventPath
from tests.benchmarks.http_client import Connection
from tests.support import extra_services
from tests.support.compose_file import ROOT
from tests.support.servers import NatsProcess, ValkeyProcess
from tests.support.stack import ANEW, Stack
from tests.support.starting import start_process

OFFICIAL = "official"
PLAIN = "plain"
"""A Starlette route over Redis Streams, which people write by hand."""

FASTA2A = "fasta2a"
"""fasta2a's server. It has JSON-RPC only, and answers before a run has ended or streams it."""

ASKER = "/asker"
"""Path of the agent that asks, at the official SDK's server."""

HEADRACE = "headrace"
PEERS = (OFFICIAL, PLAIN, FASTA2A)
SERVERS = (*PEERS, HEADRACE)

type Pids = dict[str, list[int]]


@dataclass(frozen=True, slots=True)
class Contestant:
    """A server under measurement."""

    name: str
    urls: Sequence[str]
    """Its replicas; connections are spread over them."""
    base: str
    """Path of its counter agent; empty for the root."""
    paced: str
    """Path of its agent that waits before it counts; see `agents.paced`."""
    replicas: Sequence[str]
    """Two URLs or more at which the same tasks are served."""
    pids: Callable[[], Pids]
    """Its processes, by role."""
    another: Callable[[], AbstractContextManager[tuple[str, int]]]
    """Starts one more replica; lends its URL and process id."""
    events: EventPath | None = None
    """How events call its counter agent; None: they don't."""
    bindings: Sequence[str] = ("jsonrpc", "rest")
    """A2A's bindings that it has, by name."""
    asker: str = ""
    """Path of its agent that asks once, and is done when it is told; empty: there is none."""

    @property
    def hosts(self) -> list[str]:
        """``host:port`` of each replica."""
        return [host_of(url) for url in self.urls]

    @contextmanager
    def connections(self, count: int) -> Iterator[list[Connection]]:
        """Lend `count` connections, spread over the replicas."""
        lent = [connection_to(self.urls[index % len(self.urls)]) for index in range(count)]
        try:
            yield lent
        finally:
            for connection in lent:
                connection.close()


def host_of(url: str) -> str:
    """Return ``host:port``."""
    return urlsplit(url).netloc


def connection_to(url: str) -> Connection:
    """Return a connection to `url`'s server, not yet open."""
    place = urlsplit(url)
    return Connection(place.hostname or "", place.port or 80)


@contextmanager
def official(folder: Path) -> Iterator[Contestant]:
    """Run the official SDK's in-process server, which logs to `folder`.

    Beside it two replicas in its cluster mode, on one database, and a FastStream subscriber that
    calls the server, with a NATS of its own; they idle unless asked.
    """
    with ExitStack() as running:
        database = ["--database", str(folder / "cluster.db")]
        alone, *cluster = [
            running.enter_context(_official(folder / f"official-{at}.log", *arguments))
            for at, arguments in enumerate(([], database, database))
        ]
        bus = running.enter_context(NatsProcess(folder / "official-nats"))
        calling = _server("event_subscriber", folder / "subscriber.log", bus.url, alone[0])
        _, subscriber = running.enter_context(calling)
        pids = {"official": [alone[1]], "subscriber": [subscriber], "subscriber nats": [bus.pid]}
        urls = [url for url, _ in cluster]
        yield Contestant(
            OFFICIAL,
            [alone[0]],
            "",
            "",
            urls,
            lambda: pids,
            partial(_official, folder / "another.log", *database),
            EventPath(bus.url, SEEN),
            asker=ASKER,
        )


@contextmanager
def official_alone(folder: Path) -> Iterator[Contestant]:
    """Run that server and nothing beside it."""
    start = partial(_official, folder / "official.log")
    with start() as (url, pid):
        pids = {"official": [pid]}
        yield Contestant(OFFICIAL, [url], "", "", [url], lambda: pids, start, asker=ASKER)


@contextmanager
def plain(folder: Path) -> Iterator[Contestant]:
    """Run the route over Redis Streams, with a Valkey of its own."""
    with ValkeyProcess(folder / "plain-valkey") as valkey:
        start = partial(_server, "plain_redis", folder / "plain.log", valkey.url)
        with start() as (url, pid):
            pids = {"plain": [pid], "plain redis": [valkey.pid]}
            yield Contestant(PLAIN, [url], "", "", [url], lambda: pids, start)


@contextmanager
def fasta2a(folder: Path) -> Iterator[Contestant]:
    """Run fasta2a's server, whose broker and storage are in its memory."""
    start = partial(_server, "fasta2a_server", folder / "fasta2a.log")
    with start() as (url, pid):
        pids = {"fasta2a": [pid]}
        yield Contestant(FASTA2A, [url], "", "", [url], lambda: pids, start, bindings=("jsonrpc",))


def _official(log: Path, *arguments: str) -> AbstractContextManager[tuple[str, int]]:
    return _server("official_server", log, *arguments)


@contextmanager
def _server(module: str, log: Path, *arguments: str) -> Iterator[tuple[str, int]]:
    command = [sys.executable, "-m", f"tests.benchmarks.{module}", *arguments]
    process = start_process(command, log, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        with process.stdout as lines:
            url = lines.readline().decode().removeprefix("ready ").strip()
        assert url, log.read_text()
        yield url, process.pid
    finally:
        process.kill()
        process.wait()


@contextmanager
def headrace(
    folder: Path,
    *,
    gateways: int = 1,
    workers: int = 1,
    task_states: int = 1,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Contestant]:
    """Run a development stack of that size, which logs to `folder`.

    One gateway more idles beside it, unless a task is to be followed at another.
    """
    sizes = gateways + 1, workers, task_states
    with measured_stack(folder / "stack", *sizes, environment, triggers=1) as stack:
        yield of_stack(stack, folder)


@contextmanager
def headrace_alone(folder: Path) -> Iterator[Contestant]:
    """Run a development stack of one process each, and nothing beside it."""
    with measured_stack(folder / "stack") as stack:
        yield replace(of_stack(stack, folder), urls=stack.gateways)


def measured_stack(
    folder: Path,
    gateways: int = 1,
    workers: int = 1,
    task_states: int = 1,
    environment: Mapping[str, str] | None = None,
    *,
    triggers: int = 0,
) -> Stack:
    """Make a development stack with the agents of `tests.benchmarks.agents`."""
    return Stack(
        folder,
        gateways=gateways,
        workers=workers,
        task_states=task_states,
        triggers=triggers,
        agents="tests.benchmarks.agents:agents",
        # A worker that reloads what somebody edits meanwhile would be measured, too.
        arguments=("--ephemeral", "--port", "0", "--no-reload"),
        environment={"PYTHONPATH": str(ROOT)} | dict(environment or {}),
        program=ANEW,
    )


def pids_of(stack: Stack) -> Pids:
    """Return the processes of a running stack."""
    by_role: Pids = {}
    for process in stack.processes():
        by_role.setdefault(process["role"], []).append(process["pid"])
    return by_role


def of_stack(stack: Stack, folder: Path) -> Contestant:
    """Return the fleet of a running stack; its last gateway idles beside the measured ones."""
    urls, nats_url = stack.gateways, stack.dev()["nats_url"]
    another = partial(_another, folder / "another", nats_url)
    counter, paced, asker = (f"/v1/agents/{agent}" for agent in ("counter", "paced", "asker"))
    events = EventPath(nats_url, "headrace.live.>", urls[0])
    pids = partial(pids_of, stack)
    return Contestant(HEADRACE, urls[:-1], counter, paced, urls, pids, another, events, asker=asker)


@contextmanager
def _another(folder: Path, nats_url: str) -> Iterator[tuple[str, int]]:
    process, url = extra_services.gateway(folder, nats_url)
    process.anew = True
    process.start()
    try:
        yield url, process.pid
    finally:
        process.stop()
