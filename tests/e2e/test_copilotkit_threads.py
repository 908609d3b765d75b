"""CopilotKit's thread store, on which its hook useThreads stands, given the fleet's /copilotkit."""

import uuid

import httpx

from tests.support import javascript
from tests.support.fleet import Fleet
from tests.support.plain_a2a import PlainAgent, message


async def test_its_store_lists_renames_archives_and_deletes_threads(
    fleet: Fleet, http: httpx.AsyncClient
) -> None:
    names = [f"{uuid.uuid4().hex}/é {number}" for number in range(3)]
    agent = PlainAgent(http, fleet.gateways[0], "echo")
    for name in names:
        body = {"message": message(f"about {name}", contextId=name)}
        (await agent.post("message:send", body)).raise_for_status()
    order = {
        "runtimeUrl": f"{fleet.gateways[1]}/copilotkit",
        "agentId": "echo",
        "rename": [names[0], "Renamed"],
        "archive": names[1],
        "delete": names[2],
    }
    done = javascript.run("copilotkit_threads.mjs", order)
    lists = done["lists"]
    assert done["endpoints"]["list"]
    assert done["endpoints"]["mutations"]
    assert [one["error"] for one in lists] == [None] * 4
    assert [_of(one["threads"], names) for one in lists] == [
        {
            names[2]: f"about {names[2]}",
            names[1]: f"about {names[1]}",
            names[0]: f"about {names[0]}",
        },
        {names[2]: f"about {names[2]}", names[0]: "Renamed"},
        {names[2]: f"about {names[2]}"},
        {names[1]: f"about {names[1]}", names[0]: "Renamed"},
    ]
    assert [one["more"] for one in lists] == [False, False, True, False]
    assert {one["agentId"] for one in lists[0]["threads"]} == {"echo"}


def _of(threads: list[dict[str, str]], names: list[str]) -> dict[str, str]:
    return {one["id"]: one["name"] for one in threads if one["id"] in names}
