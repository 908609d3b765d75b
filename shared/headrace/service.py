"""The life of a service process: settings, signals, probes, shutdown and exit code."""

import asyncio
import errno
import gc
import logging
import os
import platform
import resource
import signal
import socket
import socketserver
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from importlib.metadata import version
from threading import Lock, Thread
from typing import Any, Protocol, override

import uvloop
from prometheus_client import MetricsHandler
from pydantic import ValidationError

from headrace import log_lines, tracing
from headrace.background import keep_running
from headrace.log_lines import LogOptions
from headrace.metrics import BUILD, CONNECTIONS_TIMED_OUT, LOOP_LAG_SECONDS
from headrace.model import json_text
from headrace.model.errors import HeadraceError, SettingInvalid, StreamsDiffer
from headrace.secret_settings import SecretUnreadable, setting_errors
from headrace.server_versions import ServerTooOld
from headrace.setting_names import ineffective_settings
from headrace.settings import MetricsSettings
from headrace.ticks import until_tick

_log = logging.getLogger(__name__)

_YOUNG = 20_000
"""Garbage collector threshold: objects created minus objects freed before a young collection, a few
megabytes. Objects without reference cycles, nearly all here, are freed without it."""

_OLDER = 20
"""Young collections before the next older generation is collected."""

_NO_HELP = (StreamsDiffer, ServerTooOld, SecretUnreadable, SettingInvalid)
"""Errors after which another start does not help."""

_LOG_FORMAT = "HEADRACE_LOG_FORMAT"


class Stop(asyncio.Event):
    """Is set when the service should stop, also by the service itself."""

    def __init__(self) -> None:
        """Belong to the loop that runs."""
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self.failure: HeadraceError | None = None

    def fail(self, why: HeadraceError) -> None:
        """Stop the service as failed, so that a supervisor starts it again. Any thread may."""
        self.failure = self.failure or why
        self._loop.call_soon_threadsafe(self.set)


type Serve = Callable[[Stop], AbstractAsyncContextManager[None]]
"""Returns a context manager that runs the service. It is entered once the service has started."""


class PortTaken(HeadraceError):
    """A port in a setting is not available."""

    code = "port_taken"


@dataclass(frozen=True, slots=True)
class PreparedService:
    """A service with valid settings."""

    logs: LogOptions
    """How it logs. The service's name in it is also its name in traces, unless
    ``OTEL_SERVICE_NAME`` states another."""
    serving: Serve
    on_exit: Callable[[BaseException], None] | None = None
    """Takes the SystemExit or KeyboardInterrupt that one of its tasks raised: the service
    continues. None: the process ends with it."""


def run(
    prepare: Callable[[], PreparedService],
    variables: Mapping[str, str],
    fatal: tuple[type[Exception], ...] = (),
) -> int:
    """Prepare a service and run it until SIGTERM or SIGINT. Return the exit code.

    Environment `variables` that are nearly settings are logged. A supervisor that names a socket in
    ``NOTIFY_SOCKET`` is notified when the service has started, as systemd's protocol requires.
    SIGUSR2 switches the log level.

    - 0: it was stopped.
    - 1: it could not start, but a later start may succeed (a taken port, a server away for too
    long); or it can't go on, and a new start helps (`Stop.fail`).
    - 78 (EX_CONFIG): another start does not help: a setting is invalid, NATS or Redis is too old,
    the streams differ from the settings, a file that a setting names is missing or unusable, or one
    of the errors `fatal` was raised.
    """
    # Nearly all objects of a start stay; see `settle`.
    gc.disable()
    try:
        return _run(prepare, variables, (*_NO_HELP, *fatal))
    finally:
        gc.enable()


