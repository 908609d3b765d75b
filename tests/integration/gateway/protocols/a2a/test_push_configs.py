"""The operations on push notification configs, in both JSON bindings."""

import asyncio
from dataclasses import replace

import httpx
import pytest

from headrace.jetstream.connection import Bus
from headrace.model.messages import WokenRun
from headrace.model.subjects import encode_token
from headrace.model.task import TaskKey, mint_task_id
from headrace.number_limit import NumberLimit
from headrace.webhooks import (
    MOST_PER_TASK,
    Address,
    TaskWebhook,
    TooManyWebhooks,
    WebhookProgress,
    Webhooks,
    waking_webhook,
)
from tests.support.clients.bindings import Json, Talk, message
from tests.support.scripted_fleet import ScriptedFleet

URL = "https://hooks.example/a?b=c"
SECRETS = {"token": "tok", "authentication": {"scheme": "Bearer", "credentials": "s3cret"}}
PUBLIC = {"authentication": {"scheme": "Bearer"}}


async def a_task(talk: Talk, text: str = "hello", **configuration: object) -> str:
    params = message(text) | ({"configuration": configuration} if configuration else {})
    task: str = (await talk.call("SendMessage", params))["task"]["id"]
    return task


async def created(talk: Talk, task: str, **config: object) -> Json:
    params = {"taskId": task, "url": URL, **config}
    return await talk.call("CreateTaskPushNotificationConfig", params)


async def listed(talk: Talk, task: str, **page: object) -> Json:
    return await talk.call("ListTaskPushNotificationConfigs", {"taskId": task, **page})


async def test_a_config_is_created_read_listed_and_deleted(
    talk: Talk, http: httpx.AsyncClient
) -> None:
    task = await a_task(talk)
    config = await created(talk, task, id="überall/1", **SECRETS)
    assert config == {"id": "überall/1", "taskId": task, "url": URL, **SECRETS}
    config = await created(talk, task, id="c", **SECRETS)
    assert config == {"id": "c", "taskId": task, "url": URL, **SECRETS}
    request = {"taskId": task, "id": "c"}
    shown = {"id": "c", "taskId": task, "url": URL, **PUBLIC}
    assert await talk.call("GetTaskPushNotificationConfig", request) == shown
    found = await listed(talk, task)
    assert [one["id"] for one in found.get("configs", [])] == ["überall/1", "c"]
    assert shown in found.get("configs", [])
    for _ in range(2):
        deleted = await http.delete(f"/tasks/{task}/pushNotificationConfigs/c")
        assert (deleted.status_code, deleted.json()) == (200, {})
    refusal = await talk.refused("GetTaskPushNotificationConfig", request)
    assert refusal.reason == "TASK_NOT_FOUND"
    assert len((await listed(talk, task)).get("configs", [])) == 1


async def test_secrets_are_shown_once(talk: Talk) -> None:
    task = await a_task(talk)
    await created(talk, task, **SECRETS)
    found = str(await listed(talk, task))
    assert "tok" not in found
    assert "s3cret" not in found


async def test_a_config_without_id_gets_one_and_one_with_it_is_replaced(talk: Talk) -> None:
    task = await a_task(talk)
    one, two = await created(talk, task), await created(talk, task, token="other")
    assert one["id"] != two["id"]
    await created(talk, task, id=one["id"], url="https://other.example/")
    urls = {config["id"]: config["url"] for config in (await listed(talk, task)).get("configs", [])}
    assert urls == {one["id"]: "https://other.example/", two["id"]: URL}


async def test_a_config_without_id_that_is_sent_again_is_the_same_one(talk: Talk) -> None:
    task = await a_task(talk)
    one, again = [await created(talk, task, **SECRETS) for _ in range(2)]
    assert one == again
    assert [found["id"] for found in (await listed(talk, task))["configs"]] == [one["id"]]


