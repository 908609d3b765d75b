"""MCP's door, beyond what all doors promise (`tests/e2e/test_doors.py`)."""

import asyncio
import base64
import json
import subprocess
import sys
from asyncio.subprocess import PIPE
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from mcp.client.session import ClientRequestContext
from mcp.shared.dispatcher import ProgressFnT
from mcp.types import (
    INVALID_PARAMS,
    BlobResourceContents,
    CallToolResult,
    ElicitRequestParams,
    ElicitResult,
    InputRequiredResult,
    InputResponses,
    ResourceLink,
)

from headrace import RunContext
from headrace.adapters import McpServer
from headrace.adapters.mcp_tasks import McpTasks
from headrace.sdk.tools import AskingTool
from tests.architecture.test_starts import PROFILED
from tests.architecture.tree import ROOT
from tests.support import extra_services, javascript
from tests.support.credentials import ANN, Person, write
from tests.support.document import blocks
from tests.support.doors.front import Front
from tests.support.doors.mcp import NEWEST, PREVIOUS, client, text_of
from tests.support.fleet import Fleet
from tests.support.plain_a2a import PlainAgent
from tests.support.service_process import ServiceProcess
from tests.support.soak import in_soak
from tests.support.waiting import eventually

DOORS = Path(__file__).parent / "doors"
INSPECTOR = Path(__file__).parent / "inspector"

type Json = dict[str, Any]

REVISIONS = pytest.mark.parametrize("version", [NEWEST, PREVIOUS])


