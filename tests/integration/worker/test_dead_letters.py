"""What an operator does about work that was given up, with the command line, on a real NATS."""

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from nats.aio.msg import Msg

from headrace import Emission, Retry, Retryable, RunContext, agent
from headrace.model import events
from headrace.model.delegation import DELEGATION, Lineage
from headrace.model.events import Json
from headrace.model.messages import DeadLetter, RunRequest
from headrace.model.queues import RunQueue
from headrace.model.run import Run, RunTerms
from headrace.model.task import CANCELED, COMPLETED, FAILED, SHARDS_PER_STREAM, TaskKey
from headrace.sdk.agent import Agent
from headrace.tasks.background_runs import BackgroundRuns
from headrace.tasks.dead_letters import Letter, LetterFilter, Letters, retry
from headrace_worker.assignment import make_dead_letter
from tests.integration.worker.conftest import Working
from tests.support.servers import NatsProcess
from tests.support.task_submitter import Task, TaskSubmitter
from tests.support.terminal import CommandResult, Terminal
from tests.support.waiting import eventually


@pytest.fixture
def terminal(nats_server: NatsProcess, names: dict[str, str]) -> Terminal:
    """The operator's."""
    return Terminal(nats_server.url, names)


class Service:
    """Something an agent needs, which does not work until it is mended."""

    def __init__(self) -> None:
        self.works = False
        self.heard: list[Json] = []

    def needed_by(self, name: str = "needy") -> Agent:
        @agent(name=name, retry=Retry(attempts=1))
        async def needy(ctx: RunContext) -> AsyncIterator[Emission]:
            if not self.works:
                raise Retryable("the model is away")
            history = await ctx.history()
            self.heard.append({"history": history, "metadata": ctx.metadata})
            yield f"you said {ctx.prompt}"

        return needy


async def letters(submitter: TaskSubmitter, wanted: LetterFilter | None = None) -> list[Letter]:
    return [letter async for letter in Letters(submitter.bus).find(wanted or LetterFilter())]


async def given_up(
    submitter: TaskSubmitter, text: str = "hello", agent_name: str = "needy"
) -> Task:
    task = await submitter.start(agent_name, text)
    assert (await task.ended())[-1].stamp.state == FAILED
    return task


def rows(output: CommandResult) -> list[list[str]]:
    return [line.split() for line in output.out.splitlines()[1:]]


def task_in(output: CommandResult) -> str:
    return output.out.split()[-1]


def again(submitter: TaskSubmitter, failed: Task, task: str) -> Task:
    return Task(submitter.bus, TaskKey("default", failed.key.agent, task), "", failed.context)


async def test_what_was_given_up_is_listed_and_shown_with_its_reason(
    submitter: TaskSubmitter, working: Working, terminal: Terminal
) -> None:
    async with working(Service().needed_by()):
        task = await given_up(submitter, "hello")
    [row] = rows(await terminal.run("dead", "list"))
    number, kind, tenant, agent_name, of, _, *reason = row
    assert [kind, tenant, agent_name, of] == ["run", "default", "needy", task.key.task]
    assert " ".join(reason) == "Given up: the last attempt failed"
    shown = json.loads((await terminal.run("dead", "show", number, "--json")).out)
    assert shown["subject"] == submitter.bus.subjects.run(task.key, 1)
    assert json.loads(shown["body"])["context"] == task.context
    plain = (await terminal.run("dead", "show", number)).out
    assert "reason:   Given up: the last attempt failed" in plain.splitlines()


async def test_letters_are_filtered_and_paged(
    submitter: TaskSubmitter, working: Working, terminal: Terminal
) -> None:
    one, other = Service().needed_by("one"), Service().needed_by("other")
    async with working(one, other):
        tasks = [await given_up(submitter, agent_name=name) for name in ("one", "other", "one")]
    await submitter.bus.request(
        submitter.bus.subjects.dead("else", "one"),
        DeadLetter(reason="late", subject="x.push.y", at="2026-01-01T00:00:00Z").encode(),
        30,
    )
    of_one = await terminal.run("dead", "list", "--agent", "one", "--tenant", "default", "--json")
    found = [json.loads(line) for line in of_one.out.splitlines()]
    assert [letter["task"] for letter in found] == [tasks[0].key.task, tasks[2].key.task]
    assert len(rows(await terminal.run("dead", "list", "--kind", "run"))) == 3
    assert len(rows(await terminal.run("dead", "list", "--task", tasks[1].key.task))) == 1
    assert len(rows(await terminal.run("dead", "list", "--tenant", "else"))) == 1
    page = await terminal.run("dead", "list", "--limit", "3")
    assert (len(rows(page)), page.err) == (3, "more: --after 3\n")
    rest = await terminal.run("dead", "list", "--after", "3")
    assert (len(rows(rest)), rest.err) == (1, "")


