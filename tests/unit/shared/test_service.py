"""The life of a service, and what of it is the process'."""

import asyncio
import gc
import logging
import os
import resource
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from headrace import log_lines, service
from headrace.log_lines import LogOptions
from headrace.model.errors import BusUnavailable, StreamsDiffer
from headrace.service import (
    PortTaken,
    PreparedService,
    Stop,
    measure_loop_lag,
    observe,
    run,
    serve,
)
from headrace_task_state.settings import TaskStateSettings
from headrace_triggers.settings import TriggersSettings
from headrace_worker.settings import WorkerSettings
from tests.support.servers import ports
from tests.support.waiting import until


@pytest.fixture(autouse=True)
def logging_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the hooks for uncaught errors of the tests' own process."""
    monkeypatch.setattr(log_lines, "configure", lambda _: None)


def test_a_process_settles_once_its_service_has_started(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def serving(stop: asyncio.Event) -> AsyncIterator[None]:
        seen.append("starts")
        asyncio.get_running_loop().call_later(0.05, stop.set)
        yield
        seen.append("stops")

    monkeypatch.setattr(service, "settle", lambda: seen.append("settles"))
    assert run(lambda: PreparedService(LogOptions("warning"), serving), {}) == 0
    assert seen == ["starts", "settles", "stops"]


def test_garbage_is_collected_again_once_a_service_has_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    collected: list[bool] = []

    @asynccontextmanager
    async def serving(stop: asyncio.Event) -> AsyncIterator[None]:
        collected.append(gc.isenabled())
        asyncio.get_running_loop().call_later(0.05, stop.set)
        yield
        collected.append(gc.isenabled())

    monkeypatch.setattr(gc, "freeze", lambda: None)  # of the tests' own process
    before = gc.get_threshold()
    try:
        assert run(lambda: PreparedService(LogOptions("warning"), serving), {}) == 0
    finally:
        gc.set_threshold(*before)
    assert collected == [False, True]


def test_a_service_may_open_as_many_files_as_the_system_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    soft: list[int] = []

    @asynccontextmanager
    async def serving(stop: asyncio.Event) -> AsyncIterator[None]:
        soft.append(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        stop.set()
        yield

    monkeypatch.setattr(service, "settle", lambda: None)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1] - 1, before[1]))
    try:
        assert run(lambda: PreparedService(LogOptions("warning"), serving), {}) == 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert soft == [before[1]]


def test_a_service_that_cannot_start_leaves_the_garbage_collector_on() -> None:
    def prepare() -> PreparedService:
        raise StreamsDiffer("other streams")

    assert run(prepare, {}) == os.EX_CONFIG
    assert gc.isenabled()


def test_a_service_that_fails_while_it_runs_stops_and_ends_with_1(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stopped: list[bool] = []

    @asynccontextmanager
    async def serving(stop: Stop) -> AsyncIterator[None]:
        asyncio.get_running_loop().call_later(0.05, stop.fail, BusUnavailable("closed"))
        yield
        stopped.append(stop.is_set())

    monkeypatch.setattr(service, "settle", lambda: None)
    assert run(lambda: PreparedService(LogOptions("warning"), serving), {}) == 1
    assert stopped == [True]


async def test_a_service_in_a_process_of_others_leaves_the_garbage_collector_as_it_is() -> None:
    stop = Stop()

    @asynccontextmanager
    async def serving(_: asyncio.Event) -> AsyncIterator[None]:
        yield
        assert stop.is_set()

    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    running = asyncio.create_task(serve(serving, stop))
    await asyncio.sleep(0.01)
    stop.set()
    await asyncio.wait_for(running, 60)
    assert (gc.get_threshold(), gc.get_freeze_count()) == (before, frozen)


def test_readiness_is_reported_once_the_service_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = list[bytes]()

    @asynccontextmanager
    async def serving(_: asyncio.Event) -> AsyncIterator[None]:
        with pytest.raises(BlockingIOError):
            supervisor.recv(100)
        yield
        reports.append(supervisor.recv(100))

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.settimeout(0)
        supervisor.bind(str(tmp_path / "ready"))
        monkeypatch.setattr(service, "settle", lambda: os.kill(os.getpid(), signal.SIGTERM))
        assert (
            run(
                lambda: PreparedService(LogOptions("warning"), serving),
                {"NOTIFY_SOCKET": str(tmp_path / "ready")},
            )
            == 0
        )
    assert reports == [b"READY=1"]


def test_sigusr2_switches_to_debug_and_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "level", logging.WARNING)
    levels: list[int] = []

    @asynccontextmanager
    async def serving(stop: asyncio.Event) -> AsyncIterator[None]:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGUSR2)
            await asyncio.sleep(0.05)
            levels.append(root.level)
        stop.set()
        yield

    monkeypatch.setattr(service, "settle", lambda: None)
    assert run(lambda: PreparedService(LogOptions("warning"), serving), {}) == 0
    assert levels == [logging.DEBUG, logging.WARNING]
    assert caplog.messages == ["log level: debug", "log level: warning"]


