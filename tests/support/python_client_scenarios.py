"""The scenarios of `client_scenarios` with the official A2A client for Python."""

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from typing import Any

import grpc.aio
import httpx
from a2a.client import Client, ClientCallContext, ClientConfig, ClientFactory
from a2a.helpers.proto_helpers import new_text_message
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import A2AError

from tests.support.client_scenarios import Order, Outcomes
from tests.support.plain_http import NO_TLS

_CARD = pb.GetExtendedAgentCardRequest()


async def run(order: Order) -> Outcomes:
    """Run every scenario of this module and return what came of each."""
    outcomes: Outcomes = {}
    async with AsyncExitStack() as stack:
        driver = _Driver(order, stack)
        for name, scenario in _SCENARIOS.items():
            try:
                outcomes[name] = await scenario(driver)
            except Exception as problem:  # noqa: BLE001 - told as the scenario's outcome
                outcomes[name] = f"{type(problem).__name__}: {problem}"
    return outcomes


@dataclass
class _Seen:
    """What a stream has brought."""

    id: str = ""
    first: str = ""
    states: list[str] = field(default_factory=list)
    text: str = ""
    updates: int = 0

    def take(self, event: pb.StreamResponse) -> None:
        kind = str(event.WhichOneof("payload"))
        self.first = self.first or kind
        if kind == "task":
            self.id = event.task.id
            self.text += _answer(event.task)
        if kind in {"task", "status_update"}:
            self.states.append(_state(getattr(event, kind)))
        if kind == "artifact_update":
            self.updates += 1
            self.text += _text(event.artifact_update.artifact.parts)


class _Driver:
    """The clients of one order."""

    def __init__(self, order: Order, stack: AsyncExitStack) -> None:
        self.order, self._stack = order, stack

    async def client(self, gateway: str, agent: str, *, streaming: bool = False) -> Client:
        http = await self._stack.enter_async_context(httpx.AsyncClient(timeout=90, verify=NO_TLS))
        config = ClientConfig(
            streaming=streaming,
            httpx_client=http,
            grpc_channel_factory=grpc.aio.insecure_channel,
            supported_protocol_bindings=[self.order.binding],
        )
        client = await ClientFactory(config).create_from_url(f"{gateway}/v1/agents/{agent}")
        return await self._stack.enter_async_context(client)

    async def counter(self, *, streaming: bool = False) -> Client:
        return await self.client(self.order.here, "counter", streaming=streaming)

    async def elsewhere(self) -> Client:
        return await self.client(self.order.there, "counter", streaming=True)


def _state(has_status: Any) -> str:  # noqa: ANN401 - a task or an update
    return pb.TaskState.Name(has_status.status.state)


def _text(parts: Any) -> str:  # noqa: ANN401 - a repeated field
    return "".join(part.text for part in parts)


def _answer(task: pb.Task) -> str:
    return "".join(_text(artifact.parts) for artifact in task.artifacts)


def _asking(text: str, **fields: str) -> pb.SendMessageRequest:
    message = new_text_message(text, role=pb.ROLE_USER, **fields)
    return pb.SendMessageRequest(message=message)


async def _sent(client: Client, request: pb.SendMessageRequest) -> pb.Task:
    [event] = [event async for event in client.send_message(request)]
    return event.task


async def _follow(
    stream: Any,  # noqa: ANN401 - an async generator, which the client calls an iterator
    until: Callable[[_Seen], Awaitable[bool]] | None = None,
) -> _Seen:
    """Read `stream` to its end, or until `until` says so, and then hang up."""
    seen = _Seen()
    async with aclosing(stream) as events:
        async for event in events:
            seen.take(event)
            if until is not None and await until(seen):
                break
    return seen


def _cancel_at_third(client: Client) -> Callable[[_Seen], Awaitable[bool]]:
    canceled = list[pb.Task]()

    async def until(seen: _Seen) -> bool:
        if seen.updates == 3 and not canceled:
            canceled.append(await client.cancel_task(pb.CancelTaskRequest(id=seen.id)))
        return False

    return until


async def _left(seen: _Seen) -> bool:
    return seen.updates == 2


async def _error(call: Awaitable[Any]) -> str:
    try:
        await call
    except A2AError as error:
        return type(error).__name__
    return "none"


async def _send(driver: _Driver) -> list[Any]:
    task = await _sent(await driver.counter(), _asking("4"))
    return [_state(task), _answer(task)]