async def test_a_retried_run_is_a_new_task_that_names_the_failed_one(
    submitter: TaskSubmitter, working: Working, terminal: Terminal
) -> None:
    service = Service()
    async with working(service.needed_by()):
        task = await given_up(submitter, "hello")
        log = await task.entries()
        service.works = True
        printed = await terminal.run("dead", "retry", "1")
        assert printed.code == 0, printed.err
        new = again(submitter, task, task_in(printed))
        entries = await new.ended()
    assert new.key.task != task.key.task
    assert new.key.thread == task.key.thread
    assert entries[-1].stamp.state == COMPLETED
    assert entries[0].stamp.owner == log[0].stamp.owner
    first = entries[0].events[0]["task"]
    assert first["contextId"] == task.context
    assert first["history"][-1]["referenceTaskIds"] == [task.key.task]
    assert first["metadata"][events.RETRY_OF] == {"task": task.key.task, "generation": 1}
    assert await task.entries() == log, "the failed task is as it was"
    assert await letters(submitter) == []


async def test_a_retried_follow_up_has_the_history_of_its_task(
    submitter: TaskSubmitter, working: Working, terminal: Terminal
) -> None:
    service = Service()
    async with working(service.needed_by()):
        task = await submitter.start("needy", "first", publish=False)
        message = {"messageId": "q", "role": "ROLE_AGENT", "parts": [{"text": "and then?"}]}
        asks = events.status_update(
            task.key.task, task.context, "TASK_STATE_INPUT_REQUIRED", message
        )
        await task.append(asks, "TASK_STATE_INPUT_REQUIRED", writer="earlier", run=1, attempt=1)
        await task.follow_up("second")
        await task.ended()
        service.works = True
        retried = await terminal.run("dead", "retry", "--all", "--yes")
        entries = await again(submitter, task, task_in(retried)).ended()
    assert entries[-1].stamp.state == COMPLETED
    [received] = service.heard
    assert [m["parts"][0]["text"] for m in received["history"]] == ["first", "and then?", "second"]


async def test_a_run_is_retried_once_however_often_it_is_requested(
    submitter: TaskSubmitter, working: Working
) -> None:
    service = Service()
    async with working(service.needed_by()):
        task = await given_up(submitter)
        service.works = True
        [letter] = await letters(submitter)
        done = await asyncio.gather(*(retry(submitter.bus, letter) for _ in range(5)))
        [name] = {each.task for each in done}
        assert name is not None
        await again(submitter, task, name).ended()
        late = await retry(submitter.bus, letter)
    assert late.task == name
    assert late.outcome == f"already retried as task {name}"
    assert len(service.heard) == 1


async def test_a_run_of_any_tenant_and_priority_is_retried_in_its_own_queue(
    submitter: TaskSubmitter, working: Working
) -> None:
    service = Service()
    async with working(service.needed_by()):
        task = await submitter.start("needy", "hello", publish=False)
        run = Run(task.key, 1, task.log, task.context, "anonymous", RunTerms("high"))
        BackgroundRuns(submitter.bus).publish_soon(run)
        await task.ended()
        service.works = True
        [letter] = await letters(submitter)
        assert letter.content.subject.endswith(".high")
        # Nobody but the one who asks for a run makes its queue.
        await submitter.bus.js.delete_consumer(
            submitter.bus.streams.runs, RunQueue.of(task.key, "high").consumer
        )
        name = (await retry(submitter.bus, letter)).task
        assert name is not None
        assert (await again(submitter, task, name).ended())[-1].stamp.state == COMPLETED


