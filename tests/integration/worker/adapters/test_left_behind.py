"""A task ends while nobody here is at work on it: executors and agents elsewhere hear of it."""

import asyncio
from typing import override

import pytest
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Part, TaskState

from headrace import Retry
from headrace.adapters import ClientCredentials, executor_agent
from headrace.model import events
from headrace.model.events import ATTEMPT
from headrace.model.task import AUTH_REQUIRED, CANCELED, WORKING
from tests.integration.worker.conftest import Spawn, Working
from tests.integration.worker.test_cancelling import cancel
from tests.support.log_reading import folded, state
from tests.support.scripted_executor import BINDINGS, ScriptedExecutor, outside_agent
from tests.support.sdk_server import sdk_server
from tests.support.task_submitter import Task, TaskSubmitter, user_message
from tests.support.waiting import eventually


class Asking(AgentExecutor):
    """Asks its user, and notes what its cancel is given."""

    def __init__(self, asks: str) -> None:
        self._asks = asks
        self.canceled: list[RequestContext] = []

    @override
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        to = _updater(context, event_queue)
        question = to.new_agent_message([Part(text="Which?")])
        await (to.requires_auth(question) if self._asks == "auth" else to.requires_input(question))

    @override
    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.canceled.append(context)
        # The SDK's own servers expect this; here the task is over already.
        await _updater(context, event_queue).cancel()

    async def was_canceled(self) -> bool:
        return bool(self.canceled)


async def test_an_executor_is_informed_of_the_cancel_of_a_task_that_waits_for_input(
    submitter: TaskSubmitter, working: Working
) -> None:
    executor = Asking("input")
    async with working(executor_agent(executor, name="asking")):
        task = await submitter.start("asking", "x")
        assert state(await folded(task)) == "INPUT_REQUIRED"
        assert await cancel(task) == CANCELED
        await eventually(executor.was_canceled)
    [context] = executor.canceled
    assert (context.task_id, context.context_id) == (task.key.task, task.context)
    assert context.current_task is not None
    assert context.current_task.status.state == TaskState.TASK_STATE_CANCELED
    assert not context.call_context.user.is_authenticated


async def test_an_executor_is_informed_of_the_cancel_of_a_task_that_waits_for_credentials(
    submitter: TaskSubmitter, working: Working
) -> None:
    executor = Asking("auth")
    async with working(executor_agent(executor, name="asking")):
        task = await submitter.start("asking", "x")
        await eventually(lambda: _waits(task))
        await task.held()
        assert await cancel(task) == CANCELED
        await eventually(executor.was_canceled)
    assert [context.task_id for context in executor.canceled] == [task.key.task]


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize("asks", ["ask", "auth"])
async def test_an_outside_agent_is_informed_of_the_cancel_of_a_task_that_waits(
    submitter: TaskSubmitter, working: Working, binding: str, asks: str
) -> None:
    executor = ScriptedExecutor()
    async with (
        sdk_server(executor) as server,
        working(await outside_agent(server.url, binding=binding)),
    ):
        task = await submitter.start("outside", asks)
        if asks == "ask":
            await folded(task)
        else:
            await eventually(lambda: _waits(task))
            await task.held()
        assert await cancel(task) == CANCELED
        await eventually(lambda: _was_canceled(executor, 1))
        done = await folded(task)
    assert executor.canceled == [done["metadata"]["remote_task"]]


async def test_a_client_can_not_choose_which_task_is_canceled_elsewhere(
    submitter: TaskSubmitter, working: Working
) -> None:
    executor = ScriptedExecutor()
    async with sdk_server(executor) as server, working(await outside_agent(server.url)):
        victim = await submitter.start("outside", "ask")
        theirs = (await folded(victim))["metadata"]["remote_task"]
        wrong = {"remote_task": theirs}
        # Begun by a worker that died before it knew the task elsewhere.
        task = await submitter.start(
            "outside", message=user_message("x"), metadata=wrong, publish=False
        )
        begun = events.status_update(task.key.task, task.context, WORKING, metadata={ATTEMPT: 1})
        await task.append(begun, WORKING, writer="dead", run=1, attempt=1)
        assert await cancel(task) == CANCELED
        await eventually(task.is_off_the_queue)
        assert executor.canceled == []
        assert await cancel(victim) == CANCELED
        await eventually(lambda: _was_canceled(executor, 1))