async def _stream(driver: _Driver) -> list[Any]:
    client = await driver.counter(streaming=True)
    seen = await _follow(client.send_message(_asking("5")))
    return [seen.states[0], seen.states[-1], seen.text]


async def _resubscribe(driver: _Driver) -> list[Any]:
    client, other = await driver.counter(streaming=True), await driver.elsewhere()
    left = await _follow(client.send_message(_asking("10000 20")), _left)
    stream = other.subscribe(pb.SubscribeToTaskRequest(id=left.id))
    again = await _follow(stream, _cancel_at_third(other))
    numbers = [int(number) for number in again.text.split()]
    whole = numbers == list(range(1, len(numbers) + 1))
    return [again.first, again.id == left.id, whole, again.states[-1]]


async def _cancel(driver: _Driver) -> list[Any]:
    client, other = await driver.counter(streaming=True), await driver.elsewhere()
    seen = await _follow(client.send_message(_asking("10000 20")), _cancel_at_third(other))
    found = await client.get_task(pb.GetTaskRequest(id=seen.id))
    return [seen.states[-1], _state(found)]


async def _follow_up(driver: _Driver) -> list[Any]:
    asker = await driver.client(driver.order.here, "asker")
    waiting = await _sent(asker, _asking("hi"))
    done = await _sent(asker, _asking("Ada", task_id=waiting.id))
    question = _text(waiting.status.message.parts)
    return [_state(waiting), question, _state(done), _answer(done), done.id == waiting.id]


async def _push(driver: _Driver) -> list[Any]:
    client, other, hook = await driver.counter(), await driver.elsewhere(), driver.order.hook
    request = _asking("10000 20")
    request.configuration.return_immediately = True
    task = (await _sent(client, request)).id
    for name in ("kept", "dropped"):
        config = pb.TaskPushNotificationConfig(task_id=task, id=name, url=hook, token="s3cret")
        await client.create_task_push_notification_config(config)
    dropped = pb.DeleteTaskPushNotificationConfigRequest(task_id=task, id="dropped")
    await other.delete_task_push_notification_config(dropped)
    kept = pb.GetTaskPushNotificationConfigRequest(task_id=task, id="kept")
    one = await other.get_task_push_notification_config(kept)
    of_task = pb.ListTaskPushNotificationConfigsRequest(task_id=task)
    listed = await other.list_task_push_notification_configs(of_task)
    await client.cancel_task(pb.CancelTaskRequest(id=task))
    return [one.url == hook, one.token, [config.id for config in listed.configs]]


async def _list(driver: _Driver) -> list[Any]:
    client, other = await driver.counter(), await driver.elsewhere()
    first = await _sent(client, _asking("1"))
    context = first.context_id
    second = await _sent(client, _asking("2", context_id=context))
    query = pb.ListTasksRequest(context_id=context, page_size=1)
    newest = await other.list_tasks(query)
    query.page_token = newest.next_page_token
    oldest = await other.list_tasks(query)
    listed = [task.id for task in (*newest.tasks, *oldest.tasks)]
    return [listed == [second.id, first.id], newest.total_size, oldest.next_page_token]


async def _extended_card(driver: _Driver) -> list[Any]:
    order = driver.order
    asker = await driver.client(order.here, "asker")
    known = await driver.client(order.known, "asker")
    bearer = {"authorization": f"Bearer {order.token}"}
    context = ClientCallContext(service_parameters=bearer)
    return [
        await _error(asker.get_extended_agent_card(_CARD)),
        (await known.get_extended_agent_card(_CARD, context=context)).description,
    ]


async def _errors(driver: _Driver) -> list[Any]:
    client, other = await driver.counter(), await driver.elsewhere()
    over, unknown = (await _sent(client, _asking("1"))).id, "no-such-task"
    return [
        await _error(client.get_task(pb.GetTaskRequest(id=unknown))),
        await _error(client.cancel_task(pb.CancelTaskRequest(id=unknown))),
        await _error(_sent(client, _asking("1", task_id=unknown))),
        await _error(client.cancel_task(pb.CancelTaskRequest(id=over))),
        await _error(_follow(other.subscribe(pb.SubscribeToTaskRequest(id=over)))),
    ]


_SCENARIOS: dict[str, Callable[[_Driver], Coroutine[Any, Any, list[Any]]]] = {
    "send": _send,
    "stream": _stream,
    "resubscribe": _resubscribe,
    "cancel": _cancel,
    "followUp": _follow_up,
    "push": _push,
    "list": _list,
    "extendedCard": _extended_card,
    "errors": _errors,
}
