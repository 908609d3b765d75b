"""Every door, by its own client: what all of them promise."""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support import extra_services
from tests.support.credentials import ANN, EVE, write
from tests.support.doors.ai_sdk import AiSdk
from tests.support.doors.door import Door
from tests.support.doors.mcp import NEWEST, PREVIOUS, Mcp
from tests.support.doors.openai import Chat, Responses
from tests.support.fleet import Fleet
from tests.support.plain_a2a import PlainAgent
from tests.support.service_process import ServiceProcess
from tests.support.stack import Stack
from tests.support.waiting import eventually

DOORS: list[Door] = [AiSdk(), Responses(), Chat(), Mcp(NEWEST), Mcp(PREVIOUS)]
"""All doors that have no tests of these promises elsewhere, as A2A and AG-UI have."""

every_door = pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
every_resuming_door = pytest.mark.parametrize(
    "door", [door for door in DOORS if door.can_resume], ids=lambda door: door.name
)

_COUNTED = "".join(f"{number} " for number in range(1, 31))


@pytest.fixture(scope="module")
def secured(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a gateway that wants credentials: those of Ann and, in another tenant, of Eve."""
    folder = tmp_path_factory.mktemp("secured")
    file = write(folder / "credentials.toml", ANN, EVE)
    nats_url = stack.dev()["nats_url"]
    gateway, url = extra_services.gateway(folder, nats_url, HEADRACE_CREDENTIALS=str(file))
    with gateway:
        yield url


async def _state(http: httpx.AsyncClient, url: str, agent: str, task: str) -> str:
    answer = await http.get(f"{url}/v1/agents/{agent}/tasks/{task}")
    state: str = answer.json()["status"]["state"]
    return state


@every_door
async def test_streams_what_the_agent_says(fleet: Fleet, door: Door) -> None:
    async with door.begin(fleet.gateways[0], "counter", "30 1") as answer:
        await answer.until("1 ")
        await answer.rest()
    assert answer.text == _COUNTED


@every_resuming_door
async def test_resumes_on_another_gateway_after_a_kill(
    fleet: Fleet, door: Door, tmp_path: Path
) -> None:
    # It stays dead, because some clients connect again to the gateway that they know.
    gateway, url = extra_services.gateway(tmp_path, fleet.nats_url)
    with gateway:
        async with door.begin(url, "counter", "30 100") as answer:
            await answer.until("5 ")
            gateway.kill()
            with pytest.raises(Exception):  # noqa: B017, PT011 - each client has its own
                await answer.rest()
            await answer.resume(fleet.gateways[1])
            await answer.rest()
    assert answer.text == _COUNTED


@every_door
async def test_a_stop_is_confirmed_by_the_log(
    fleet: Fleet, http: httpx.AsyncClient, door: Door
) -> None:
    one, other = fleet.gateways
    async with door.begin(one, "counter", "1000 100") as answer:
        await answer.until("2 ")
        await answer.stop(other if door.can_resume else one)

    async def is_canceled() -> bool:
        return await _state(http, other, "counter", answer.task) == "TASK_STATE_CANCELED"

    await eventually(is_canceled, "the task is canceled")


@every_door
async def test_a_question_is_answered_in_its_task(
    fleet: Fleet, door: Door, extra_worker: ServiceProcess
) -> None:
    assert extra_worker
    [question, answer] = await door.converse(fleet.gateways[0], "asker", ["hello", "Ann"])
    assert (question, answer) == ("Who are you?", "Hello, Ann!")


@every_door
async def test_a_file_reaches_the_agent(
    fleet: Fleet, door: Door, extra_worker: ServiceProcess
) -> None:
    assert extra_worker
    for size in (10, 300_000):
        content = b"\0" * size
        answer = await door.send_file(fleet.gateways[0], "filer", content)
        assert answer == hashlib.sha256(content).hexdigest()


@every_door
async def test_tenants_do_not_see_each_others_answers(door: Door, secured: str) -> None:
    async with door.begin(secured, "echo", "hello", ANN.token) as answer:
        await answer.rest()
    assert await door.can_read(secured, answer.task, "echo", ANN.token)
    assert not await door.can_read(secured, answer.task, "echo", EVE.token)
    assert (await door.refusal(secured, "echo", "wrong")).message


@every_door
async def test_an_error_names_the_agent_that_there_is_not(fleet: Fleet, door: Door) -> None:
    refusal = await door.refusal(fleet.gateways[0], "nobody")
    assert "nobody" in refusal.message


@every_door
async def test_hostile_input_is_refused_by_field(
    fleet: Fleet, http: httpx.AsyncClient, door: Door
) -> None:
    assert door.hostile
    for path, body, status, says in door.hostile:
        headers = {"Content-Type": "application/json"}
        answer = await http.post(f"{fleet.gateways[0]}{path}", content=body, headers=headers)
        assert (answer.status_code, says in answer.text) == (status, True), answer.text


async def test_an_echo_over_a2a_enters_no_door(
    fleet: Fleet, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    gateway, url = extra_services.gateway(tmp_path, fleet.nats_url, PYTHONPROFILEIMPORTTIME="1")
    with gateway:
        before = entered_doors(gateway)
        async with PlainAgent(http, url, "echo").stream("hello") as answer:
            assert "TASK_STATE_COMPLETED" in (await answer.aread()).decode()
        assert entered_doors(gateway) == before
    assert {one.rpartition(".")[2] for one in before} <= {
        "ai_sdk",
        "mcp",
        "openai",
        "routes",
        "errors",
    }
    assert "headrace_gateway.protocols.ai_sdk.routes" in before


def entered_doors(gateway: ServiceProcess) -> set[str]:
    """Return the modules of doors that a gateway has imported."""
    imported = re.findall(r"headrace_gateway\.protocols\.[\w.]+", gateway.log.read_text())
    return {one for one in imported if one.split(".")[2] in {"ai_sdk", "mcp", "openai"}}
