"""A service that finds no server says what it waits for, and gives up after a bound."""

import os
import signal
from pathlib import Path

import pytest

from tests.support.announced import instances
from tests.support.servers import NatsProcess, ValkeyProcess, ports
from tests.support.service_process import ServiceProcess
from tests.support.waiting import until

COMMANDS = {
    "gateway": ["gateway"],
    "worker": ["worker", "headrace.demo:agents"],
    "task-state": ["task-state"],
}


def started(folder: Path, name: str, **environment: str) -> ServiceProcess:
    given = {
        "HEADRACE_STARTUP_TIMEOUT": "4",
        "HEADRACE_HTTP_PORT": str(ports.pick()),
        "HEADRACE_GRPC_PORT": str(ports.pick()),
        **environment,
    }
    service = ServiceProcess(name, folder, COMMANDS[name], given, lambda: True)
    return service.start(wait=False)


def last_words(service: ServiceProcess) -> str:
    """Wait until `service` has given up and return its log."""
    with service:
        until(lambda: not service.is_running, f"{service.name} gives up")
        assert service.exit_code() != 0
    return service.log.read_text()


@pytest.mark.parametrize("name", COMMANDS)
def test_without_nats_a_service_reports_it_and_gives_up(
    name: str, valkey: ValkeyProcess, tmp_path: Path
) -> None:
    url = f"nats://127.0.0.1:{ports.pick()}"
    service = started(tmp_path, name, HEADRACE_NATS_URL=url, HEADRACE_REDIS_URL=valkey.url)
    output = last_words(service)
    assert f"waiting for NATS at {url}" in output
    assert f"NATS at {url} did not answer within 4 s" in output
    assert "Traceback" not in output


def test_without_redis_task_state_reports_it_and_gives_up(
    nats_server: NatsProcess, tmp_path: Path
) -> None:
    url = f"redis://127.0.0.1:{ports.pick()}/0"
    service = started(
        tmp_path,
        "task-state",
        HEADRACE_NATS_URL=nats_server.url,
        HEADRACE_REDIS_URL=url,
        HEADRACE_PREFIX="waiting",
        HEADRACE_STREAM_PREFIX="WAITING_",
    )
    output = last_words(service)
    assert "waiting for Redis" in output
    assert "did not answer within 4 s" in output
    assert "Traceback" not in output


def test_a_service_that_waits_begins_when_nats_is_there(tmp_path: Path) -> None:
    nats = NatsProcess(tmp_path / "nats")
    with started(
        tmp_path / "worker", "worker", HEADRACE_NATS_URL=nats.url, HEADRACE_STARTUP_TIMEOUT="30"
    ) as worker:
        until(lambda: "waiting for NATS" in worker.log.read_text(), "the worker waits")
        with nats:
            until(lambda: instances(nats.url, "echo"), "the worker has announced its agents")


def test_sigusr1_stops_a_worker_that_waits_for_nats(tmp_path: Path) -> None:
    url = f"nats://127.0.0.1:{ports.pick()}"
    with started(
        tmp_path, "worker", HEADRACE_NATS_URL=url, HEADRACE_STARTUP_TIMEOUT="60"
    ) as worker:
        until(lambda: "waiting for NATS" in worker.log.read_text(), "the worker waits")
        os.kill(worker.pid, signal.SIGUSR1)
        until(lambda: not worker.is_running, "the worker stops")
        assert worker.exit_code() == 0