def _run(
    prepare: Callable[[], PreparedService],
    variables: Mapping[str, str],
    fatal: tuple[type[Exception], ...],
) -> int:
    unfit: tuple[type[Exception], ...] = (ValidationError, *fatal)
    try:
        prepared = prepare()
    except unfit as error:
        log_lines.configure_bare(is_json=variables.get(_LOG_FORMAT, "").lower() == "json")
        _warn_of_ineffective_settings(variables)
        for line in setting_errors(error) if isinstance(error, ValidationError) else [error]:
            _log.error("%s", line)
        return os.EX_CONFIG
    log_lines.configure(prepared.logs)
    _warn_of_ineffective_settings(variables)
    _allow_open_files()
    with (
        tracing.exporting(variables, prepared.logs.service),
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        try:
            _run_to_its_end(runner, prepared, variables.get("NOTIFY_SOCKET", ""))
        except fatal as error:
            _log.error("%s", error)
            return os.EX_CONFIG
        except HeadraceError as error:
            _log.error("%s", error)
            return 1
    return 0


def _allow_open_files() -> None:
    """Allow this process as many open files as the system does: each connection is one.

    Processes start with 1,024 under systemd and some container engines, for the sake of programs
    that use ``select``.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # macOS states a limit that it does not accept.
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _warn_of_ineffective_settings(variables: Mapping[str, str]) -> None:
    for setting in ineffective_settings(variables):
        _log.warning("%s", setting)


def _run_to_its_end(runner: asyncio.Runner, prepared: PreparedService, notify_socket: str) -> None:
    if prepared.on_exit is None:
        runner.run(_until_signal(prepared, notify_socket))
        return
    loop = runner.get_loop()
    serving = loop.create_task(_until_signal(prepared, notify_socket))
    while not serving.done():
        try:
            loop.run_until_complete(serving)
        except (SystemExit, KeyboardInterrupt) as exit_:
            # Such an error ends its task and leaves the loop, where all else still waits.
            if serving.done():
                raise
            prepared.on_exit(exit_)


async def _until_signal(prepared: PreparedService, notify_socket: str) -> None:
    stop, loop = Stop(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGUSR2, log_lines.switch_level, prepared.logs.level)

    def on_started() -> None:
        settle()
        if notify_socket:
            _report_ready(notify_socket)

    measuring = keep_running(measure_loop_lag, "loop lag")
    try:
        await serve(prepared.serving, stop, on_started)
    finally:
        measuring.cancel()


async def serve(serving: Serve, stop: Stop, on_started: Callable[[], None] | None = None) -> None:
    """Run a service until `stop` is set, which may happen while it starts.

    `on_started` is called once it has started.

    Raises:
        Exception: Any error that keeps the service from starting, or with which it has failed.
    """
    running = serving(stop)
    starting, stopping = asyncio.create_task(_enter(running)), asyncio.create_task(stop.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        _raise_failure(stop)
        return
    try:
        starting.result()
        if on_started:
            on_started()
        await stopping
    finally:
        stopping.cancel()
        if starting.exception() is None:
            await running.__aexit__(None, None, None)
    _raise_failure(stop)


def _raise_failure(stop: Stop) -> None:
    if stop.failure is not None:
        raise stop.failure


async def _enter(running: AbstractAsyncContextManager[None]) -> None:
    await running.__aenter__()


def _report_ready(address: str) -> None:
    if address.startswith("@"):  # systemd's notation for the abstract namespace
        address = f"\0{address[1:]}"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
            supervisor.sendto(b"READY=1", address)
    except OSError as error:
        _log.warning("NOTIFY_SOCKET: could not report that the service is ready: %s", error)


def settle() -> None:
    """Make Python's garbage collector run, but rarely, and skip the service's permanent objects.

    A service has about 100,000 objects, nearly all of them modules, models and routes that stay.
    Repeated collections of these, and of young objects after every few requests, were a tenth of
    the cost of a short run. It collects nothing first: of all these objects, about 500 are garbage,
    and to find them took a tenth of the start.
    """
    gc.freeze()
    gc.set_threshold(_YOUNG, _OLDER, _OLDER)
    gc.enable()


class ServiceReplica(Protocol):
    """A replica of a service without HTTP of its own."""

    @property
    def is_ready(self) -> bool:
        """Whether `/readyz` answers 200."""

    @property
    def note(self) -> str:
        """What `/readyz` tells operators beside that; usually empty."""

    def on_closed(self, callback: Callable[[HeadraceError], None]) -> None:
        """Call `callback` if a connection to NATS is closed for good."""

    async def start(self) -> None:
        """Connect and serve."""

    async def stop(self) -> None:
        """Hand over to other replicas and disconnect."""


@asynccontextmanager
async def serving(
    name: str, replica: ServiceReplica, settings: MetricsSettings, stop: Stop
) -> AsyncIterator[None]:
    """Run a replica of the service `name` for the length of the block.

    `stop` fails if NATS is lost for good.

    Raises:
        PortTaken: HEADRACE_METRICS_PORT is not available.
        HeadraceError: `replica` could not start.
    """
    replica.on_closed(stop.fail)
    export_build(name)
    ports = settings.metrics_choice
    observe(settings.metrics_host, ports, lambda: replica.is_ready, lambda: replica.note)
    try:
        await replica.start()
        yield
    finally:
        await replica.stop()


def export_build(name: str) -> None:
    """Export the versions of this process, which is the service `name`, as a metric."""
    BUILD.labels(name, version("headrace"), platform.python_version()).set(1)


def observe(
    host: str,
    ports: Sequence[int],
    is_ready: Callable[[], bool],
    note: Callable[[], str] = str,
    most_seconds: float = 10.0,
) -> None:
    """Serve `/metrics`, `/healthz` and `/readyz` for the life of the process.

    For a service without HTTP of its own. `/healthz` answers 200 while the process runs. `/readyz`
    answers 200 while `is_ready` returns true, else 503, with the text of `note` if it is not empty.
    They are served on another thread. A connection that lasts longer than `most_seconds` is closed.
    The first free one of `ports` is taken; without any, nothing is served. So many processes of a
    service can run on one machine.

    Raises:
        PortTaken: The only port is not available, or none can be on this host.
    """
    for port in ports:
        try:
            server = _ProbeServer((host, port), is_ready, note, most_seconds)
        except OSError as error:
            if len(ports) == 1 or error.errno != errno.EADDRINUSE:
                raise PortTaken(f"HEADRACE_METRICS_PORT: {error}") from error
        else:
            _log.info("metrics and probes are at port %d of %s", port, host)
            Thread(target=server.serve_forever, name="observing", daemon=True).start()
            return
    if ports:
        _log.warning(
            "no metrics and probes: ports %d to %d are in use; set HEADRACE_METRICS_PORT",
            ports[0],
            ports[-1],
        )


_MOST_CONNECTIONS = 32
"""Maximum connections to the metrics port. Each has a thread, and a probe is over in moments."""


class _ProbeServer(ThreadingHTTPServer):
    """Answers on its own threads, so that an agent that blocks the event loop does not block it.

    Clients that send or read slowly can't keep probes out: when there are too many connections, the
    oldest is closed.
    """

    request_queue_size = 2 * _MOST_CONNECTIONS

    def __init__(
        self,
        address: tuple[str, int],
        is_ready: Callable[[], bool],
        note: Callable[[], str],
        most_seconds: float,
    ) -> None:
        host, port = address
        if ":" in host:
            self.address_family = socket.AF_INET6
        self.is_ready, self.note = is_ready, note
        self._most_seconds = most_seconds
        self._open = dict[socket.socket, float]()
        """The connections, oldest first, and when each began."""
        self._changing = Lock()
        super().__init__((host, port), _ProbeHandler)

    @override
    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changing:
            self._open[request] = time.monotonic()
            if len(self._open) > _MOST_CONNECTIONS:
                self._close_oldest()
        super().process_request(request, client_address)

    @override
    def serve_forever(self, poll_interval: float = 0.5) -> None:
        """Serve connections, and every `poll_interval` seconds look for those to close.

        Only while one is open: the library's loop wakes an idle process as often.
        """
        while True:
            self.timeout = poll_interval if self._open else None
            self.handle_request()
            self.service_actions()

    @override
    def service_actions(self) -> None:
        """Close connections that are not served in time, which also those are that send slowly."""
        with self._changing:
            while self._open:
                began = next(iter(self._open.values()))
                if time.monotonic() - began <= self._most_seconds:
                    return
                CONNECTIONS_TIMED_OUT.labels("probe").inc()
                self._close_oldest()

    def _close_oldest(self) -> None:
        oldest = next(iter(self._open))
        del self._open[oldest]
        with suppress(OSError):
            # Its thread waits for its client no longer, and closes it.
            oldest.shutdown(socket.SHUT_RDWR)

    @override
    def shutdown_request(self, request: Any) -> None:
        with self._changing:
            self._open.pop(request, None)
        super().shutdown_request(request)

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        # Not on stderr, where each client that disconnects would leave a traceback.
        _log.debug("no answer to %s on the metrics port", client_address, exc_info=True)

    @override
    def server_bind(self) -> None:
        # The version of http.server resolves the host's name, and blocks if DNS does not answer.
        socketserver.TCPServer.server_bind(self)


class _ProbeHandler(MetricsHandler):
    """Serves ``/healthz`` and ``/readyz``; any other path returns the metrics."""

    server: _ProbeServer

    @override
    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/healthz":
            self._respond("ok", is_well=True)
        elif path == "/readyz":
            is_ready = self.server.is_ready()
            self._respond(
                "ready" if is_ready else "unavailable", self.server.note(), is_well=is_ready
            )
        else:
            super().do_GET()

    def _respond(self, status: str, note: str = "", *, is_well: bool) -> None:
        body = json_text.encode({"status": status, "note": note} if note else {"status": status})
        self.send_response(HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


async def measure_loop_lag(interval: float = 1.0) -> None:
    """Record every `interval` seconds, until cancelled, by how much a timer fires too late.

    What blocks the event loop delays every stream and run of the process.
    """
    loop = asyncio.get_running_loop()
    while True:
        pause = until_tick(interval)
        due = loop.time() + pause
        await asyncio.sleep(pause)
        LOOP_LAG_SECONDS.observe(max(loop.time() - due, 0.0))
