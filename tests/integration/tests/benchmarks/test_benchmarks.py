"""The benchmark runs, and believes nothing that is not whole. What it measures is not judged."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import httpx
import orjson
import pytest

from tests.benchmarks import (
    bus_costs,
    contestants,
    falls,
    fleet,
    report,
    rounds,
    scale,
    tables,
    telemetry,
)
from tests.benchmarks.bindings import BINDINGS, Binding
from tests.benchmarks.contestants import HEADRACE, Contestant
from tests.benchmarks.http_client import Connection, ServerFailed
from tests.benchmarks.measure import Measure
from tests.benchmarks.measures import MEASURES
from tests.benchmarks.sizes import TINY
from tests.support.compose_file import ROOT
from tests.support.resuming_sizes import IS_SOAK
from tests.support.servers import NatsProcess
from tests.support.soak import in_soak
from tests.support.span_collector import span_collector
from tests.support.stack import Stack


@pytest.fixture(scope="module")
def official(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Contestant]:
    with contestants.official(tmp_path_factory.mktemp("official")) as server:
        yield server


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("stack")
    # Of forks, which start in a tenth of the time: what it takes is not judged.
    with Stack(
        folder,
        gateways=2,
        workers=1,
        task_states=1,
        triggers=1,
        agents="tests.benchmarks.agents:agents",
        environment={"PYTHONPATH": str(ROOT)},
    ) as running:
        yield running


@pytest.fixture(scope="module")
def headrace(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Contestant:
    return contestants.of_stack(stack, tmp_path_factory.mktemp("headrace"))


@pytest.fixture(scope="module")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Contestant]]:
    """Lend the plain route and fasta2a's server."""
    with (
        contestants.plain(tmp_path_factory.mktemp("plain")) as plain,
        contestants.fasta2a(tmp_path_factory.mktemp("fasta2a")) as fasta2a,
    ):
        yield [plain, fasta2a]


def plan(binding: Binding) -> rounds.Plan:
    return rounds.Plan(binding, TINY, rounds=1, say=lambda _: None)


BY_REST = {"one-stream", "short-runs-awaited", "follow-ups", "get-task", "hundred", "resume"}
"""A measure for each request that a binding writes; the others send the same ones."""

TAKEN = [
    pytest.param(measure, binding, id=f"{measure.name}-{binding.name}")
    for measure in MEASURES
    for binding in BINDINGS.values()
    if binding.name != "rest" or measure.name in BY_REST
]


@in_soak(
    shown_by="integration/tests/benchmarks/test_benchmarks.py"
    "::test_the_command_writes_what_it_measured"
)
@pytest.mark.parametrize(("measure", "binding"), TAKEN)
async def test_every_measure_is_taken_of_every_server_that_can_do_it(
    official: Contestant,
    peers: list[Contestant],
    headrace: Contestant,
    measure: Measure,
    binding: Binding,
) -> None:
    servers = [official, *peers, headrace]
    results = await rounds.run(measure, servers, plan(binding))

    able = {server.name for server in servers if binding.name in server.bindings}
    assert results.keys() == set(measure.of) & able
    [measured] = report.as_json([measure], {measure.name: results})["measures"]
    assert measured["ratios"][""].keys() == results.keys() - {HEADRACE}
    assert min(one["least"] for one in measured["figures"][""].values()) > 0
    assert measure.title in tables.comparison({"measures": [measured]}).as_text()


@in_soak(
    shown_by="unit/tests/benchmarks/test_falls.py::test_a_ratio_falls_if_less_than_three_quarters_are_left"
)
async def test_what_has_fallen_is_measured_again(
    official: Contestant, headrace: Contestant
) -> None:
    measured = [one for one in falls.MEASURED if one.name.startswith("short-runs")]
    before = {"short-runs": 1e9, "short-runs-awaited": 0.0}

    results = await falls.take(measured, [official, headrace], TINY, before)

    counts = {name: len(of[HEADRACE].samples) for name, of in results.items()}
    assert counts == {"short-runs": 9, "short-runs-awaited": 3}
    fallen = [each.measure.name for each in falls.judge(results, before) if each.has_fallen]
    assert fallen == ["short-runs"]


