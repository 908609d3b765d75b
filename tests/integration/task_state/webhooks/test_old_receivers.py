"""What receivers of A2A 0.3 are told, and where links of files lead in all versions."""

import pytest
from a2a.compat.v0_3.types import Task

from headrace.model.events import Json
from headrace.model.file_links import SCHEME
from headrace.model.task import COMPLETED, INPUT_REQUIRED, WORKING
from headrace.tasks.dead_letters import LetterFilter, Letters, retry
from headrace.webhooks import CURRENT, OLD
from tests.integration.task_state.webhooks.conftest import Hooked
from tests.support.receiver import Notification, Receiver
from tests.support.task_states import TaskStates
from tests.support.waiting import eventually


def whole_run(hooked: Hooked) -> None:
    log = hooked.log
    log.submit("hello")
    log.begin_attempt()
    log.append([log.chunk("a", "Hello ")])
    log.append([log.chunk("a", "Ada")])
    log.append([log.status(COMPLETED)], state=COMPLETED)


async def until_received(hooked: Hooked, name: str = "hook") -> None:
    async def told() -> bool:
        return (await hooked.progress(name)).generation == hooked.log.generation

    await eventually(told, f"{name} is told everything")


def task_of(one: Notification) -> Task:
    assert one.body["kind"] == "task"
    return Task.model_validate(one.body)


def words(task: Task) -> list[str]:
    parts = [part.root for artifact in task.artifacts or () for part in artifact.parts]
    return [part.text for part in parts if part.kind == "text"]


async def test_each_notification_is_the_whole_task_in_the_old_shape(
    fleet: TaskStates, hooked: Hooked, receiver: Receiver
) -> None:
    await hooked.hook(receiver.url(), version=OLD, token="tok", scheme="Bearer", credentials="c")
    whole_run(hooked)
    await hooked.store()
    await fleet.start()
    await until_received(hooked)
    tasks = [task_of(one) for one in receiver.came]
    assert {task.id for task in tasks} == {hooked.log.key.task}
    assert [task.status.state.value for task in tasks] == ["submitted", "working", "completed"]
    assert [words(task) for task in tasks] == [[], ["Hello Ada"], ["Hello Ada"]]
    assert [message.role.value for message in tasks[0].history or ()] == ["user"]
    for one in receiver.came:
        assert one.headers["content-type"] == "application/json"
        assert one.headers["a2a-version"] == OLD
        assert one.headers["x-a2a-notification-token"] == "tok"
        assert one.headers["authorization"] == "Bearer c"


async def test_events_during_a_delivery_are_delivered_next_with_the_task_of_that_time(
    fleet: TaskStates, hooked: Hooked, receiver: Receiver
) -> None:
    await fleet.start()
    await hooked.hook(receiver.url(), version=OLD)
    log = hooked.log
    log.submit("hello")
    log.begin_attempt()
    log.append([log.chunk("a", "Which ")])
    await hooked.store()
    await until_received(hooked)
    log.append([log.chunk("a", "one?")])
    log.append([log.status(INPUT_REQUIRED)], state=INPUT_REQUIRED)
    await hooked.store()
    await until_received(hooked)
    states = [task_of(one).status.state.value for one in receiver.came]
    assert states[0] == "submitted"
    assert states[-1] == "input-required"
    assert words(task_of(receiver.came[-1])) == ["Which one?"]


async def test_what_fails_comes_again_the_same_though_more_has_happened(
    fleet: TaskStates, hooked: Hooked, receiver: Receiver
) -> None:
    receiver.plan["/hook"] = [200, 500, 500, 200]
    await fleet.start()
    await hooked.hook(receiver.url(), version=OLD)
    log = hooked.log
    log.submit("hello")
    log.begin_attempt()
    log.append([log.chunk("a", "Hello ")])
    await hooked.store()
    await receiver.until(lambda: len(receiver.came) > 1, "the second is tried")
    log.append([log.chunk("a", "Ada")])
    log.append([log.status(COMPLETED)], state=COMPLETED)
    await hooked.store()
    await until_received(hooked)
    second = receiver.came[1:4]
    assert len({(one.id, one.raw) for one in second}) == 1
    assert words(task_of(receiver.came[-1])) == ["Hello Ada"]