async def test_a_delegated_run_is_retried_for_itself_and_in_its_own_time(
    submitter: TaskSubmitter, working: Working
) -> None:
    service = Service()
    parent = Lineage("0-1", "parent", 1, "child", ("parent",), "2000-01-01T00:00:00Z")
    async with working(service.needed_by()):
        soon = (datetime.now(UTC) + timedelta(minutes=1)).isoformat()
        metadata = {DELEGATION: parent.to_json(), events.START_BY: soon, "kept": 1}
        task = await submitter.start("needy", metadata=metadata)
        await task.ended()
        service.works = True
        [letter] = await letters(submitter)
        name = (await retry(submitter.bus, letter)).task
        assert name is not None
        entries = await again(submitter, task, name).ended()
    assert entries[-1].stamp.state == COMPLETED
    metadata = entries[0].events[0]["task"]["metadata"]
    assert not {DELEGATION, events.START_BY} & metadata.keys()
    assert metadata["kept"] == 1


async def test_what_fails_again_is_a_dead_letter_again_and_can_be_retried_again(
    submitter: TaskSubmitter, working: Working, terminal: Terminal
) -> None:
    service = Service()
    async with working(service.needed_by()):
        task = await given_up(submitter)
        second = again(submitter, task, task_in(await terminal.run("dead", "retry", "1")))
        assert (await second.ended())[-1].stamp.state == FAILED
        service.works = True
        third = again(submitter, task, task_in(await terminal.run("dead", "retry", "2")))
        entries = await third.ended()
    assert entries[-1].stamp.state == COMPLETED
    references = entries[0].events[0]["task"]["history"][-1]["referenceTaskIds"]
    assert references == [task.key.task, second.key.task]


async def stored(
    submitter: TaskSubmitter, reason: str, subject: str, body: bytes, task: str | None
) -> None:
    letter = DeadLetter(
        reason=reason, subject=subject, task=task, body=b64encode(body).decode(), at=events.now()
    )
    await submitter.bus.request(
        submitter.bus.subjects.dead("default", "needy"), letter.encode(), 30
    )


async def test_a_run_that_has_not_failed_is_requested_again_and_no_second_task_is_made(
    submitter: TaskSubmitter, working: Working, terminal: Terminal
) -> None:
    task = await submitter.start("needy", publish=False)
    run = RunRequest(log=task.log, context=task.context, owner="anonymous").encode()
    subject = submitter.bus.subjects.run(task.key, 1)
    await stored(
        submitter, "its worker died between the letter and FAILED", subject, run, task.key.task
    )
    service = Service()
    service.works = True
    async with working(service.needed_by()):
        printed = await terminal.run("dead", "retry", "1")
        assert printed.out == "1: the task has not failed; its run is requested again\n"
        assert (await task.ended())[-1].stamp.state == COMPLETED


@pytest.mark.parametrize("state", [COMPLETED, CANCELED])
async def test_a_run_that_ended_otherwise_since_is_not_run_again(
    submitter: TaskSubmitter, terminal: Terminal, state: str
) -> None:
    task = await submitter.start("needy", publish=False)
    end = events.status_update(task.key.task, task.context, state)
    await task.append(end, state, writer="someone", run=1, attempt=1)
    run = RunRequest(log=task.log, context=task.context, owner="anonymous").encode()
    await stored(submitter, "x", submitter.bus.subjects.run(task.key, 1), run, task.key.task)
    printed = await terminal.run("dead", "retry", "1")
    assert printed.code == 1
    found = state.removeprefix("TASK_STATE_")
    assert printed.err == f"1: task {task.key.task} is no longer FAILED but {found}\n"
    assert len(await letters(submitter)) == 1, "the letter stays"


async def test_a_run_whose_log_is_gone_is_not_run_again(
    submitter: TaskSubmitter, terminal: Terminal
) -> None:
    task = await submitter.start("needy", publish=False)
    await submitter.bus.js.purge_stream(
        submitter.bus.streams.of_shard(task.key.shard),
        subject=submitter.bus.subjects.event(task.key),
    )
    run = RunRequest(log=task.log, context=task.context, owner="anonymous").encode()
    await stored(submitter, "x", submitter.bus.subjects.run(task.key, 1), run, task.key.task)
    printed = await terminal.run("dead", "retry", "1")
    assert (printed.code, printed.err) == (1, f"1: the log of task {task.key.task} is gone\n")


async def test_a_run_whose_shard_has_no_stream_is_not_run_again(
    submitter: TaskSubmitter, terminal: Terminal
) -> None:
    key = TaskKey("default", "needy", f"{SHARDS_PER_STREAM}-{'0' * 32}")
    run = RunRequest(log="0" * 32, context="c", owner="anonymous").encode()
    await stored(submitter, "x", submitter.bus.subjects.run(key, 1), run, key.task)
    printed = await terminal.run("dead", "retry", "1")
    stream = submitter.bus.streams.events(1)
    reason = f"task {key.task} is in stream {stream}, which does not exist"
    assert (printed.code, printed.err) == (1, f"1: {reason}: HEADRACE_EVENT_STREAMS is 1\n")