def test_the_command_writes_what_it_measured(tmp_path: Path) -> None:
    file = tmp_path / "measured.json"
    words = ["--servers", "fasta2a", "--only", "one-stream", "--tiny", "--json", str(file)]

    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks", *words],
        check=True,
        capture_output=True,
        text=True,
        timeout=240,
    )

    [measured] = orjson.loads(file.read_bytes())["measures"]
    assert measured["name"] == "one-stream"
    assert [sample["done"] for sample in measured["samples"]["fasta2a"]] == [23] * 3
    assert "one stream" in done.stdout


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n", "405"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "hung up"),
    ],
)
async def test_another_status_than_200_or_half_an_answer_is_none(
    answer: bytes, problem: str
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        connection = Connection(*server.sockets[0].getsockname())
        with pytest.raises(ServerFailed, match=problem):
            await connection.ask(b"GET / HTTP/1.1\r\n\r\n")


SMALL_FLEET = ["--kills", "1", "--rounds", "1", "--workers", "1"]
SMALL_FLEET += ["--permits", "4", "--tasks", "40", "--waiting", "2"]
SMALL_FLEET += ["--schedules", "2", "--seconds", "2"]


def test_failover_scaling_rebuilds_and_schedules_are_measured(stack: Stack) -> None:
    check(list(fleet.lines(fleet.asked(SMALL_FLEET), lambda *_: nullcontext(stack))))
    # What is left over would load the machine as long as the stack runs.
    for agent in ("counter", "paced"):
        left = httpx.get(
            f"{stack.url}/v1/agents/{agent}/tasks",
            params={"status": "TASK_STATE_WORKING"},
            headers={"A2A-Version": "1.0"},
            timeout=60,
        )
        assert left.json()["tasks"] == []


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.skipif(not IS_SOAK, reason="starts four stacks: make soak, or make bench")
def test_the_fleet_is_measured_in_stacks_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.fleet", *SMALL_FLEET],
        check=True,
        capture_output=True,
        text=True,
        timeout=850,
    )
    check(done.stdout.splitlines())


@pytest.fixture
def emptied(tmp_path: Path) -> Iterator[Stack]:
    """A stack of its own, whose processes are killed and whose tasks expire."""
    with Stack(
        tmp_path,
        agents="tests.benchmarks.agents:agents",
        arguments=("--ephemeral", "--port", "0", "--no-reload"),
        environment={"PYTHONPATH": str(ROOT), "HEADRACE_SWEEP_AFTER": "0.2"},
    ) as running:
        yield running


SCALED = {
    "processes": [
        r"token of 3 streams x 20/s, 2 gateways and workers: .* us .*, 1.00 x .*",
        r"token of 3 streams x 20/s, 2 gateways and workers: .* us .*, \d.* x .*",
        r"run of one chunk, 2 at once, 2 gateways and workers: .* us .*, 1.00 x .*",
        r"run of one chunk, 2 at once, 2 gateways and workers: .* us .*, \d.* x .*",
        r"token of 6 streams x 20/s, 2 gateways and workers: .* us .*, 1.00 x .*",
    ],
    "streams": [
        r"3 streams x 200/s: 600 tokens/s",
        r"a token: [\d,]+ us .* of processor time .*worker [\d,]+.*",
        r"from the agent to the client: p50 [\d.]+ ms, p99 [\d.]+ ms",
    ],
    "subscribers": [
        r"20 subscribers of silent tasks: .* KB of a gateway each",
        r"all of them: [\d.]+ % of a core, of the gateway that serves them",
    ],
    "day": [
        r"hour 1: KB of gateway [\d,]+, .*",
        r"hour 2: KB of gateway [\d,]+, .*",
        r"12 tasks in 2 hours of 1 s",
        r"KB of gateway: [\d,]+, .*; \S+ an hour",
    ],
}


@pytest.mark.parametrize("name", SCALED)
async def test_a_fleet_with_much_of_something_is_measured(stack: Stack, name: str) -> None:
    stacks = [stack] * (2 if name == "processes" else 1)
    lines = [line async for line in scale.MEASURED[name].take(stacks, scale.SMALLEST)]
    patterns = SCALED[name]
    assert len(lines) >= len(patterns)
    for line, pattern in zip(lines, patterns, strict=False):
        assert re.fullmatch(pattern, line)
    held = [line for line in lines if re.fullmatch(r"threads of task-state: .* an hour", line)]
    assert len(held) == (name == "day")


async def test_a_fleet_with_many_tasks_is_measured(emptied: Stack) -> None:
    lines = [line async for line in scale.MEASURED["tasks"].take([emptied], scale.SMALLEST)]
    patterns = [
        r"40 logs stored in .*",
        r"a task takes [\d,]+ bytes of Redis, in [\d.]+ keys",
        r"GetTask of tasks of any age: [\d.]+ ms \(.*\); p50 [\d.]+ ms, p99 [\d.]+ ms",
        r"rows with counts by state, searched: [\d.]+ ms .*",
        r"a follow-up: [\d.]+ ms .*",
        r"2 inputs without a run request are over after [\d.]+ s; .*",
        r"task-state killed: .* all is listed after [\d.]+ s, .*",
        r"view lost: [\d,]+ tasks/s, all is listed after .*",
        r"list of summaries by state: [\d.]+ ms .*",
        r"all expire: [1-9][\d,]* tasks/s erased; .*",
    ]
    found = [[line for line in lines if re.fullmatch(one, line)] for one in patterns]
    assert [len(each) for each in found] == [1] * len(patterns), lines