async def test_a_replica_that_takes_over_sends_the_whole_task_too(
    fleet: TaskStates, hooked: Hooked, receiver: Receiver
) -> None:
    first = await fleet.start()
    await hooked.hook(receiver.url(), version=OLD)
    log = hooked.log
    log.submit("hello")
    log.begin_attempt()
    log.append([log.chunk("a", "Hello ")])
    await hooked.store()
    await until_received(hooked)
    await first.stop()
    log.append([log.chunk("a", "Ada")])
    log.append([log.status(COMPLETED)], state=COMPLETED)
    await hooked.store()
    await fleet.start()
    await until_received(hooked)
    last = task_of(receiver.came[-1])
    assert (last.status.state.value, words(last)) == ("completed", ["Hello Ada"])
    assert len(last.history or ()) == 1


async def test_a_dead_letter_is_the_same_when_it_is_sent_again(
    fleet: TaskStates, hooked: Hooked, receiver: Receiver
) -> None:
    receiver.plan["/hook"] = [500, 500, 500, 500, 200]
    await fleet.start()
    await hooked.hook(receiver.url(), version=OLD)
    hooked.log.submit("hello")
    await hooked.store()
    await until_received(hooked)
    [letter] = [letter async for letter in Letters(fleet.bus).find(LetterFilter(kind="push"))]
    await retry(fleet.bus, letter)
    await receiver.until(receiver.taken, "the dead letter is told")
    assert receiver.taken()[0].raw == receiver.came[0].raw
    assert task_of(receiver.taken()[0]).status.state.value == "submitted"


async def test_what_0_3_can_not_express_becomes_a_dead_letter(
    fleet: TaskStates, hooked: Hooked, receiver: Receiver
) -> None:
    await fleet.start()
    await hooked.hook(receiver.url(), version=OLD)
    deep: Json = {}
    for _ in range(120):
        deep = {"a": deep}
    message = {"messageId": "d", "role": "ROLE_AGENT", "parts": [{"data": deep}]}
    hooked.log.submit("hello")
    hooked.log.append([hooked.log.status(COMPLETED, message)], state=COMPLETED)
    await hooked.store()
    await until_received(hooked)
    assert [task_of(one).status.state.value for one in receiver.came] == ["submitted"]
    [letter] = [letter async for letter in Letters(fleet.bus).find(LetterFilter(kind="push"))]
    assert "can't be converted to A2A 0.3" in letter.content.reason


@pytest.mark.parametrize("base", ["https://agents.example", 'http://x"\\y'])
@pytest.mark.parametrize("version", [CURRENT, OLD])
async def test_files_are_linked_where_the_webhooks_client_came_from(
    fleet: TaskStates, hooked: Hooked, receiver: Receiver, version: str, base: str
) -> None:
    await fleet.start()
    await hooked.hook(receiver.url(), version=version, base=base)
    path = f"agent/tasks/{hooked.log.key.task}/files/{'0' * 16}"
    output = {
        "messageId": "f",
        "role": "ROLE_AGENT",
        "parts": [{"url": SCHEME + path, "filename": "f"}, {"text": f'"url":"{SCHEME}x"'}],
    }
    hooked.log.submit("hello")
    hooked.log.begin_attempt()
    hooked.log.append([hooked.log.status(WORKING, output)])
    hooked.log.append([hooked.log.status(COMPLETED)], state=COMPLETED)
    await hooked.store()
    await until_received(hooked)
    received = str([one.body for one in receiver.came])
    assert repr(f"{base}/v1/agents/{path}") in received
    assert SCHEME + path not in received
    # Text that looks like a link stays text.
    assert f"{SCHEME}x" in received