def exported_lag() -> float:
    return REGISTRY.get_sample_value("headrace_loop_lag_seconds_sum") or 0.0


async def test_what_blocks_the_loop_is_lag() -> None:
    before = exported_lag()
    measuring = asyncio.create_task(measure_loop_lag(interval=0.01))
    await asyncio.sleep(0)
    time.sleep(0.2)  # noqa: ASYNC251 - blocks the loop, as an agent might
    await asyncio.sleep(0.02)
    measuring.cancel()
    # The timer was due 0.19 s earlier, however slow the machine is.
    assert exported_lag() - before > 0.15


def _answer(port: int, path: str) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 30) as probe:
        probe.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        return b"".join(iter(lambda: probe.recv(65536), b""))


def test_processes_of_one_machine_take_one_port_each() -> None:
    first, second = two = sorted(ports.pick() for _ in range(2))
    observe("127.0.0.1", two, lambda: True)
    observe("127.0.0.1", two, lambda: False)
    assert _answer(first, "/readyz").startswith(b"HTTP/1.0 200 ")
    assert _answer(second, "/readyz").startswith(b"HTTP/1.0 503 ")


def test_a_process_without_a_free_port_says_so_and_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    two = [ports.pick(), ports.pick()]
    for port in two:
        observe("127.0.0.1", [port], lambda: True)
    observe("127.0.0.1", two, lambda: False)
    [said] = [one.message for one in caplog.records if one.levelname == "WARNING"]
    assert said.endswith("are in use; set HEADRACE_METRICS_PORT")


def test_a_port_that_was_asked_for_and_a_host_without_ports_are_refused() -> None:
    port = ports.pick()
    observe("127.0.0.1", [port], lambda: True)
    with pytest.raises(PortTaken, match="HEADRACE_METRICS_PORT"):
        observe("127.0.0.1", [port], lambda: True)
    with pytest.raises(PortTaken):
        observe("192.0.2.1", [port, port + 1], lambda: True)


def test_each_service_has_ports_of_its_own() -> None:
    classes = (TaskStateSettings, TriggersSettings, WorkerSettings)
    own = [set(one().metrics_choice) for one in classes]
    assert [len(one) for one in own] == [20, 20, 20]
    assert len(set.union(*own)) == 60
    assert WorkerSettings(metrics_port=0).metrics_choice == ()
    assert WorkerSettings(metrics_port=8080).metrics_choice == (8080,)


def test_clients_that_send_half_a_request_keep_no_probe_and_few_threads() -> None:
    port, before = ports.pick(), threading.active_count()
    observe("127.0.0.1", [port], lambda: True)
    with ExitStack() as held:
        for _ in range(100):
            slow = held.enter_context(socket.create_connection(("127.0.0.1", port), 30))
            slow.sendall(b"GET /metrics HT")
        assert _answer(port, "/readyz").startswith(b"HTTP/1.0 200 ")
        until(lambda: threading.active_count() - before <= 40, "the oldest have been closed")
        assert b"python_info" in _answer(port, "/metrics")


@pytest.mark.parametrize("piece", [b"", b"G"], ids=["nothing", "a byte at a time"])
def test_a_client_of_a_probe_that_does_not_end_is_disconnected(piece: bytes) -> None:
    port, before = ports.pick(), threading.active_count()
    observe("127.0.0.1", [port], lambda: True, most_seconds=0.2)
    with socket.create_connection(("127.0.0.1", port), 0.1) as slow:

        def is_disconnected() -> bool:
            try:
                slow.sendall(piece)
                return slow.recv(1) == b""
            except TimeoutError:
                return False
            except ConnectionError:
                return True

        until(is_disconnected, "the client has been disconnected")
    assert _answer(port, "/healthz").endswith(b'{"status":"ok"}')
    until(lambda: threading.active_count() - before <= 1, "its thread has ended")


def test_a_client_that_disconnects_leaves_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    port = ports.pick()
    observe("127.0.0.1", [port], lambda: True)
    with socket.create_connection(("127.0.0.1", port), 30) as rude:
        rude.sendall(b"GET http://[ HTTP/1.1\r\n\r\n")
        assert rude.recv(1) == b""
    assert _answer(port, "/healthz").endswith(b'{"status":"ok"}')
    assert capsys.readouterr().err == ""