async def test_configs_are_listed_page_by_page(talk: Talk) -> None:
    task = await a_task(talk)
    names = [(await created(talk, task, id=f"c{number}"))["id"] for number in range(5)]
    found, token = list[str](), ""
    while True:
        page = await listed(talk, task, pageSize=2, **({"pageToken": token} if token else {}))
        found += [config["id"] for config in page.get("configs", [])]
        if not (token := page.get("nextPageToken", "")):
            break
    assert found == names
    for wrong in ({"pageSize": -1}, {"pageSize": 101}, {"pageToken": "x"}, {"pageToken": "-1"}):
        refusal = await talk.refused("ListTaskPushNotificationConfigs", {"taskId": task, **wrong})
        assert (refusal.reason, list(refusal.fields)) == ("INVALID_PARAMS", list(wrong))


async def test_a_task_may_have_so_many_and_no_more(talk: Talk) -> None:
    task = await a_task(talk)
    for number in range(MOST_PER_TASK):
        await created(talk, task, id=f"c{number}")
    refusal = await talk.refused("CreateTaskPushNotificationConfig", {"taskId": task, "url": URL})
    assert (refusal.status, refusal.reason) == (429, "TOO_MANY_PUSH_CONFIGS")
    await created(talk, task, id="c0", url="https://replaced.example")


async def test_those_of_runs_that_wait_are_no_clients_and_take_no_places(
    talk: Talk, bus: Bus
) -> None:
    task = await a_task(talk)
    key, hooks = TaskKey("default", "assistant", task), Webhooks(bus)
    woken = [
        WokenRun(agent="a", task=f"0-{n:032}", run=1, source="s") for n in range(MOST_PER_TASK)
    ]
    for run in woken:
        await hooks.create(key, waking_webhook("anonymous", run))
    first = waking_webhook("anonymous", woken[0]).id
    refusal = await talk.refused("GetTaskPushNotificationConfig", {"taskId": task, "id": first})
    assert refusal.reason == "TASK_NOT_FOUND"
    params = {"taskId": task, "url": URL, "id": first}
    refusal = await talk.refused("CreateTaskPushNotificationConfig", params)
    assert list(refusal.fields) == ["id"]
    await talk.call("DeleteTaskPushNotificationConfig", {"taskId": task, "id": first})
    kept = await hooks.get(key, encode_token(first))
    assert kept is not None
    assert kept.webhook.wakes == woken[0]
    await created(talk, task, id="c")
    assert [one["id"] for one in (await listed(talk, task))["configs"]] == ["c"]


async def test_no_more_than_that_are_made_at_the_same_time(bus: Bus) -> None:
    key, webhooks = TaskKey("default", "assistant", mint_task_id(0)), Webhooks(bus)
    names = [f"c{number}" for number in range(2 * MOST_PER_TASK)]
    address, progress = Address(url=URL), WebhookProgress(generation=0)
    hooks = [
        TaskWebhook(id=name, owner="ann", address=address, progress=progress) for name in names
    ]
    made = await asyncio.gather(
        *(webhooks.put(key, hook) for hook in hooks), return_exceptions=True
    )
    refused = [one for one in made if isinstance(one, BaseException)]
    assert {type(one) for one in refused} == {TooManyWebhooks}
    kept = await webhooks.list(key)
    assert len(kept) == len(names) - len(refused) <= MOST_PER_TASK
    await webhooks.delete_all(key)


class OvertakenWebhooks(Webhooks):
    """Webhooks that are over the limit, and replaced, once they are stored."""

    def _limit(self, key: TaskKey) -> NumberLimit:
        async def count() -> int:
            stored = await self.list(key)
            for one in stored:
                await Webhooks(self._bus).put(key, one.model_copy(update={"owner": "bob"}))
            return 2 * len(stored)

        return replace(super()._limit(key), most=1, count=count)


async def test_one_over_the_limit_stays_if_another_request_has_replaced_it(bus: Bus) -> None:
    key, webhooks = TaskKey("default", "assistant", mint_task_id(0)), Webhooks(bus)
    progress = WebhookProgress(generation=0)
    hook = TaskWebhook(id="c", owner="ann", address=Address(url=URL), progress=progress)
    with pytest.raises(TooManyWebhooks):
        await OvertakenWebhooks(bus).put(key, hook)
    assert [one.owner for one in await webhooks.list(key)] == ["bob"]
    await webhooks.delete_all(key)


