"""An `AgentExecutor` of the official SDK, unchanged, in a worker."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import override

import pytest
from a2a.helpers import new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentExtension,
    Part,
    Role,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from a2a.types import (
    Task as A2ATask,
)

from headrace.adapters import executor_agent
from headrace.adapters.a2a.executor import RUN
from headrace.jetstream.objects import FileOwner, FileStore
from headrace.model.events import ACCEPTED_MODES, EXTENSIONS, Json
from headrace.model.messages import Control
from headrace_gateway.tasks.terms import check_parts
from headrace_worker.timing import Timing
from tests.integration.worker.conftest import Working
from tests.support.examples import example
from tests.support.log_reading import answer, folded, said, state, words
from tests.support.task_submitter import Task, TaskSubmitter, user_message
from tests.support.waiting import eventually

type Execute = Callable[[RequestContext, EventQueue], Awaitable[None]]


class Scripted(AgentExecutor):
    """Does what a test says."""

    def __init__(self, execute: Execute) -> None:
        self._execute = execute
        self.canceled: list[RequestContext] = []

    @override
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        await self._execute(context, event_queue)

    @override
    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.canceled.append(context)


def updater(context: RequestContext, queue: EventQueue) -> TaskUpdater:
    assert context.task_id
    assert context.context_id
    return TaskUpdater(queue, context.task_id, context.context_id)


async def test_its_artifacts_and_its_last_word_stand_in_the_log(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(example("executor").translator):
        task = await submitter.start("translator", "french")
        done = await folded(task)
    [artifact] = done["artifacts"]
    assert (artifact["artifactId"], artifact["name"]) == (f"greeting-{task.key.task}", "greeting")
    assert artifact["parts"] == [
        {
            "text": "Bonjour ",
            "metadata": {
                "agui_event_type": "content_block",
                "agui_block_type": "text",
                "agui_block_id": artifact["artifactId"],
                "agui_block_index": 0,
            },
        }
    ]
    assert (state(done), words(done)) == ("COMPLETED", "Done.")
    assert done["status"]["message"]["parts"][0]["metadata"] == {"agui_event_type": "message"}


async def test_a_question_ends_its_run_and_the_follow_up_sees_the_task(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(example("executor").translator):
        task = await submitter.start("translator", "klingon")
        request = await folded(task)
        assert (state(request), words(request)) == ("INPUT_REQUIRED", "Which language?")
        run = await task.follow_up("german")
        await task.reaches(run + 2)
        done = await folded(task)
    assert (state(done), answer(done)) == ("COMPLETED", "Guten Tag encore ")


async def test_a_cancel_calls_its_cancel_once(submitter: TaskSubmitter, working: Working) -> None:
    module = example("executor")
    async with working(module.translator):
        task = await submitter.start("translator", "slowly")
        await task.held()
        await task.ask("cancel")
        done = await folded(task)
    assert state(done) == "CANCELED"
    assert module.executor.canceled == [task.key.task]


async def test_a_worker_that_leaves_cancels_nothing(
    submitter: TaskSubmitter, working: Working
) -> None:
    async def wait(_context: RequestContext, _queue: EventQueue) -> None:
        await asyncio.Event().wait()

    executor = Scripted(wait)
    async with working(executor_agent(executor, name="patient")):
        task = await submitter.start("patient", "x")
        await task.held()
    assert executor.canceled == []


async def test_it_finds_ids_owner_metadata_and_message_as_from_the_sdk(
    submitter: TaskSubmitter, working: Working
) -> None:
    seen: list[object] = []

    async def look(context: RequestContext, _: EventQueue) -> None:
        user = context.call_context.user
        run = context.call_context.state[RUN]
        seen.extend([context.task_id, context.context_id, context.get_user_input()])
        seen.extend([context.metadata, context.current_task, user.is_authenticated, run.attempt])

    async with working(executor_agent(Scripted(look), name="curious")):
        task = await submitter.start("curious", "hello", metadata={"k": {"n": [1]}})
        done = await folded(task)
    assert state(done) == "COMPLETED"
    assert seen == [task.key.task, task.context, "hello", {"k": {"n": [1.0]}}, None, False, 1]


async def test_it_finds_what_the_request_accepts_activates_and_attaches(
    submitter: TaskSubmitter, working: Working
) -> None:
    found: list[RequestContext] = []

    async def look(context: RequestContext, queue: EventQueue) -> None:
        found.append(context)
        await updater(context, queue).complete()

    card = AgentCard(
        name="Curious one",
        description="Looks.",
        version="7",
        default_input_modes=["text/plain", "image/png"],
        capabilities=AgentCapabilities(extensions=[AgentExtension(uri="https://x.example/e")]),
    )
    metadata = {ACCEPTED_MODES: ["text/html"], EXTENSIONS: ["https://x.example/e"]}
    made = executor_agent(Scripted(look), agent_card=card)
    async with working(made):
        draft = await submitter.start("Curious-one", "x", context="c", publish=False)
        owner = FileOwner("anonymous", "c")
        link = await FileStore(submitter.bus).put(
            draft.key, owner, b"\x89PNG", "a.png", "image/png"
        )
        message: Json = {
            "messageId": "m",
            "role": "ROLE_USER",
            "parts": [{"url": link, "mediaType": "image/png"}],
        }
        task = await submitter.start("Curious-one", message=message, metadata=metadata, context="c")
        await task.ended()
    [context] = found
    assert context.configuration is not None
    assert list(context.configuration.accepted_output_modes) == ["text/html"]
    assert context.requested_extensions == {"https://x.example/e"}
    assert context.message is not None
    assert context.message.parts[0].raw == b"\x89PNG"
    assert "https://x.example/e" in str(made.card)
    assert (made.card.description, made.card.version) == ("Looks.", "7")


async def test_the_current_task_has_its_files_and_may_be_relayed_again(
    submitter: TaskSubmitter, working: Working
) -> None:
    file, found = b"\x89PNG" + bytes(200_000), list[A2ATask]()

    async def ask(context: RequestContext, queue: EventQueue) -> None:
        to = updater(context, queue)
        if context.current_task is None:
            await to.add_artifact([Part(raw=file, media_type="image/png")], "made")
            await to.requires_input()
        else:
            found.append(context.current_task)
            await queue.enqueue_event(context.current_task)
            await to.complete()

    async with working(executor_agent(Scripted(ask), name="asker")):
        draft = await submitter.start("asker", "x", context="c", publish=False)
        owner = FileOwner("anonymous", "c")
        link = await FileStore(submitter.bus).put(draft.key, owner, file, "a.png", "image/png")
        part = {"url": link, "mediaType": "image/png"}
        message: Json = {"messageId": "m", "role": "ROLE_USER", "parts": [part]}
        task = await submitter.start("asker", message=message, context="c")
        await task.ended()
        run = await task.follow_up("go on")
        await task.reaches(run + 2)
        done = await folded(task)
        events = await task.events()
    assert state(done) == "COMPLETED"
    [before] = found
    assert before.history[0].parts[0].raw == file
    assert before.artifacts[0].parts[0].raw == file
    assert sum("artifactUpdate" in event for event in events) == 1


@pytest.mark.parametrize("bare", [True, False])
async def test_a_message_is_the_answer_or_the_tasks_last_word(
    submitter: TaskSubmitter, working: Working, *, bare: bool
) -> None:
    async def say(_: RequestContext, queue: EventQueue) -> None:
        await queue.enqueue_event(new_text_message("hi", role=Role.ROLE_AGENT))

    short = executor_agent(Scripted(say), name="short", bare_message=bare)
    async with working(short, timing=Timing(bare_message=60.0)):
        task = await submitter.start("short", "x")
        last = (await task.events())[-1]
        done = await folded(task)
    assert ("message" in last) is bare
    assert (state(done), words(done)) == ("COMPLETED", "hi")


async def test_a_whole_task_brings_its_artifacts_and_its_end(
    submitter: TaskSubmitter, working: Working
) -> None:
    async def emit(context: RequestContext, queue: EventQueue) -> None:
        await queue.enqueue_event(
            A2ATask(
                id=context.task_id or "",
                context_id=context.context_id or "",
                status=TaskStatus(state=TaskState.TASK_STATE_REJECTED),
                artifacts=[{"artifact_id": "a", "parts": [Part(text="x")]}],
            )
        )

    async with working(executor_agent(Scripted(emit), name="teller")):
        done = await folded(await submitter.start("teller", "x"))
    assert (state(done), answer(done)) == ("REJECTED", "x")


async def test_progress_and_structured_data_keep_their_parts(
    submitter: TaskSubmitter, working: Working
) -> None:
    async def work(context: RequestContext, queue: EventQueue) -> None:
        to = updater(context, queue)
        parts = [Part(text="half way"), Part(data={"number_value": 50})]
        await to.start_work(to.new_agent_message(parts))
        await to.update_status(TaskState.TASK_STATE_WORKING, metadata={"stage": 2})
        await to.complete()

    async with working(executor_agent(Scripted(work), name="worker")):
        done = await folded(await submitter.start("worker", "x"))
    assert said(done) == [
        {"text": "half way", "metadata": {"agui_event_type": "task"}},
        {"data": 50},
    ]
    assert done["metadata"]["stage"] == 2


async def test_a_chunk_that_goes_on_with_nothing_begins_an_artifact(
    submitter: TaskSubmitter, working: Working
) -> None:
    async def emit(context: RequestContext, queue: EventQueue) -> None:
        await updater(context, queue).add_artifact([Part(text="x")], "a", append=True)

    async with working(executor_agent(Scripted(emit), name="sloppy")):
        task = await submitter.start("sloppy", "x")
        events = await task.events()
    [update] = [event["artifactUpdate"] for event in events if "artifactUpdate" in event]
    assert "append" not in update


@pytest.mark.parametrize(
    "event",
    [
        TaskStatusUpdateEvent(task_id="other", status=TaskStatus(state=2)),  # type: ignore[arg-type]
        TaskArtifactUpdateEvent(task_id="other"),
        A2ATask(id="other"),
    ],
    ids=lambda event: type(event).__name__,
)
async def test_an_event_of_another_task_fails_this_one(
    submitter: TaskSubmitter,
    working: Working,
    event: TaskStatusUpdateEvent | TaskArtifactUpdateEvent | A2ATask,
) -> None:
    async def confuse(_: RequestContext, queue: EventQueue) -> None:
        await queue.enqueue_event(event)

    async with working(executor_agent(Scripted(confuse), name="confused")):
        done = await folded(await submitter.start("confused", "x"))
    assert state(done) == "FAILED"
    assert "another's" in words(done) or "'other'" in words(done)


async def test_output_after_its_end_is_dropped(submitter: TaskSubmitter, working: Working) -> None:
    async def emit_after_end(context: RequestContext, queue: EventQueue) -> None:
        to = updater(context, queue)
        await to.complete()
        await to.add_artifact([Part(text="more")])

    async with working(executor_agent(Scripted(emit_after_end), name="late")):
        done = await folded(await submitter.start("late", "x"))
    assert (state(done), done.get("artifacts")) == ("COMPLETED", None)


async def test_credentials_that_its_user_sends_have_it_called_again(
    submitter: TaskSubmitter, working: Working
) -> None:
    async def ask(context: RequestContext, queue: EventQueue) -> None:
        to = updater(context, queue)
        if context.current_task is None:
            await to.requires_auth(to.new_agent_message([Part(text="Your key?")]))
        else:
            await to.complete(to.new_agent_message([Part(text=context.get_user_input())]))

    async with working(executor_agent(Scripted(ask), name="guard")):
        task = await submitter.start("guard", "x")
        await eventually(lambda: _waits(task))
        await _hand_in(task, user_message("secret"))
        done = await folded(task)
    assert (state(done), words(done)) == ("COMPLETED", "secret")


async def test_credentials_that_come_another_way_let_it_go_on(
    submitter: TaskSubmitter, working: Working
) -> None:
    brought = asyncio.Event()

    async def ask(context: RequestContext, queue: EventQueue) -> None:
        to = updater(context, queue)
        await to.requires_auth()
        await brought.wait()
        await to.add_artifact([Part(text="in")])
        await to.complete()

    async with working(executor_agent(Scripted(ask), name="guard")):
        task = await submitter.start("guard", "x")
        await eventually(lambda: _waits(task))
        brought.set()
        done = await folded(task)
    assert (state(done), answer(done)) == ("COMPLETED", "in")


def test_it_takes_whatever_its_own_server_would_have_let_through() -> None:
    async def execute(_: RequestContext, __: EventQueue) -> None: ...

    card = executor_agent(Scripted(execute), name="e").card
    check_parts({"parts": [{"data": {"n": 1}}, {"raw": "AA==", "mediaType": "image/png"}]}, card)
    own = AgentCard(name="own", default_input_modes=["text"])
    check_parts({"parts": [{"text": "x"}]}, executor_agent(Scripted(execute), agent_card=own).card)


async def test_its_exception_fails_the_task_without_a_word_of_it(
    submitter: TaskSubmitter, working: Working
) -> None:
    async def fail(_context: RequestContext, _queue: EventQueue) -> None:
        raise RuntimeError("secret")

    async with working(executor_agent(Scripted(fail), name="failing")):
        done = await folded(await submitter.start("failing", "x"))
    assert state(done) == "FAILED"
    assert "secret" not in words(done)


async def _waits(task: Task) -> bool:
    return (await task.last()).stamp.state == "TASK_STATE_AUTH_REQUIRED"


async def _hand_in(task: Task, message: Json) -> None:
    await task.held()
    request = Control(ask="input", input="one", message=message)
    await task.bus.request(task.bus.subjects.control(task.key), request.encode(), 30.0)
