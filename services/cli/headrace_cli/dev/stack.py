"""The life of one development stack: claim the data, start, report ready, wait, end."""

import asyncio
import shlex
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from headrace.settings import without_credentials
from headrace_cli.dev import data_directory, dev_file, plan, prometheus
from headrace_cli.dev.agents import (
    AGENTS_FILE,
    in_code,
    serves_demo,
    targets_of,
    with_agents,
)
from headrace_cli.dev.agents_code import roots_of
from headrace_cli.dev.child_process import ChildProcess
from headrace_cli.dev.console import Console
from headrace_cli.dev.control import SOCKET, WorkerIds, control_socket
from headrace_cli.dev.declarations import apply_code, apply_file
from headrace_cli.dev.nats_server import NatsServer
from headrace_cli.dev.orphan_processes import end_orphans
from headrace_cli.dev.plan import Plan
from headrace_cli.dev.readiness import until_ready
from headrace_cli.dev.ready_reports import ready_reports
from headrace_cli.dev.reload import Reloader
from headrace_cli.dev.settings import DevSettings
from headrace_cli.dev.supervisor import Supervisor
from headrace_cli.dev.valkey_server import ValkeyServer
from headrace_cli.failures import CannotStart, RequestFailed
from headrace_cli.gateway import USUAL_URL, ask_gateway, console_url
from headrace_cli.tables import one_line

if TYPE_CHECKING:
    from headrace.client import AgentInfo, Client

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PAUSE = 0.02
_REPORT_TIMEOUT = 10.0
"""Seconds for a child that timed out to report what it waited for, before the start is given up."""


async def run(given: DevSettings, project: Path) -> None:
    """Run the stack with the agents of `given` or of the folder `project` until a signal ends it.

    Raises:
        CannotStart: it can't start; every process that was started has ended.
    """
    settings = with_agents(given, project)
    stop = _on_signal()
    with data_directory.claimed(settings.data_folder) as folder, _console() as console:
        for pid in end_orphans(folder):
            console.show("headrace", f"ended process {pid} that the previous stack left running")
        with data_directory.temporary_folder(folder) as temporary:
            storage = temporary if settings.ephemeral else folder
            control = temporary / SOCKET
            drawn = plan.draw(settings, folder, storage, control)
            stack = _Stack(settings, drawn, folder, console, project)
            async with (
                stack.controlled(control),
                stack.reloading(lambda: with_agents(given, project), project, console),
            ):
                await stack.live(stop)


