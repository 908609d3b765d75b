"""The benchmark runs, and believes nothing that is not whole. What it measures is not judged."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from tests.benchmarks import bus_costs, contestants, report, rounds
from tests.benchmarks.bindings import BINDINGS, Binding
from tests.benchmarks.contestants import Contestant
from tests.benchmarks.http_client import Connection, ServerFailed
from tests.benchmarks.measure import Measure
from tests.benchmarks.measures import MEASURES
from tests.benchmarks.sizes import TINY
from tests.support.servers import NatsProcess


@pytest.fixture(scope="module")
def official(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Contestant]:
    with contestants.official(tmp_path_factory.mktemp("official")) as server:
        yield server


@pytest.fixture(scope="module")
def headrace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Contestant]:
    with contestants.headrace(tmp_path_factory.mktemp("headrace")) as server:
        yield server


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Contestant]:
    with contestants.plain(tmp_path_factory.mktemp("plain")) as server:
        yield server


def plan(binding: Binding) -> rounds.Plan:
    return rounds.Plan(binding, TINY, rounds=1, say=lambda _: None)


@pytest.mark.parametrize("binding", BINDINGS.values(), ids=lambda binding: str(binding.name))
@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: str(measure.name))
async def test_every_measure_is_taken_of_every_server_that_can_do_it(
    official: Contestant,
    plain: Contestant,
    headrace: Contestant,
    measure: Measure,
    binding: Binding,
) -> None:
    results = await rounds.run(measure, [official, plain, headrace], plan(binding))

    assert results.keys() == set(measure.of)
    assert len(measure.of) == 1 or (report.ratio(results) or 0) > 0
    assert measure.title in report.table([measure], {measure.name: results})


def test_the_command_writes_what_it_measured(tmp_path: Path) -> None:
    file = tmp_path / "measured.json"
    words = ["--servers", "official", "--only", "one-stream", "--tiny", "--json", str(file)]

    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks", *words],
        check=True,
        capture_output=True,
        text=True,
        timeout=240,
    )

    [measured] = orjson.loads(file.read_bytes())["measures"]
    assert measured["name"] == "one-stream"
    assert [sample["done"] for sample in measured["servers"]["official"]["samples"]] == [23] * 3
    assert "one stream" in done.stdout


async def test_another_status_than_200_is_no_answer(official: Contestant) -> None:
    request = b"DELETE / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with official.connections(1) as [connection], pytest.raises(ServerFailed, match="405"):
        await connection.ask(request)


async def test_a_server_that_hangs_up_is_no_answer() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        connection = Connection(*server.sockets[0].getsockname())
        with pytest.raises(ServerFailed, match="hung up"):
            await connection.ask(b"GET / HTTP/1.1\r\n\r\n")


@pytest.mark.timeout(900)
def test_failover_scaling_follow_ups_and_rebuilds_are_measured() -> None:
    words = ["--kills", "1", "--rounds", "1", "--messages", "4", "--workers", "1"]
    words += ["--tasks", "40", "--waiting", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.fleet", *words],
        check=True,
        capture_output=True,
        text=True,
        timeout=850,
    )
    failover, scaling, first, follow_up, rebuilt, *asked, streamed = done.stdout.splitlines()
    assert re.fullmatch(r"failover, 1 kills, least / median / most: .* s \((ok|NO)\)", failover)
    assert re.fullmatch(r"runs of 1 s of waiting, 1 worker processes: \d+ runs/s", scaling)
    assert "first message, idle" in first
    assert "follow-up, idle" in follow_up
    assert re.fullmatch(r"view rebuilt: \d+ tasks/s", rebuilt)
    assert [line.split()[0] for line in asked] == ["get", "subscribe", "follow-up", "cancel"]
    assert re.fullmatch(r"  a stream meanwhile: \d+ events/s, before: \d+", streamed)


async def test_a_question_and_a_run_over_the_bus_are_measured(nats_server: NatsProcess) -> None:
    lines = await bus_costs.measure(nats_server.url, questions=64, runs=64)
    ways = ["nats_py", "faststream", "counted", "pull_by_request", "pull_by_faststream"]
    assert [line.split()[2].rstrip(":") for line in lines] == ways
    assert [line for line in lines if not re.fullmatch(r".*: [1-9]\d* µs", line)] == []