async def test_a_run_whose_log_was_trimmed_is_not_run_again(
    submitter: TaskSubmitter, working: Working, terminal: Terminal
) -> None:
    async with working(Service().needed_by()):
        task = await given_up(submitter)
    await submitter.bus.js.purge_stream(
        submitter.bus.streams.of_shard(task.key.shard),
        subject=submitter.bus.subjects.event(task.key),
        keep=1,
    )
    printed = await terminal.run("dead", "retry", "1")
    assert printed.code == 1
    assert printed.err.startswith(f"1: the beginning of task {task.key.task} is gone")


async def test_a_run_that_could_not_be_read_is_sent_again_as_it_was(
    submitter: TaskSubmitter, working: Working, terminal: Terminal
) -> None:
    task = await submitter.start("needy", publish=False)
    service = Service()
    service.works = True
    async with working(service.needed_by()):
        await task.publish(1, b"{broken")
        await eventually(lambda: letters(submitter))
        printed = await terminal.run("dead", "retry", "1")
        assert printed.out == f"1: sent again on {submitter.bus.subjects.run(task.key, 1)}\n"

        async def is_back() -> bool:
            found = await letters(submitter)
            return [letter.number for letter in found] == [2]

        await eventually(is_back)
    [letter] = await letters(submitter)
    assert (letter.kind, letter.body) == ("run-request", b"{broken")


async def test_what_is_no_entry_of_a_log_can_only_be_dropped(
    submitter: TaskSubmitter, terminal: Terminal
) -> None:
    task = await submitter.start("needy", publish=False)
    await stored(submitter, "junk", submitter.bus.subjects.event(task.key), b"junk", task.key.task)
    printed = await terminal.run("dead", "retry", "1")
    assert printed.err == "1: a malformed log entry can't be retried\n"
    assert (await terminal.run("dead", "drop", "1", "--yes")).out == "1: dropped\n"
    assert await letters(submitter) == []


async def test_another_request_at_the_place_of_one_has_a_letter_of_its_own(
    submitter: TaskSubmitter,
) -> None:
    # A queue that is restored from a backup assigns places again. A redelivery keeps the time.
    bus, first, later = submitter.bus, 1_700_000_000_000_000_000, 1_700_000_001_000_000_000
    for delivery, stored in ((1, first), (2, first), (1, later)):
        reply = f"$JS.ACK.{bus.streams.runs}.c.{delivery}.7.1.{stored}.0"
        subject = f"{bus.subjects.prefix}.run.unreadable"
        message = Msg(bus.connection, subject, reply, str(stored).encode())
        await make_dead_letter(bus, message, "it is unreadable")
    bodies = [letter.content.body for letter in await letters(submitter)]
    assert sorted(bodies) == [b64encode(str(time).encode()).decode() for time in (first, later)]


async def test_nothing_is_dropped_without_confirmation(
    submitter: TaskSubmitter, terminal: Terminal
) -> None:
    for number in range(7):
        await stored(submitter, f"reason {number}", "x.event.y", b"", None)
    printed = await terminal.run("dead", "drop", "--all", typed="y\n")
    assert printed.code == 2
    assert "5: entry" not in printed.err
    assert "and 2 more" in printed.err
    assert "use --yes" in printed.err
    assert len(await letters(submitter)) == 7
    output = await terminal.run("dead", "drop", "--all", "--task", "nothing", "--yes")
    assert (output.code, output.err) == (0, "no matching dead letters\n")
    dropped = await terminal.run("dead", "drop", "2", "3", "--yes", "--json")
    assert (dropped.code, dropped.err) == (0, "")
    outcomes = [json.loads(line) for line in dropped.out.splitlines()]
    assert outcomes == [{"id": number, "outcome": "dropped"} for number in (2, 3)]
    assert [letter.number for letter in await letters(submitter)] == [1, 4, 5, 6, 7]


async def test_one_letter_that_is_missing_does_not_keep_the_others_from_their_turn(
    submitter: TaskSubmitter, terminal: Terminal
) -> None:
    for number in range(2):
        await stored(submitter, f"reason {number}", "x.event.y", b"", None)
    printed = await terminal.run("dead", "drop", "99", "2", "--yes")
    assert (printed.code, printed.out) == (1, "2: dropped\n")
    assert printed.err == "99: dead letter 99 does not exist\n"


