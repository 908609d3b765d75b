"""What every service does alike: settings, signals, probes, an orderly end, and its exit code."""

import asyncio
import gc
import logging
import os
import signal
import socket
import socketserver
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from http import HTTPStatus
from http.server import ThreadingHTTPServer
from threading import Thread
from typing import override

import orjson
import uvloop
from prometheus_client import MetricsHandler
from pydantic import ValidationError

from headrace import log_lines
from headrace.model.errors import HeadraceError, StreamsDiffer
from headrace.secret_settings import first_error

_log = logging.getLogger(__name__)

_YOUNG = 20_000
"""Objects that come to be, beyond those that go, before the young ones are looked through: a few
megabytes. What is in no cycle, as nearly everything here, goes without."""

_OLDER = 20
"""Such looks, before those who outlived one are looked through as well."""

type Serving = Callable[[asyncio.Event], AbstractAsyncContextManager[None]]
"""Makes a block for whose length the service runs: it is entered when the service has started. The
event is set when the service is to stop; the service may set it itself."""


class PortTaken(HeadraceError):
    """A port that a setting names can't be listened on."""

    code = "port_taken"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A service whose settings fit."""

    log_level: str
    serving: Serving


def run(prepare: Callable[[], Prepared], fatal: tuple[type[Exception], ...] = ()) -> int:
    """Prepare a service and run it until SIGTERM or SIGINT; return the process's exit code.

    0: it was told to stop. 1: it could not start, which may help later (a taken port, a server
    away for too long). 78 (EX_CONFIG): starting again does not help: a setting does not fit, the
    streams are not what the settings ask for, or one of the errors `fatal` was raised.
    """
    fatal = (StreamsDiffer, *fatal)
    unfit: tuple[type[Exception], ...] = (ValidationError, *fatal)
    try:
        prepared = prepare()
    except unfit as error:
        log_lines.configure("WARNING", "%(message)s")
        _log.error("%s", first_error(error) if isinstance(error, ValidationError) else error)
        return os.EX_CONFIG
    log_lines.configure(prepared.log_level)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(_until_signal(prepared.serving))
        except fatal as error:
            _log.error("%s", error)
            return os.EX_CONFIG
        except HeadraceError as error:
            _log.error("%s", error)
            return 1
    return 0


async def _until_signal(serving: Serving) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await serve(serving, stop)


async def serve(serving: Serving, stop: asyncio.Event) -> None:
    """Run a service until `stop` is set, also while it starts.

    Raises:
        Exception: whatever keeps the service from starting.
    """
    running = serving(stop)
    starting, stopping = asyncio.create_task(_enter(running)), asyncio.create_task(stop.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        return
    try:
        starting.result()
        settle()
        await stopping
    finally:
        stopping.cancel()
        if starting.exception() is None:
            await running.__aexit__(None, None, None)


async def _enter(running: AbstractAsyncContextManager[None]) -> None:
    await running.__aenter__()


def settle() -> None:
    """Have Python's garbage collector seldom run, and past what the service is made of.

    A service is some 100,000 objects, nearly all of them modules, models and routes that stay.
    Python would go through them all again and again, and through the young ones after every few
    requests; both together were a tenth of what a short run costs. Calling it again lets what has
    become garbage since go.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _OLDER, _OLDER)


def observe(
    host: str, port: int, is_ready: Callable[[], bool], note: Callable[[], str] = str
) -> None:
    """Serve `/metrics`, `/healthz` and `/readyz` for the life of the process; port 0: don't.

    For a service without HTTP of its own. `/healthz` answers 200 while the process lives, `/readyz`
    while `is_ready`, else 503, with a `note` if there is one. They are asked on another thread.

    Raises:
        PortTaken: it can't be listened on.
    """
    if not port:
        return
    try:
        server = _Server(host, port, is_ready, note)
    except OSError as error:
        raise PortTaken(f"HEADRACE_METRICS_PORT: {error}") from error
    Thread(target=server.serve_forever, name="observing", daemon=True).start()


class _Server(ThreadingHTTPServer):
    """Answers on threads of its own: an agent that holds the loop does not make it silent."""

    def __init__(
        self, host: str, port: int, is_ready: Callable[[], bool], note: Callable[[], str]
    ) -> None:
        if ":" in host:
            self.address_family = socket.AF_INET6
        self.is_ready, self.note = is_ready, note
        super().__init__((host, port), _Page)

    @override
    def server_bind(self) -> None:
        # http.server's own looks the host's name up, and waits for a DNS that does not answer.
        socketserver.TCPServer.server_bind(self)


class _Page(MetricsHandler):
    """``/healthz``, ``/readyz``; anything else is the metrics."""

    server: _Server

    @override
    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/healthz":
            self._say("ok", is_well=True)
        elif path == "/readyz":
            is_ready = self.server.is_ready()
            self._say("ready" if is_ready else "unavailable", self.server.note(), is_well=is_ready)
        else:
            super().do_GET()

    def _say(self, status: str, note: str = "", *, is_well: bool) -> None:
        body = orjson.dumps({"status": status, "note": note} if note else {"status": status})
        self.send_response(HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