async def _accept(_: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    fields = params.model_dump()["requested_schema"]["properties"]
    return ElicitResult(action="accept", content={name: f"the {name}" for name in fields})


@REVISIONS
async def test_several_questions_are_one_form(
    fleet: Fleet, extra_worker: ServiceProcess, version: str
) -> None:
    assert extra_worker
    async with client(fleet.gateways[0], version, elicitation_callback=_accept) as one:
        result = await one.call_tool("chooser", {"message": "hello"})
    assert text_of(result) == "the size and the tea"


@REVISIONS
async def test_a_client_without_forms_answers_with_another_call(
    fleet: Fleet, extra_worker: ServiceProcess, version: str
) -> None:
    assert extra_worker
    async with client(fleet.gateways[0], version) as one:
        asked = await one.call_tool("asker", {"message": "hello"})
        assert isinstance(asked.structured_content, dict)
        assert asked.structured_content["state"] == "input_required"
        assert text_of(asked) == "Who are you?"
        task = asked.structured_content["taskId"]
        answered = await one.call_tool("asker", {"message": "Ann", "task": task})
    assert text_of(answered) == "Hello, Ann!"


async def test_any_gateway_takes_an_answer_and_the_task_takes_one(
    fleet: Fleet, http: httpx.AsyncClient, extra_worker: ServiceProcess
) -> None:
    assert extra_worker
    arguments = {"message": "hello"}
    async with client(fleet.gateways[0], elicitation_callback=_accept) as one:
        asked = await one.session.call_tool("asker", arguments, allow_input_required=True)
        assert isinstance(asked, InputRequiredResult)
    [key] = asked.input_requests or {}

    async def answered(gateway: str, answer: str) -> CallToolResult:
        given: InputResponses = {key: ElicitResult(action="accept", content={"answer": answer})}
        async with client(gateway, elicitation_callback=_accept) as other:
            return await other.session.call_tool(
                "asker", arguments, input_responses=given, request_state=asked.request_state
            )

    at_once = [answered(*one) for one in zip(fleet.gateways * 2, "ABCD", strict=True)]
    results = [*await asyncio.gather(*at_once), await answered(fleet.gateways[0], "late")]
    assert len(set(map(text_of, results))) == 1
    assert isinstance(results[0].structured_content, dict)
    task = (
        await PlainAgent(http, fleet.gateways[1], "asker").get(
            results[0].structured_content["taskId"]
        )
    ).json()
    said = [one["parts"] for one in task["history"] if one["role"] == "ROLE_USER"]
    assert len(said) == 2


async def test_a_tasks_question_is_answered_by_an_update(
    fleet: Fleet, extra_worker: ServiceProcess
) -> None:
    assert extra_worker
    asked = list[Mapping[str, Json]]()

    async def answers(requests: Mapping[str, Json]) -> Mapping[str, ElicitResult]:
        asked.append(requests)
        return dict.fromkeys(requests, ElicitResult(action="accept", content={"answer": "Zoe"}))

    options: Json = {"elicitation_callback": _accept, "extensions": [McpTasks(answers)]}
    async with client(fleet.gateways[0], **options) as one:
        result = await one.call_tool("asker", {"message": "hello"})
    assert (text_of(result), len(asked)) == ("Hello, Zoe!", 1)


async def test_an_agents_tool_that_is_an_agent_asks_and_goes_on_in_another_process(
    fleet: Fleet, extra_worker: ServiceProcess
) -> None:
    assert extra_worker
    unused = cast("RunContext", None)
    async with McpServer(f"{fleet.gateways[0]}/mcp", only=["asker"]).open() as [tool]:
        asked = (await tool.call(unused, {"message": "hello"})).question
    assert asked is not None
    assert (asked.message, asked.state["task"].partition(".")[0]) == ("Who are you?", "asker")
    async with McpServer(f"{fleet.gateways[1]}/mcp", only=["asker"]).open() as [tool]:
        assert isinstance(tool, AskingTool)
        done = await tool.answer(unused, {}, asked.state, {"answer": "Zoe"})
    assert done.content["text"] == "Hello, Zoe!"


@REVISIONS
async def test_a_task_that_the_agent_rejects_is_an_error_that_the_model_sees(
    fleet: Fleet, version: str
) -> None:
    async with client(fleet.gateways[0], version) as one:
        result = await one.call_tool("counter", {"message": "many"})
    assert isinstance(result.structured_content, dict)
    assert (result.is_error, result.structured_content["state"]) == (True, "rejected")
    assert "must be `N [delay_ms]" in text_of(result)


async def test_closing_a_stream_of_the_newest_revision_cancels_its_task(
    fleet: Fleet, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    context, came = f"closed-{tmp_path.name}", asyncio.Event()

    async def progress(_: float, __: float | None, ___: str | None) -> None:
        came.set()

    counter = PlainAgent(http, fleet.gateways[1], "counter")
    async with client(fleet.gateways[0]) as one:
        arguments = {"message": "1000 100", "context": context}
        calling = asyncio.create_task(
            one.call_tool("counter", arguments, progress_callback=cast("ProgressFnT", progress))
        )
        await came.wait()
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)

        async def is_canceled() -> bool:
            [task] = (await counter.list(contextId=context)).json()["tasks"]
            return bool(task["status"]["state"] == "TASK_STATE_CANCELED")

        await eventually(is_canceled, "the task is canceled")


@REVISIONS
async def test_files_are_links_that_the_client_reads(
    fleet: Fleet, extra_worker: ServiceProcess, version: str
) -> None:
    assert extra_worker
    async with client(fleet.gateways[0], version) as one:

        async def read(result: CallToolResult) -> bytes:
            [link] = [part for part in result.content if isinstance(part, ResourceLink)]
            [content] = (await one.read_resource(link.uri)).contents
            assert isinstance(content, BlobResourceContents)
            return base64.b64decode(content.blob)

        for size in (12, 300_000):
            assert await read(await one.call_tool("filer", {"message": str(size)})) == b"x" * size
        stored = await read(await one.call_tool("filer", {"message": "picture"}))
        assert stored.startswith(b"\x89PNG")


ROLES = """
[[role]]
name = "echoes"
agents = ["echo"]
operations = ["read", "send"]
"""


@pytest.fixture(scope="module")
def secured(fleet_nats: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a gateway that knows Ann, who may do all, and Bob, who may talk to echo."""
    folder = tmp_path_factory.mktemp("secured")
    file = write(folder / "credentials.toml", ANN, LIMITED, head=ROLES)
    gateway, url = extra_services.gateway(folder, fleet_nats, HEADRACE_CREDENTIALS=str(file))
    with gateway:
        yield url


LIMITED = Person("acme", "bob", ("echoes",))


@pytest.fixture(scope="module")
def fleet_nats(stack: Any) -> str:  # noqa: ANN401  # the shared one
    """The URL of the shared stack's NATS."""
    return str(stack.dev()["nats_url"])


@REVISIONS
async def test_the_tools_are_the_agents_that_the_roles_permit(secured: str, version: str) -> None:
    found = dict[Person, set[str]]()
    for person in (ANN, LIMITED):
        async with client(secured, version, person.token) as one:
            found[person] = {tool.name for tool in (await one.list_tools()).tools}
    assert found[LIMITED] == {"echo"}
    assert found[ANN] > {"echo", "assistant", "counter"}


@pytest.mark.parametrize("era", ["modern", "old"])
async def test_the_javascript_clients_call_and_answer(
    fleet: Fleet, extra_worker: ServiceProcess, era: str
) -> None:
    assert extra_worker
    counted = await _javascript(era=era, url=fleet.gateways[0], agent="counter", text="3 1")
    assert {"echo", "counter", "asker"} <= set(counted["tools"])
    assert ("".join(counted["pieces"]), counted["result"]["isError"]) == ("1 2 3 ", False)
    asked = await _javascript(era=era, url=fleet.gateways[1], agent="asker", text="x", answer="Zoe")
    assert asked["questions"] == ["Who are you?"]
    assert asked["result"]["structuredContent"]["text"] == "Hello, Zoe!"


async def test_a_client_reconnects_by_itself_to_another_gateway(
    fleet: Fleet, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    gateway, url = extra_services.gateway(tmp_path, fleet.nats_url)
    ports = [int(one.rpartition(":")[2]) for one in (url, fleet.gateways[0])]
    counter, context = PlainAgent(http, fleet.gateways[0], "counter"), f"front-{tmp_path.name}"

    async def counts() -> bool:
        tasks = (await counter.list(contextId=context, includeArtifacts=True)).json()["tasks"]
        return any("artifacts" in task for task in tasks)

    with gateway:
        async with Front(ports) as front:
            order: Json = {"url": front.url, "agent": "counter", "text": "40 100"}
            calling = asyncio.create_task(_javascript(context=context, **order))
            await eventually(counts, "the agent counts")
            gateway.kill()
            found = await calling
    whole = "".join(f"{number} " for number in range(1, 41))
    assert found["result"]["structuredContent"]["text"] == whole
    assert "".join(found["pieces"]) == whole


async def test_a_task_of_the_previous_revision_is_followed_to_its_result(
    fleet: Fleet, extra_worker: ServiceProcess
) -> None:
    assert extra_worker
    order: Json = {"url": fleet.gateways[0], "agent": "asker", "text": "x", "answer": "Zoe"}
    found = await _javascript(task=True, **order)
    assert found["result"]["structuredContent"]["text"] == "Hello, Zoe!"
    assert found["statuses"][-1] == "result"


async def test_a_cancel_of_an_ended_task_is_refused_in_the_previous_revision(
    fleet: Fleet, http: httpx.AsyncClient, extra_worker: ServiceProcess
) -> None:
    assert extra_worker

    async def asked(method: str, **params: object) -> Json:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        found: Json = (await http.post(f"{fleet.gateways[0]}/mcp", json=body)).json()
        return found

    begun = await asked("tools/call", name="asker", arguments={"message": "x"}, task={})
    task = begun["result"]["task"]["taskId"]
    assert (await asked("tasks/cancel", taskId=task))["result"]["status"] == "cancelled"
    assert (await asked("tasks/cancel", taskId=task))["error"]["code"] == INVALID_PARAMS


@in_soak(shown_by="e2e/test_door_mcp.py::test_the_javascript_clients_call_and_answer")
@pytest.mark.timeout(600)
def test_the_inspectors_command_line_lists_the_agents_and_calls_one(fleet: Fleet) -> None:
    javascript.install(INSPECTOR)
    listed = inspected(fleet, "tools/list")
    assert {"echo", "counter"} <= {one["name"] for one in listed["tools"]}
    answered = inspected(fleet, "tools/call", "--tool-name", "echo", "--tool-arg", "message=hello")
    assert [one["text"] for one in answered["content"]] == ["hello"]


def inspected(fleet: Fleet, method: str, *more: str) -> dict[str, Any]:
    """Return what the inspector prints of a request to a gateway."""
    command = [
        str(INSPECTOR / "node_modules/.bin/mcp-inspector"),
        "--cli",
        f"{fleet.gateways[0]}/mcp",
    ]
    options = ["--transport", "http", "--method", method, *more]
    done = subprocess.run([*command, *options], capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr.decode()
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


async def test_an_echo_over_a2a_loads_nothing_of_the_door(
    fleet: Fleet, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    gateway, url = extra_services.gateway(tmp_path, fleet.nats_url, **PROFILED)
    gateway.anew = True

    def is_loaded() -> bool:
        imports = gateway.log.read_text()
        assert "headrace_gateway.protocols.mcp.routes" in imports
        return "headrace_gateway.protocols.mcp.endpoint" in imports or "mcp_types" in imports

    with gateway:
        sent = await PlainAgent(http, url, "echo").send("hello")
        assert sent.json()["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        assert not is_loaded()
        async with client(url) as one:
            assert text_of(await one.call_tool("echo", {"message": "hello"})) == "hello"
        assert is_loaded()


async def test_the_page_shows_a_program_that_runs(fleet: Fleet) -> None:
    [program] = blocks(ROOT / "docs" / "mcp.md", "python")
    code = program.code.replace("http://127.0.0.1:8080", fleet.gateways[0])
    run = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=PIPE, stderr=PIPE)
    said, failed = await run.communicate()
    assert run.returncode == 0, failed.decode()
    assert said.decode().splitlines()[-1] == "Hello"


async def _javascript(**order: Any) -> Json:  # noqa: ANN401  # JSON
    await asyncio.to_thread(javascript.install, DOORS)
    found: Json = await asyncio.to_thread(javascript.run, "mcp.mjs", order, DOORS)
    return found