def check(lines: list[str]) -> None:
    """Assert that the lines tell of each measurement of the fleet."""
    failover, scaling, rebuilt, *request, streamed, ticked, cost = lines
    assert re.fullmatch(r"failover, 1 kills, least / median / most: .* s \((ok|NO)\)", failover)
    assert re.fullmatch(r"runs of 1 s of waiting, 1 worker processes: \d+ runs/s", scaling)
    assert re.fullmatch(r"view rebuilt: \d+ tasks/s", rebuilt)
    assert [line.split()[0] for line in request] == ["get", "subscribe", "follow-up", "cancel"]
    assert re.fullmatch(r"  a stream meanwhile: \d+ events/s, before: \d+", streamed)
    ticking = r"2 schedules that fire every second, 2 s: \d+ tasks/s begun, \d+ firings/s skipped"
    assert re.fullmatch(ticking + r", \d+ waiting", ticked)
    assert re.match(r"processor time per task, ms: .*triggers \d", cost)


@pytest.mark.soak
@pytest.mark.skipif(
    not IS_SOAK, reason="its stack has nothing else to do: make soak, or make bench"
)
async def test_what_traces_and_metrics_cost_is_measured(tmp_path: Path) -> None:
    switch = telemetry.Switch(tmp_path / "switch")
    with (
        span_collector() as spans,
        contestants.headrace(tmp_path, environment=switch.environment(spans.url)) as server,
    ):
        short_runs, own, tokens = await telemetry.lines(server, switch, TINY, rounds=1)

    figure = r"[\d,.]+ us \([\d.]+ x, [\d.]+ to [\d.]+\)"
    figures = ", ".join(f"{name} {figure}" for name in telemetry.VARIANTS)
    goal = r"goal 1.0[15] x \((ok|NO)\)"
    assert re.fullmatch(rf"a short run, 32 at once, streamed: {figures}, {goal}", short_runs)
    assert re.fullmatch(rf"its part in Headrace's own processes: {figures}, {goal}", own)
    parts = r"[\d,]+ us, of which [\d.]+ calls of metrics [\d.]+ us"
    assert re.fullmatch(rf"a token of 4, 60 streams x 20/s: {parts}: [\d.]+ x, {goal}", tokens)


SWITCHED = """
import sys
from opentelemetry.trace import SpanKind
from prometheus_client import Counter
from headrace import tracing

one = Counter("one", "One.")
with tracing.exporting({"OTEL_TRACES_EXPORTER": "console"}, "one"):
    for _ in sys.stdin:
        before = one._value.get()
        one.inc()
        spans = [tracing.start_span("one", SpanKind.SERVER, None) for _ in range(100)]
        recording = sum(span.is_recording() for span in spans)
        sys.stderr.write(f"{one._value.get() - before:.0f} {recording}\\n")
        sys.stderr.flush()
"""


def test_each_variant_has_the_metrics_and_traces_that_it_is_named_after(tmp_path: Path) -> None:
    switch = telemetry.Switch(tmp_path / "switch")
    counted = dict[str, list[int]]()
    with subprocess.Popen(
        [sys.executable, "-c", SWITCHED],
        env=os.environ | switch.environment("http://127.0.0.1:1"),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        for variant in telemetry.VARIANTS:
            switch.choose(variant)
            process.stdin.write("go\n")
            process.stdin.flush()
            counted[variant] = [int(each) for each in process.stderr.readline().split()]
        process.stdin.close()
        process.wait(120)

    sampled = counted[telemetry.SAMPLED].pop()
    assert counted == {
        telemetry.NEITHER: [0, 0],
        telemetry.AGAIN: [0, 0],
        telemetry.METRICS: [1, 0],
        telemetry.SAMPLED: [1],
        telemetry.ALL: [1, 100],
    }
    assert 0 < sampled < 60
    assert switch.metric_calls() == 3


async def test_a_question_and_a_run_over_the_bus_are_measured(nats_server: NatsProcess) -> None:
    lines = await bus_costs.measure(nats_server.url, questions=64, runs=64)
    ways = ["nats_py", "faststream", "counted", "pull_by_request", "pull_by_faststream"]
    assert [line.split()[2].rstrip(":") for line in lines] == ways
    assert [line for line in lines if not re.fullmatch(r".*: [1-9]\d* µs", line)] == []
