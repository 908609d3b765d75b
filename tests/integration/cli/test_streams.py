"""No process changes what exists; `headrace streams` does, and only what it is told."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import nats.errors
import pytest
from click.testing import CliRunner, Result
from nats.js.api import AckPolicy, ConsumerConfig
from nats.js.errors import ServiceUnavailableError

from headrace.jetstream import durables
from headrace.jetstream.connection import Bus
from headrace.jetstream.durables import ensure_consumer, of_firings, of_pushes
from headrace.jetstream.streams import apply, differences
from headrace.model.errors import StreamsDiffer
from headrace.model.queues import RunQueue
from headrace.model.task import TaskKey, mint_task_id
from headrace.settings import BusSettings
from headrace.tasks.runs import ensure_queue
from headrace_cli import streams
from headrace_cli.main import main
from headrace_cli.streams import CHANGES_WANTED
from tests.integration.test_waiting_for_servers import COMMANDS, last_words, started
from tests.support.delete_stream import delete_stream
from tests.support.servers import NatsProcess, ValkeyProcess
from tests.support.waiting import until

EX_CONFIG = 78


@pytest.fixture
async def own(nats_server: NatsProcess) -> AsyncIterator[Bus]:
    name = f"own{secrets.token_hex(4)}"
    bus = Bus(BusSettings(nats_url=nats_server.url, prefix=name, stream_prefix=name))
    await bus.connect("test")
    yield bus
    listed = json.loads((await bus.request("$JS.API.STREAM.NAMES", b"", 30.0)).data)["streams"]
    for stream in listed:
        if name in stream:
            await delete_stream(bus.js, stream)
    await bus.close()


def environment(bus: Bus, **settings: object) -> dict[str, str]:
    given = {
        "nats_url": bus.settings.nats_url,
        "prefix": bus.settings.prefix,
        "stream_prefix": bus.settings.stream_prefix,
        **settings,
    }
    return {f"HEADRACE_{name.upper()}": str(value) for name, value in given.items()}


async def limit(bus: Bus) -> int | None:
    return (await bus.js.stream_info(bus.streams.events(0))).config.max_bytes


@pytest.mark.parametrize("name", COMMANDS)
async def test_a_service_with_other_settings_refuses_to_start_and_changes_nothing(
    own: Bus, valkey: ValkeyProcess, name: str, tmp_path: Path
) -> None:
    events = environment(own, events_max_bytes=1000, redis_url=valkey.url, startup_timeout=30)
    service = started(tmp_path, name, **events)
    with service:
        until(lambda: not service.is_running, f"the {name} gives up")
        assert service.exit_code() == EX_CONFIG
    logged = service.log.read_text()
    assert (
        f"{own.streams.events(0)}: max_bytes is -1, HEADRACE_EVENTS_MAX_BYTES requires 1000: "
        "headrace streams apply --shrink"
    ) in logged
    assert "Traceback" not in logged
    assert await limit(own) == -1


async def test_a_plan_states_what_apply_does(own: Bus) -> None:
    def headrace(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["streams", *arguments], env=received)

    received = environment(own)
    assert (await asyncio.to_thread(headrace, "plan")).exit_code == 0
    received = environment(own, events_max_bytes=5_000_000, event_streams=2)
    planned = await asyncio.to_thread(headrace, "plan")
    assert planned.exit_code == CHANGES_WANTED
    events, more = own.streams.events(0), own.streams.events(1)
    assert planned.stdout.splitlines() == [
        f"shrink      {events}: max_bytes is -1, HEADRACE_EVENTS_MAX_BYTES requires 5000000",
        f"grow        {more}: the number of event streams is 1, HEADRACE_EVENT_STREAMS requires 2",
    ]
    refused = await asyncio.to_thread(headrace, "apply")
    assert refused.exit_code == 1
    assert "--shrink" in refused.stderr
    assert await limit(own) == -1
    done = await asyncio.to_thread(headrace, "apply", "--shrink")
    assert (done.exit_code, done.stdout) == (0, planned.stdout)
    assert await limit(own) == 5_000_000
    again = await asyncio.to_thread(headrace, "plan")
    assert (again.exit_code, again.stdout) == (0, "the streams match the settings\n")


@pytest.mark.parametrize("error", [nats.errors.TimeoutError(), ServiceUnavailableError(code=503)])
async def test_an_election_is_waited_out(
    own: Bus, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    requests = list[str]()

    def failing_once[**P, R](work: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
        async def ask(*arguments: P.args, **named: P.kwargs) -> R:
            requests.append(work.__name__)
            if requests.count(work.__name__) == 1:
                raise error
            return await work(*arguments, **named)

        return ask

    for module, work in ((durables, differences), (streams, apply)):
        monkeypatch.setattr(module, work.__name__, failing_once(work))
    received = environment(own)
    for command in ("plan", "apply"):
        output = await asyncio.to_thread(
            CliRunner().invoke, main, ["streams", command], env=received
        )
        assert (output.exit_code, output.stdout) == (0, "the streams match the settings\n")
    assert requests == [*["differences"] * 3, "apply", "apply"]


async def test_a_consumer_stays_as_its_operator_shaped_it(own: Bus) -> None:
    await ensure_queue(own, RunQueue("echo"))
    info = await own.js.consumer_info(own.streams.runs, "echo")
    shaped = info.config.evolve(max_ack_pending=77, description="the operator's")
    await own.js.add_consumer(own.streams.runs, shaped)
    await ensure_queue(own, RunQueue("echo"))
    found = (await own.js.consumer_info(own.streams.runs, "echo")).config
    assert (found.max_ack_pending, found.description) == (77, "the operator's")


async def test_a_consumer_that_breaks_the_contract_is_refused(own: Bus, tmp_path: Path) -> None:
    await ensure_queue(own, RunQueue("echo"))
    info = await own.js.consumer_info(own.streams.runs, "echo")
    await own.js.add_consumer(own.streams.runs, info.config.evolve(max_deliver=3))
    with pytest.raises(StreamsDiffer, match="max_deliver is 3, the bus contract requires -1"):
        await ensure_queue(own, RunQueue("echo"))
    output = last_words(started(tmp_path, "worker", **environment(own)))
    assert f"{own.streams.runs}/echo: max_deliver is 3" in output
    assert "Traceback" not in output


LONG = "t" * 150
"""A tenant that stands as a hash in its consumer's name."""
QUEUES = [
    RunQueue("echo"),
    RunQueue("echo", "acme"),
    RunQueue("echo", "acme", "high"),
    RunQueue("echo", LONG),
]