async def test_an_unreachable_outside_agent_is_informed_later(
    submitter: TaskSubmitter, working: Working
) -> None:
    executor = ScriptedExecutor()
    async with (
        sdk_server(executor, bindings=["JSONRPC"]) as server,
        working(await outside_agent(server.url, retry=Retry(backoff=0.05))),
    ):
        task = await submitter.start("outside", "ask")
        await folded(task)
        server.proxy.refuses = True
        await server.proxy.cut()
        refused = server.proxy.taken
        assert await cancel(task) == CANCELED
        await eventually(lambda: _has_refused(server.proxy.taken, refused))
        server.proxy.refuses = False
        await eventually(lambda: _was_canceled(executor, 1))


async def test_a_token_that_is_refused_then_is_fetched_anew(
    submitter: TaskSubmitter, working: Working
) -> None:
    executor = ScriptedExecutor()
    async with sdk_server(executor, bindings=["JSONRPC"]) as server:
        issuer = ClientCredentials("me", "secret", f"{server.url}/token")
        server.headers = {"authorization": "Bearer token-1"}
        async with working(await outside_agent(server.url, credentials=issuer)):
            task = await submitter.start("outside", "ask")
            await folded(task)
            server.headers = {"authorization": "Bearer token-2"}
            assert await cancel(task) == CANCELED
            await eventually(lambda: _was_canceled(executor, 1))


async def test_a_task_whose_worker_was_killed_is_canceled_over_there(
    submitter: TaskSubmitter, spawn: Spawn
) -> None:
    executor = ScriptedExecutor()
    async with sdk_server(executor) as server:
        worker = await asyncio.to_thread(
            spawn, "tests.support.outside_agent:outside", outside_url=server.url
        )
        task = await submitter.start("outside", "slowly")
        await eventually(lambda: _is_known(task))
        await asyncio.to_thread(worker.kill)
        assert await cancel(task) == CANCELED
        assert executor.canceled == []
        await asyncio.to_thread(worker.start)
        await eventually(lambda: _was_canceled(executor, 1))


async def test_a_task_whose_last_attempt_lost_it_is_canceled_over_there(
    submitter: TaskSubmitter, working: Working
) -> None:
    executor = ScriptedExecutor()
    async with (
        sdk_server(executor, bindings=["JSONRPC"]) as server,
        # It sees the task break off once and does not come back.
        working(
            await outside_agent(server.url, retry=Retry(attempts=1, backoff=0.0), reconnecting=0.0)
        ),
    ):
        task = await submitter.start("outside", "slowly")
        await eventually(lambda: _is_known(task))
        server.proxy.refuses = True
        await server.proxy.cut()
        failed = await folded(task)
        assert (state(failed), executor.canceled) == ("FAILED", [])
        server.proxy.refuses = False
        await eventually(lambda: _was_canceled(executor, 1))
    assert executor.canceled == [failed["metadata"]["remote_task"]]


def _updater(context: RequestContext, queue: EventQueue) -> TaskUpdater:
    assert context.task_id
    assert context.context_id
    return TaskUpdater(queue, context.task_id, context.context_id)


async def _waits(task: Task) -> bool:
    return (await task.last()).stamp.state == AUTH_REQUIRED


async def _is_known(task: Task) -> bool:
    return "remote_task" in (await task.found()).task.get("metadata", {})


async def _was_canceled(executor: ScriptedExecutor, times: int) -> bool:
    return len(executor.canceled) == times


async def _has_refused(taken: int, before: int) -> bool:
    return taken > before