async def test_a_letter_that_is_none_is_listed_and_can_be_dropped(
    submitter: TaskSubmitter, terminal: Terminal
) -> None:
    await submitter.bus.request(submitter.bus.subjects.dead("a_2fb", "needy"), b"nonsense", 30)
    [row] = rows(await terminal.run("dead", "list", "--tenant", "a/b"))
    assert row[:4] == ["1", "other", "a/b", "needy"]
    assert (await terminal.run("dead", "retry", "1")).code == 1
    assert (await terminal.run("dead", "drop", "1", "--yes")).code == 0


async def test_a_letter_whose_body_is_not_base64_is_shown_and_keeps_no_other_from_its_retry(
    submitter: TaskSubmitter, terminal: Terminal
) -> None:
    task = await submitter.start("needy", publish=False)
    subject = submitter.bus.subjects.run(task.key, 1)
    letter = DeadLetter(reason="forged", subject=subject, at=events.now())
    garbled = letter.model_copy(update={"body": "x"}).encode()
    await submitter.bus.request(submitter.bus.subjects.dead("default", "needy"), garbled, 30)
    await stored(submitter, "unreadable", subject, b"{broken", None)
    shown = await terminal.run("dead", "show", "1")
    assert (shown.code, "not a dead letter: body" in shown.out) == (0, True)
    retried = await terminal.run("dead", "retry", "--all", "--yes")
    assert retried.out == f"2: sent again on {subject}\n"
    assert retried.err.startswith("1: it is of an unknown kind")


@pytest.mark.parametrize(
    "forged",
    [
        "run.default.victim.{task}.1",
        "run.acme.needy.{task}.1",
        "push.0.default.victim.{task}.hook",
        "event.0.default.victim.000000000000.{task}",
    ],
)
@pytest.mark.parametrize("names_its_task", [True, False])
async def test_a_letter_about_what_its_writer_may_not_ask_for_is_not_retried(
    submitter: TaskSubmitter, terminal: Terminal, forged: str, *, names_its_task: bool
) -> None:
    """A hostile worker may store letters of its own agents, and hope for an operator's retry."""
    task = await submitter.start("needy", publish=False)
    subject = f"{submitter.bus.subjects.prefix}.{forged.format(task=task.key.task)}"
    request = RunRequest(log=task.log, context=task.context, owner="eve").encode()
    named = task.key.task if names_its_task else None
    await stored(submitter, "forged", subject, request, named)
    printed = await terminal.run("dead", "retry", "1")
    found = await submitter.bus.js.stream_info(submitter.bus.streams.runs)
    assert (printed.code, printed.out, found.state.messages) == (1, "", 0)
    assert "names another tenant or agent than its subject does" in printed.err
    [row] = rows(await terminal.run("dead", "list"))
    assert row[:4] == ["1", "other", "default", "needy"]


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (["drop"], "missing argument: IDs of dead letters, or --all"),
        (["retry", "1", "--all"], "missing argument: IDs of dead letters, or --all"),
        (["drop", "1", "--agent", "a"], "filters need --all"),
        (["list", "--kind", "odd"], "'odd' is not one of"),
        (["show", "0"], "0 is not in the range"),
        (["list", "--nats-url", "nats://127.0.0.1:9"], "NATS at nats://127.0.0.1:9 did not answer"),
    ],
)
async def test_invalid_parameters_are_named_with_the_rule(
    terminal: Terminal, arguments: list[str], rule: str
) -> None:
    printed = await terminal.run("dead", *arguments)
    assert printed.code > 0
    assert rule in printed.err
    assert "Traceback" not in printed.err


async def test_a_nats_without_headrace_is_reported_and_left_unchanged(
    nats_server: NatsProcess, submitter: TaskSubmitter
) -> None:
    stranger = Terminal(nats_server.url, {"prefix": "none", "stream_prefix": "none-"})
    printed = await stranger.run("dead", "list")
    assert printed.code == 1
    assert (
        "stream none-DEAD does not exist: no Headrace fleet has used this NATS server"
        in printed.err
    )
    infos = await submitter.bus.js.streams_info()
    assert not [info for info in infos if (info.config.name or "").startswith("none-")]