async def broken(bus: Bus, stream: str, name: str, **settings: object) -> None:
    """Have a consumer break the contract."""
    info = await bus.js.consumer_info(stream, name)
    await bus.js.add_consumer(stream, info.config.evolve(**settings))


async def test_consumers_that_break_the_contract_are_planned_and_changed(own: Bus) -> None:
    def headrace(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["streams", *arguments], env=environment(own))

    runs, pushes = own.streams.runs, own.streams.pushes
    for queue in QUEUES:
        await ensure_queue(own, queue)
    await ensure_consumer(own, pushes, of_pushes(own.subjects, 0))
    await ensure_consumer(own, own.streams.schedules, of_firings(own.subjects))
    assert (await asyncio.to_thread(headrace, "plan")).exit_code == 0
    waiting = TaskKey("acme", "echo", mint_task_id(0))
    await own.request(own.subjects.run(waiting, 1), b"{}", 30.0)
    for queue in QUEUES:
        await broken(own, runs, queue.consumer, max_deliver=3, ack_wait=60.0, max_ack_pending=77)
    await broken(own, runs, "echo", filter_subject=own.subjects.runs_of_agent("echo", "others"))
    await broken(own, pushes, "push-0", ack_wait=1.0)
    await broken(own, own.streams.schedules, "firings", ack_wait=1.0)
    planned = await asyncio.to_thread(headrace, "plan")
    assert planned.exit_code == CHANGES_WANTED
    lines = sorted(planned.stdout.splitlines())
    assert len(lines) == 2 * len(QUEUES) + 3
    assert all(line.startswith("change ") for line in lines)
    others = own.subjects.runs_of_agent("echo", "others")
    assert any(f'{runs}/echo: filter_subject is "{others}"' in line for line in lines)
    with pytest.raises(StreamsDiffer, match="headrace streams apply"):
        await ensure_queue(own, QUEUES[1])
    done = await asyncio.to_thread(headrace, "apply")
    assert (done.exit_code, sorted(done.stdout.splitlines())) == (0, lines)
    assert (await asyncio.to_thread(headrace, "plan")).stdout == "the streams match the settings\n"
    for queue in QUEUES:
        await ensure_queue(own, queue)
        info = await own.js.consumer_info(runs, queue.consumer)
        assert info.config.max_ack_pending == 77  # what the contract leaves to the operator
        assert info.num_pending == (queue == QUEUES[1])


async def test_consumers_of_others_are_left_alone(own: Bus) -> None:
    config = ConsumerConfig(
        durable_name=f"echo@{'0' * 64}",
        filter_subject=own.subjects.runs_of_agent("others", "acme"),
        ack_policy=AckPolicy.EXPLICIT,
        max_deliver=3,
    )
    await own.js.add_consumer(own.streams.runs, config)
    ephemeral = own.subjects.runs_of_agent("third", "acme")
    await own.js.add_consumer(
        own.streams.runs, filter_subject=ephemeral, ack_policy=AckPolicy.EXPLICIT
    )
    output = await asyncio.to_thread(
        CliRunner().invoke, main, ["streams", "apply"], env=environment(own)
    )
    assert (output.exit_code, output.stdout) == (0, "the streams match the settings\n")


async def test_nothing_of_consumers_is_changed_where_a_stream_would_shrink(own: Bus) -> None:
    await ensure_queue(own, QUEUES[0])
    await broken(own, own.streams.runs, "echo", max_deliver=3)
    events = environment(own, events_max_bytes=5_000_000)
    refused = await asyncio.to_thread(CliRunner().invoke, main, ["streams", "apply"], env=events)
    assert refused.exit_code == 1
    assert (await own.js.consumer_info(own.streams.runs, "echo")).config.max_deliver == 3
    done = await asyncio.to_thread(
        CliRunner().invoke, main, ["streams", "apply", "--shrink"], env=events
    )
    assert done.exit_code == 0
    assert (await own.js.consumer_info(own.streams.runs, "echo")).config.max_deliver == -1