async def test_one_that_comes_with_a_message_is_there_before_the_task_begins(
    talk: Talk, bus: Bus
) -> None:
    task = await a_task(talk, taskPushNotificationConfig={"id": "inline", "url": URL, **SECRETS})
    assert [c["id"] for c in (await listed(talk, task)).get("configs", [])] == ["inline"]
    kept = await Webhooks(bus).get(TaskKey("default", "assistant", task), encode_token("inline"))
    assert kept is not None
    assert kept.webhook.progress.generation == 0


async def test_a_webhook_that_comes_with_an_answer_gets_what_follows(
    talk: Talk, bus: Bus, fleet: ScriptedFleet
) -> None:
    assert fleet.working
    talk = talk.to("ask")
    task = await a_task(talk)
    before = (await talk.call("GetTask", {"id": task}))["metadata"]["headrace.generation"]
    configuration = {"taskPushNotificationConfig": {"id": "later", "url": URL}}
    await talk.call("SendMessage", message("Ann", taskId=task) | {"configuration": configuration})
    kept = await Webhooks(bus).get(TaskKey("default", "ask", task), "later")
    assert kept is not None
    assert kept.webhook.progress.generation == before


async def test_under_an_idempotency_key_it_is_one_config_however_often_it_is_sent(
    talk: Talk, http: httpx.AsyncClient
) -> None:
    http.headers["Idempotency-Key"] = f"push {type(talk).__name__}"
    tasks = {await a_task(talk, taskPushNotificationConfig={"url": URL}) for _ in range(3)}
    del http.headers["Idempotency-Key"]
    [task] = tasks
    assert len((await listed(talk, task)).get("configs", [])) == 1


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"url": ""}, "url"),
        ({"url": "ftp://hooks.example/"}, "url"),
        ({"url": "file:///etc/passwd"}, "url"),
        ({"url": "https://"}, "url"),
        ({"url": "https://hooks.example:99999/"}, "url"),
        ({"url": "https://user:password@hooks.example/"}, "url"),
        ({"url": "https://hooks.example/#fragment"}, "url"),
        ({"url": "https://hooks.example/a b"}, "url"),
        ({"url": "https://hooks.example/\r\nX: y"}, "url"),
        ({"url": "https://hööks.example/"}, "url"),
        ({"url": "https://hooks.example/" + "x" * 3000}, "url"),
        ({"token": "a\r\nX-Evil: 1"}, "token"),
        ({"token": "x" * 5000}, "token"),
        ({"authentication": {"scheme": "Bearer x"}}, "authentication.scheme"),
        (
            {"authentication": {"scheme": "Bearer", "credentials": "a\nb"}},
            "authentication.credentials",
        ),
        ({"id": "x" * 300}, "id"),
    ],
)
async def test_what_can_not_be_called_is_refused_and_the_field_named(
    talk: Talk, config: Json, field: str
) -> None:
    task = await a_task(talk)
    params = {"taskId": task, "url": URL} | config
    refusal = await talk.refused("CreateTaskPushNotificationConfig", params)
    assert (refusal.reason, list(refusal.fields)) == ("INVALID_PARAMS", [field])
    inline = {"taskPushNotificationConfig": {"url": URL} | config}
    refusal = await talk.refused("SendMessage", message() | {"configuration": inline})
    assert list(refusal.fields) == [f"configuration.taskPushNotificationConfig.{field}"]
    assert not (await listed(talk, task)).get("configs", [])


async def test_a_missing_task_and_one_of_another_owner_look_the_same(
    talk: Talk, fleet: ScriptedFleet
) -> None:
    foreign = await fleet.foreign_task("assistant", "context")
    for operation in (
        "CreateTaskPushNotificationConfig",
        "GetTaskPushNotificationConfig",
        "ListTaskPushNotificationConfigs",
        "DeleteTaskPushNotificationConfig",
    ):
        refusals = [
            await talk.refused(operation, {"taskId": task, "id": "c", "url": URL})
            for task in (foreign.task, mint_task_id(0))
        ]
        assert {(one.status, one.code, one.reason) for one in refusals} == {
            (refusals[0].status, refusals[0].code, "TASK_NOT_FOUND")
        }
