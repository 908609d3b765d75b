"""GetTask, ListTasks, CancelTask."""

import asyncio
import secrets

from tests.support.clients.bindings import Talk, message
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.waiting import eventually


async def test_a_task_is_read_as_it_is(talk: Talk) -> None:
    sent = (await talk.call("SendMessage", message("hello")))["task"]
    assert await talk.call("GetTask", {"id": sent["id"]}) == sent
    assert "history" not in await talk.call("GetTask", {"id": sent["id"], "historyLength": 0})


async def test_tasks_are_listed_in_pages(talk: Talk) -> None:
    context = secrets.token_hex(4)
    for n in range(3):
        await talk.call("SendMessage", message(f"{n}", contextId=context))
    query = {"contextId": context, "pageSize": 2, "status": "TASK_STATE_COMPLETED"}
    page = await talk.call("ListTasks", query)
    assert page.keys() == {"tasks", "nextPageToken", "pageSize", "totalSize"}
    assert (len(page["tasks"]), page["pageSize"], page["totalSize"]) == (2, 2, 3)
    assert page["nextPageToken"]
    none = await talk.call("ListTasks", {"contextId": context, "status": "TASK_STATE_REJECTED"})
    assert none == {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}


async def test_an_agents_list_has_its_own_tasks_only(talk: Talk) -> None:
    context = secrets.token_hex(4)
    await talk.call("SendMessage", message(contextId=context))
    assert (await talk.to("ask").call("ListTasks", {"contextId": context}))["tasks"] == []


async def test_cancelling_is_confirmed_in_the_log(talk: Talk, fleet: ScriptedFleet) -> None:
    agent = talk.to("patient")
    async with agent.stream("SendStreamingMessage", message()) as stream:
        frames = stream.frames()
        _, event = await anext(frames)
        await anext(frames)
        task = event["task"]["id"]
        canceled = await agent.call("CancelTask", {"id": task})
        rest = [seen async for _, seen in frames]
    assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
    assert rest[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_CANCELED"
    assert fleet.runs[0].key.task == task


async def test_a_task_without_a_holder_is_canceled(talk: Talk, fleet: ScriptedFleet) -> None:
    params = message() | {"configuration": {"returnImmediately": True}}
    agent = talk.to("patient")
    task = (await agent.call("SendMessage", params))["task"]["id"]

    async def works() -> bool:
        return bool(fleet.runs)

    await eventually(works, "the agent works")
    await fleet.stop_working()
    canceled = await asyncio.wait_for(agent.call("CancelTask", {"id": task}), 60)
    assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
