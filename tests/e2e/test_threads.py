"""Threads of an owner over HTTP: listed, searched, renamed, archived, read and deleted."""

import uuid
from urllib.parse import quote

import httpx

from tests.support.fleet import Fleet
from tests.support.plain_a2a import PlainAgent, message


async def begun(agent: PlainAgent, text: str, context: str) -> str:
    """Send a message, wait for the end of its task and return its id."""
    answer = await agent.post("message:send", {"message": message(text, contextId=context)})
    return str(answer.raise_for_status().json()["task"]["id"])


async def test_a_thread_is_renamed_archived_read_and_deleted_at_any_gateway(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    here, there = fleet.gateways[:2]
    name = uuid.uuid4().hex
    context = f"thread {name}/1?\n2"
    one = f"{here}/v1/threads/{quote(context, safe='')}"
    for url, agent in ((here, "echo"), (there, "counter")):
        await begun(PlainAgent(http, url, agent), "3" if agent == "counter" else name, context)
    seen = (await http.get(f"{there}/v1/threads", params={"q": name.upper()})).json()
    [thread] = seen["threads"]
    assert (thread["id"], thread["title"], thread["tasks"]) == (context, name, 2)
    assert (thread["agents"], thread["state"]) == (["counter", "echo"], "TASK_STATE_COMPLETED")
    assert (seen["total"], seen["next"]) == (1, None)
    assert thread["unread"]
    assert thread["text"]
    paths = "ag-ui/threads/{}", "contexts/{}:subscribe"
    for path in (path.format(quote(context, safe="")) for path in paths):
        async with http.stream("GET", f"{there}/v1/agents/echo/{path}") as answer:
            assert answer.status_code == httpx.codes.OK, path
    change = {"title": " Numbers ", "archived": True, "readTo": thread["changed"]}
    changed = (await http.patch(one, json=change)).raise_for_status().json()
    assert changed == thread | {"title": "Numbers", "archived": True, "unread": False}
    shown = [
        (await http.get(f"{there}/v1/threads", params={"q": "numbers"} | given)).json()["total"]
        for given in ({}, {"archived": "true"}, {"archived": "any", "agent": "assistant"})
    ]
    assert shown == [0, 1, 0]
    restored = (await http.patch(one, json={"title": None, "archived": False})).json()
    assert restored == thread | {"unread": False}
    refused = [
        (await http.patch(one, json=body)).json()["error"]["message"]
        for body in ({"title": ""}, {"archived": 1}, {"readTo": "2026-01-31T12:00:00"}, {"x": 1})
    ]
    assert [one.partition(":")[0] for one in refused] == ["title", "archived", "readTo", "x"]
    assert (await http.delete(one)).json() == {"deleted": context}
    gone = await http.get(one)
    assert (gone.status_code, gone.json()["error"]["code"]) == (404, "thread_unknown")
    assert (await http.get(f"{here}/v1/threads", params={"archived": "no"})).status_code == 400


async def test_what_was_set_of_a_thread_can_be_erased_after_its_tasks(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    here, there = fleet.gateways[:2]
    context = uuid.uuid4().hex
    one = f"{there}/v1/threads/{context}"
    for title in ("first", "second"):
        task = await begun(PlainAgent(http, here, "echo"), title, context)
        assert (await http.get(one)).json()["title"] == title
        (await http.patch(one, json={"title": "Private"})).raise_for_status()
        (await http.delete(f"{here}/v1/agents/echo/tasks/{task}")).raise_for_status()
        gone = await http.delete(one)
        assert (gone.status_code, gone.json()["error"]["code"]) == (404, "thread_unknown")
