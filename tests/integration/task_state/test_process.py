"""`headrace task-state` as a process: how it starts and how it ends."""

import asyncio
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.forked_process import HEADRACE, ForkedProcess, start_service
from tests.support.resuming_sizes import sized
from tests.support.servers import NatsProcess, ValkeyProcess, ports
from tests.support.task_states import TaskStates
from tests.support.waiting import until


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_soon_and_in_good_order(
    fleet: TaskStates, tmp_path: Path, number: signal.Signals
) -> None:
    process = await fleet.spawn(tmp_path, "replica")
    await fleet.followed()
    begun = time.monotonic()
    process.send_signal(number)
    assert await asyncio.to_thread(process.wait, 60) == 0
    assert time.monotonic() - begun < sized(15, 2)
    leases = await fleet.redis.ask(["EXISTS", fleet.keys.lease(fleet.ranges[0])])
    assert leases == [0]
    assert "Traceback" not in await asyncio.to_thread((tmp_path / "replica.log").read_text)


async def test_a_signal_ends_it_also_while_it_waits_for_servers(tmp_path: Path) -> None:
    process, log = spawn(tmp_path)
    await asyncio.to_thread(until, lambda: "waiting for" in log.read_text(), "it waits")
    process.terminate()
    assert await asyncio.to_thread(process.wait, 60) == 0


def spawn(folder: Path, **environment: str) -> tuple[subprocess.Popen[bytes] | ForkedProcess, Path]:
    """Start a replica that finds no servers unless told otherwise; return it and its log."""
    log = folder / "task-state.log"
    nobody = f"nats://127.0.0.1:{ports.pick()}"
    process = start_service(
        [str(HEADRACE), "task-state"],
        log,
        environment={
            "PATH": os.environ["PATH"],
            "HEADRACE_NATS_URL": nobody,
            "HEADRACE_REDIS_URL": "redis://user:secret@127.0.0.1:1/0",
            **{f"HEADRACE_{name.upper()}": value for name, value in environment.items()},
        },
    )
    return process, log


def test_without_nats_it_states_what_it_waits_for_and_gives_up(
    valkey: ValkeyProcess, tmp_path: Path
) -> None:
    process, log = spawn(tmp_path, startup_timeout="4", redis_url=valkey.url)
    assert process.wait(60) == 1
    assert "waiting for NATS at nats://127.0.0.1:" in log.read_text()
    assert "did not answer within 4 s" in log.read_text()
    assert "Traceback" not in log.read_text()


def test_without_redis_it_states_what_it_waits_for_and_gives_up(
    nats_server: NatsProcess, tmp_path: Path
) -> None:
    process, log = spawn(tmp_path, startup_timeout="2", nats_url=nats_server.url)
    assert process.wait(60) == 1
    assert "waiting for Redis at redis://127.0.0.1:1/0" in log.read_text()
    assert "Redis at redis://127.0.0.1:1/0 did not answer within 2 s" in log.read_text()
    assert "secret" not in log.read_text()
    assert "Traceback" not in log.read_text()


def test_it_begins_once_its_servers_are_there(tmp_path: Path) -> None:
    nats, valkey = NatsProcess(tmp_path / "nats"), ValkeyProcess(tmp_path / "valkey")
    process, log = spawn(tmp_path, nats_url=nats.url, redis_url=valkey.url)
    until(lambda: "waiting for" in log.read_text(), "it waits")
    with nats, valkey:
        until(lambda: "range 0: following" in log.read_text(), "it follows")
        process.terminate()
        assert process.wait(60) == 0


def test_a_setting_that_does_not_fit_is_one_clear_line(tmp_path: Path) -> None:
    process, log = spawn(tmp_path, retention="soon")
    assert process.wait(60) == os.EX_CONFIG
    [line] = log.read_text().splitlines()
    assert "HEADRACE_RETENTION" in line


def test_an_unusable_certificate_of_redis_is_one_clear_line(tmp_path: Path) -> None:
    process, log = spawn(tmp_path, redis_url="rediss://127.0.0.1:1/0", redis_ca="garbage")
    assert process.wait(60) == os.EX_CONFIG
    [line] = log.read_text().splitlines()
    assert "HEADRACE_REDIS_CA contains no PEM certificate" in line