class _Stack:
    def __init__(
        self,
        settings: DevSettings,
        plan: Plan,
        folder: Path,
        console: Console,
        project: Path,
    ) -> None:
        self._settings = settings
        self._plan = plan
        self._project = project
        self._folder = folder
        self._worker_ids = WorkerIds()

        def show(name: str, line: str) -> None:
            self._worker_ids.note(name, line)
            console.show(name, line)

        self._supervisor = Supervisor(
            show,
            self._write_file,
            restart=settings.restart,
            startup_timeout=settings.startup_timeout,
        )
        self._ready = asyncio.Event()

    def controlled(self, socket: Path) -> AbstractAsyncContextManager[None]:
        """Let the gateways list and kill the stack's processes through `socket`."""
        return control_socket(socket, self._supervisor, self._worker_ids)

    @asynccontextmanager
    async def reloading(
        self, find: Callable[[], DevSettings], project: Path, console: Console
    ) -> AsyncIterator[None]:
        """Replace the workers when their code is saved; `find` returns the agents as they are now.

        Saves count from the beginning of the block on, and take effect once the stack is ready.
        """
        if not (self._settings.reload and self._settings.workers):
            yield
            return
        reloader = Reloader(
            self._supervisor,
            lambda: self._plan.workers(find(), self._supervisor.specs),
            console.show,
            lambda: self._apply_declarations(find()),
            timeout=self._settings.startup_timeout,
        )
        config = project / (self._settings.config or AGENTS_FILE)
        roots = roots_of(targets_of(self._settings, project), project)
        watching = asyncio.create_task(reloader.run(roots, config.absolute(), self._ready))
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def live(self, stop: asyncio.Event) -> None:
        try:
            if await self._unless(stop, self._come_up()):
                self._supervisor.settle()
                if await self._unless(stop, self._print_ready()):
                    self._ready.set()
                    await stop.wait()
        finally:
            await self._supervisor.end()

    async def _print_ready(self) -> None:
        url = self._plan.gateway_urls[0]
        _print_line(f"ready {url}")
        if self._settings.console:
            _print_line(f"console {console_url(url)}")
        _print_line(f"nats {without_credentials(self._plan.nats_url)}")
        if self._settings.observe:
            _print_line(self._about_prometheus())
        for line in await self._apply_declarations(self._settings):
            _print_line(line)
        if self._settings.workers and serves_demo(self._settings):
            _print_line("no agents in this folder; these are the demo agents")
        for line in await summary(url):
            _print_line(line)

    async def _apply_declarations(self, settings: DevSettings) -> list[str]:
        """Apply what the project of `settings` declares besides agents; return lines about it."""
        url, lines = self._plan.gateway_urls[0], list[str]()
        if settings.config:
            lines += await apply_file(url, Path(settings.config))
        if agents := in_code(settings, self._project):
            lines += await apply_code(url, agents, settings.startup_timeout)
        return [one_line(line) for line in lines]

    def _about_prometheus(self) -> str:
        if self._plan.prometheus is not None:
            return f"prometheus {self._plan.prometheus.url}"
        return (
            "Prometheus is not installed (on Debian: apt-get install prometheus); "
            f"its targets are in {prometheus.targets_in(self._folder)}"
        )

    async def _come_up(self) -> None:
        for server, spec in self._plan.servers():
            await self._supervisor.start(spec)
            await self._until_answers(server)
        if self._plan.nats is not None and not self._settings.ephemeral:
            # Here, because this alone needs the NATS client, which takes a quarter of the start.
            from headrace_cli.dev import embedded_bus as bus  # noqa: PLC0415 - see above

            await bus.forget_workers(bus.without_login(self._settings, self._plan.nats_url))
        async with ready_reports(len(self._plan.services)) as reports:
            for spec in self._plan.services:
                await self._supervisor.start(spec, NOTIFY_SOCKET=reports.path)
            for spec in self._plan.observers():
                await self._supervisor.start(spec)
            self._write_file()
            await until_ready(
                self._plan.gateway_urls,
                with_agents=self._settings.workers > 0,
                timeout=self._settings.startup_timeout + _REPORT_TIMEOUT,
                pause=reports.pause,
            )

    async def _unless(self, stop: asyncio.Event, work: Coroutine[None, None, None]) -> bool:
        """Return whether `work` finished before `stop`; raise a failure of `work` or a child."""
        doing = asyncio.create_task(work)
        stopping = asyncio.create_task(_wait(stop))
        futures = (doing, stopping, self._supervisor.failure)
        done, _ = await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        doing.cancel()
        stopping.cancel()
        await asyncio.gather(doing, stopping, return_exceptions=True)
        for future in done:
            future.result()
        return doing in done

    async def _until_answers(self, server: NatsServer | ValkeyServer) -> None:
        deadline = time.monotonic() + self._settings.startup_timeout
        while not await asyncio.to_thread(server.answers):
            if time.monotonic() > deadline:
                raise CannotStart(f"{server.url} does not answer")
            await asyncio.sleep(_PAUSE)

    def _write_file(self) -> None:
        processes = [_process(child) for child in self._supervisor.children]
        content = dev_file.DevFile(
            processes=processes, nats_url=self._plan.nats_url, redis_url=self._plan.redis_url
        )
        dev_file.write(self._folder, content)
        if self._settings.observe:
            prometheus.write_targets(prometheus.targets_in(self._folder), self._supervisor.specs)


async def summary(gateway: str) -> list[str]:
    """Return the lines about the agents at `gateway`; none if it lists no agents."""

    async def work(client: "Client") -> list[str]:
        agents = sorted(await client.agents(), key=lambda one: not one.is_default)
        return [*_urls(gateway, agents), await _try(client, gateway, agents[0])] if agents else []

    try:
        return [one_line(line) for line in await ask_gateway(gateway, None, work)]
    except (RequestFailed, LookupError, TypeError):  # such as an answer without access
        return []


def _urls(gateway: str, agents: "list[AgentInfo]") -> list[str]:
    # With a slash at the end: some clients join the card's path to it as browsers join links.
    width = max(len(one.name) for one in agents)
    return [
        f"  {one.name:{width}} {gateway}/v1/agents/{quote(one.name, safe='')}/"
        f"{' (default)' if one.is_default else ''}"
        for one in agents
    ]


async def _try(client: "Client", gateway: str, agent: "AgentInfo") -> str:
    card = await client.card(agent.name)
    examples = (example for skill in card["skills"] for example in skill.get("examples", ()))
    words = ["headrace", "send"]
    words += [] if agent.is_default else ["--agent", agent.name]
    words += [] if gateway == USUAL_URL else ["--url", gateway]
    return f"try: {shlex.join([*words, next(examples, 'Hello')])}"


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _process(child: ChildProcess) -> dev_file.Process:
    spec = child.spec
    process = dev_file.Process(role=spec.role, index=spec.index, pid=child.pid, port=spec.port)
    if spec.grpc_port is not None:
        process["grpc_port"] = spec.grpc_port
    return process


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


@contextmanager
def _console() -> Iterator[Console]:
    console = Console()
    try:
        yield console
    finally:
        console.close()


def _on_signal() -> asyncio.Event:
    """Return an event set by a signal to end; an ignored signal (nohup) stays ignored."""
    stop = asyncio.Event()
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop
