"""Functions, listeners, programs and commands of Hector's documents, taken from them and run.

Addresses, agents and ids are replaced, and a message is added where a document has none. Node runs
JavaScript, curl its commands, the official client grpcurl's request. `docs/hector-lines.md` is
written from here: `python -m tests.e2e.test_hector_documents`.
"""

import asyncio
import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc.aio
import httpx
import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2, a2a_v0_3_pb2_grpc
from google.protobuf.json_format import Parse

from headrace.model.events import Json
from tests.support import hector_documents, javascript
from tests.support.clients.websocket import socket_to
from tests.support.event_stream import all_frames
from tests.support.fleet import Fleet
from tests.support.hector_documents import Unit, needed, of, units
from tests.support.plain_http import NO_TLS
from tests.support.service_process import ServiceProcess

PAGE = Path(__file__).parents[2] / "docs/hector-lines.md"
CONSOLE = Path(__file__).parents[2] / "services/console"
"""Where esbuild is, which the script takes to run JSX."""
AGENTS = ("assistant", "everything")
"""A demo agent, and one that says everything."""

TESTS = {
    "curl ": "test_a_command_of_curl_is_answered",
    "grpcurl ": "test_grpcurls_request_is_answered",
    "import requests": "test_python_reads_its_stream",
    "new WebSocket": "test_the_websocket_prints_the_answer",
    "ws.onmessage": "test_the_websocket_prints_the_answer",
    "function AGUIChat": "test_the_react_component_draws_messages",
    "interface AGUIEvent": "test_the_react_component_draws_messages",
    "import React": "test_the_react_component_draws_messages",
    "class AGUIStateManager": "test_the_state_manager_takes_events",
    "function ": "test_functions_read_every_part",
    "new EventSource (2)": "test_the_examples_listeners_hear_all_that_they_name",
    "new EventSource": "test_the_guides_listeners_hear_all_that_they_name",
    "interface MessageState": "test_the_guides_listeners_hear_all_that_they_name",
    "const messageState": "test_the_guides_listeners_hear_all_that_they_name",
    "addEventListener ": "test_the_guides_listeners_hear_all_that_they_name",
}
"""Which test runs a unit, by how its name begins; numbered listeners are the example's."""

NOT_MET = """
- `GET …/message:stream` as it stands: it holds no message, and is refused with 400 that names
  `message`. With `?message=…` it streams.
- `new EventSource(url, {headers})`: browsers send no such headers, and the address has no
  message: `?message=…&format=agui`.
- Without `format`, REST, JSON-RPC and gRPC answer in A2A's own shapes, for A2A's clients; what goes
  over a WebSocket as a bare message is Hector's by its form.
- One document has gRPC on port 8080, the other one REST. `HEADRACE_HTTP_PORT` and
  `HEADRACE_GRPC_PORT` decide; `HEADRACE_EXTRA_HTTP_PORTS=8081,8082` adds the others.
- The metadata page shows events without the envelope that the longer document has around the same
  payloads; ours have it.
- The card's extension leaves out `required` where it is false: signed cards have no defaults.
- The React component looks its messages up by the id of a block, so it draws them without text,
  whoever sends the events.
- `AGUIStateManager` calls methods that its document does not have.
- Go code is of Hector's own packages, and `hector serve` is Hector's own program.
- Examples in JSON are not taken from the documents. Requests and responses are tested by
  `tests/integration/gateway/protocols/hector/test_shapes.py` and `test_codes.py`, parts and events
  by `tests/unit/gateway/protocols/hector/test_events.py`, a card's `security` by
  `tests/integration/gateway/server/auth/test_schemes.py`.
- `response.metadata` is the task's. It has `tokens_used`, `model` and `execution_time` if the agent
  reports its usage.
- Hector's built-in user interface: Headrace has [its own console](console.md).
"""
"""Lines that are not met as they stand, with the reason."""

SAYS = "everything, please"
ASKED = {"role": "ROLE_USER", "content": [{"text": SAYS}]}


def runner_of(unit: Unit) -> str:
    if unit.name.startswith("addEventListener ") and unit.name.endswith("(2)"):
        return TESTS["new EventSource (2)"]
    return next(test for begin, test in TESTS.items() if unit.name.startswith(begin))


def page() -> str:
    """Return the page that lists every unit with its test."""
    head = (
        "# Hector's documents, line by line\n\n"
        "Written by `tests/e2e/test_hector_documents.py`, which takes the code from the documents\n"
        "and runs it unchanged, except for addresses, agents, ids and messages.\n"
        "\nEach block of YAML loads as it stands, and keys without effect are warned of:\n"
        "`test_every_block_of_hectors_documents_loads_as_it_stands`\n"
        "in `tests/unit/worker/config/test_hector_files.py`.\n"
    )
    tables = [
        f"\n## `{document}`\n\n| section | line | test |\n|---|---|---|\n"
        + "".join(
            f"| {one.section} | `{one.name}` | `{runner_of(one)}` |\n"
            for one in units()
            if one.document == document
        )
        for document in hector_documents.DOCUMENTS
    ]
    return f"{head}{''.join(tables)}\n## Not met as it stands\n{NOT_MET}"


@needed
def test_the_page_lists_every_line_that_is_run() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


def test_files_that_the_page_names_exist() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)`", PAGE.read_text(encoding="utf-8"))
    assert len(named) > 4
    assert [one for one in named if not (PAGE.parents[1] / one).is_file()] == []


def test_each_line_of_the_page_names_a_test_of_this_module() -> None:
    listed = re.findall(r"`(test_\w+)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(listed) > 50
    assert {*listed} == {*TESTS.values()} <= globals().keys()


@pytest.fixture
def url(fleet: Fleet, extra_worker: ServiceProcess) -> str:
    """A gateway that knows both agents."""
    assert extra_worker
    return fleet.gateways[0]


def addressed(code: str, url: str, agent: str = "assistant") -> str:
    """Return `code` with our addresses and agent."""
    code = re.sub(r"http://localhost:\d+", url, code)
    code = re.sub(r"ws://localhost:\d+", url.replace("http", "ws"), code)
    return code.replace("/agents/assistant", f"/agents/{agent}").replace("{task_id}", "TASK")


async def run(program: str, *arguments: str) -> str:
    """Return what the program says; it ends well, in time."""
    process = await asyncio.create_subprocess_exec(
        program, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == 0, err.decode()
    return out.decode()


_NODE = javascript.Script("hector_documents.mjs")


@pytest.fixture(scope="module", autouse=True)
def node() -> Iterator[None]:
    """One process of Node for all that is run in a page."""
    with _NODE:
        yield


async def in_node(code: str, *, wanted: tuple[str, ...] = (), **order: Any) -> Json:  # noqa: ANN401
    """Run `code` in a page; return what it called and printed, and what is `wanted` of it."""

    def go() -> Json:
        javascript.install(CONSOLE)
        javascript.install(javascript.FOLDER)
        given = {"code": code, "wanted": list(wanted), "recorded": [], **order}
        found: Json = _NODE.run(given)
        return found

    return await asyncio.to_thread(go)


def joined(*found: Unit) -> str:
    return "\n".join(one.code for one in found)


# Commands.


def streamed(output: str, name: str) -> list[Json]:
    """Return the data of the events of that name; empty: of those without one."""
    frames = [frame.splitlines() for frame in output.strip().split("\n\n")]
    found = [dict(line.split(": ", 1) for line in frame) for frame in frames]
    return [json.loads(one["data"]) for one in found if one.get("event", "") == name]


def is_events(output: str) -> None:
    names = re.findall(r"^event: (.*)$", output, re.MULTILINE)
    assert names[:2] == ["task_start", "message_start"]
    assert names[-3:] == ["message_stop", "task_complete", "done"]
    kinds = {"thinking_delta", "tool_call_start", "tool_call_stop", "content_block_delta"}
    assert kinds < {*names}


def is_answer(output: str, text: str) -> None:
    answer = json.loads(output)
    answer = answer.get("result", answer)
    assert answer["response"]["content"][0]["text"].startswith(text)
    assert answer["response"]["role"] == "ROLE_ASSISTANT"
    assert answer["task_id"]


async def curl(unit: Unit, url: str, query: str = "") -> str:
    code = addressed(unit.code, url).partition(" | jq")[0]
    command = shlex.split(code.replace("\\\n", " "))
    joint = "&" if "?" in "".join(command) else "?"
    requests = [
        one + joint + query if query and one.startswith(url) else one for one in command[1:]
    ]
    return await run(javascript.program("curl"), "--silent", "--globoff", *requests)


async def test_a_command_of_curl_is_answered(url: str) -> None:
    commands = [one for one in units() if one.name.startswith("curl ")]
    assert len(commands) >= 10
    for unit in commands:
        await answered(unit, url)


async def answered(unit: Unit, url: str) -> None:
    """Check what one command is answered with, as it stands and in Hector's shapes."""
    output = await curl(unit, url)
    line = unit.name.removeprefix("curl ")
    if " as AG-UI" in line or "format=agui" in line:
        is_events(output)
    elif "message:send" in line or line == "/rpc":
        task = json.loads(output)
        assert task.get("result", task)["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        is_answer(await curl(unit, url, "format=hector"), "You said 1 word: Hello")
    elif "message:stream" in line and "-d" not in shlex.split(unit.code):
        assert "message" in json.loads(output)["error"]["message"]
        output = await curl(unit, url, "message=Hello&format=hector&done=1")
        assert output.endswith("data: [DONE]\n\n")
    elif "message:stream" in line:
        assert "task" in streamed(output, "")[0]
        output = await curl(unit, url, "format=hector")
        texts = [one["response"]["content"][0]["text"] for one in streamed(output, "message")]
        assert "".join(texts) == "You said 1 word: Hello"
        assert all(one["message"]["parts"] is not None for one in streamed(output, "message"))
        assert streamed(output, "done") == [{}]
    elif "tasks/" in line:
        assert json.loads(output)["error"]["code"] == 404
        await has_status(unit, url)
    elif line == "/.well-known/a2a":
        agents = json.loads(output)["agents"]
        assert {"id": "assistant", "url": "/v1/agents/assistant"}.items() <= agents_by_id(agents)
    else:
        card = json.loads(output)
        uris = [one["uri"] for one in card["capabilities"]["extensions"]]
        assert "https://ag-ui.org/protocol/v1" in uris
        modes = {"text/plain", "application/json", "application/x-agui-events"}
        assert modes <= {*card["defaultOutputModes"]}


def agents_by_id(agents: list[Json]) -> Any:  # noqa: ANN401 - a dict's items
    return {one["id"]: one for one in agents}["assistant"].items()


async def has_status(unit: Unit, url: str) -> None:
    async with httpx.AsyncClient(base_url=url, timeout=60, verify=NO_TLS) as http:
        sent = await http.post("/v1/agents/assistant/message:send", json={"message": ASKED})
    task = sent.json()["task"]["id"]
    real = Unit(unit.document, unit.section, unit.name, unit.code.replace("{task_id}", task))
    found = json.loads(await curl(real, url, "format=hector"))["task"]
    assert (found["id"], found["status"]) == (task, "completed")


async def test_grpcurls_request_is_answered(fleet: Fleet, url: str) -> None:
    assert url
    [unit] = of("hector-a2a", "grpcurl ")
    words = shlex.split(unit.code)
    agent = words[words.index("-H") + 1].partition(": ")
    request = Parse(words[words.index("-d") + 1], a2a_v0_3_pb2.SendMessageRequest())
    port = fleet.stack.processes("gateway")[0]["grpc_port"]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = a2a_v0_3_pb2_grpc.A2AServiceStub(channel)  # type: ignore[no-untyped-call] # generated
        metadata = ((agent[0], agent[2]),)
        task = (await stub.SendMessage(request, metadata=metadata, timeout=60)).task
    assert words[-1] == "a2a.v1.A2AService/SendMessage"
    assert task.status.state == a2a_v0_3_pb2.TASK_STATE_COMPLETED
    assert task.artifacts[0].parts[0].text == "You said 1 word: Hello"


@pytest.mark.parametrize("agent", AGENTS)
async def test_python_reads_its_stream(url: str, agent: str) -> None:
    beginning, whole = of("hector-agui", "import requests")
    code = addressed(beginning.code, url, agent) + "\nprint(response.status_code)"
    assert await run(sys.executable, "-c", code) == "200\n"
    output = await run(sys.executable, "-c", addressed(whole.code, url, agent))
    expected = {
        "assistant": ["\N{WRENCH} count_words\n", "You said 1 word: Hello"],
        "everything": [
            "\N{WRENCH} search\n",
            "\N{WRENCH} count\n",
            "Outer begins, ",
            "That is all.",
        ],
    }
    assert all(one in output for one in expected[agent]), output
    assert '{"count"' not in output


# Functions that read the parts of A2A's messages.

FUNCTIONS = ("isThinkingPart", "extractAGUIMetadata", "renderPart")
OF_ALL = ("extractTextFromParts", "extractThinkingFromParts", "extractToolCallsFromParts")


async def parts_over(transport: str, url: str, agent: str, prompt: str) -> list[Json]:
    """Return all parts that a client of ``format=hector`` gets for a message."""
    message = {"role": "ROLE_USER", "content": [{"text": prompt}]}
    where = f"/v1/agents/{agent}/"
    if transport == "sse":
        async with (
            httpx.AsyncClient(base_url=url, timeout=60, verify=NO_TLS) as http,
            http.stream(
                "POST", f"{where}message:stream?format=hector", json={"message": message}
            ) as answer,
        ):
            events = [frame.json for frame in await all_frames(answer)][:-1]
    else:
        async with socket_to(url, f"{where}stream") as socket:
            await socket.send({"id": 1, "message": message})
            events = [one for one in await socket.rest(1) if "message" in one]
    assert all(isinstance(one["response"]["content"][0]["text"], str) for one in events)
    return [part for one in events for part in one["message"]["parts"]]


@pytest.mark.parametrize("transport", ["sse", "websocket"])
async def test_functions_read_every_part(url: str, transport: str) -> None:
    found = await read_by_functions(await parts_over(transport, url, "everything", "fail"))
    assert found["extractThinkingFromParts"].replace("\n", "") == "First this, then that."
    text = found["extractTextFromParts"].replace("\n", "")
    assert "Outer begins, innerouter ends. ends" in text
    assert '{"text": ' not in text
    assert found["extractToolCallsFromParts"] == [
        {"id": "call-whole", "name": "search", "args": {"query": "words"}},
        {"id": "call-streamed", "name": "count", "args": {"text": "words"}},
    ]
    rendered = found["renderPart"]
    assert {kind for kind, _ in rendered} == {
        "renderThinkingBlock",
        "renderToolCall",
        "renderTextContent",
    }
    shown = [one for kind, one in rendered if kind != "renderToolCall"]
    assert all(isinstance(one, str) for one in shown)
    tools = [one for kind, one in rendered if kind == "renderToolCall"]
    assert [one.get("arguments") or one.get("content") or one["error"] for one in tools] == [
        {"query": "words"},
        {"text": "words"},
        {"found": 3},
        "too many",
    ]
    assert sum(found["isThinkingPart"]) >= 2
    named = [one for one in found["extractAGUIMetadata"] if one and one.get("toolName")]
    assert [(one["eventType"], one["toolName"]) for one in named] == [
        ("tool_call", "search"),
        ("tool_call", "count"),
    ]


async def test_functions_read_the_demo_agents_parts(url: str) -> None:
    found = await read_by_functions(await parts_over("sse", url, "assistant", "Hello"))
    assert found["extractTextFromParts"].replace("\n", "") == "You said 1 word: Hello"
    [call] = found["extractToolCallsFromParts"]
    assert (call["name"], call["args"]) == ("count_words", {"text": "Hello"})


async def read_by_functions(parts: list[Json]) -> Json:
    code = joined(*of("hector-agui-metadata", "function "), *functions_of_the_guide())
    output = await in_node(
        code,
        wanted=(*FUNCTIONS, *OF_ALL),
        parts=parts,
        of_each=FUNCTIONS,
        of_all=OF_ALL,
        recorded=["renderThinkingBlock", "renderToolCall", "renderTextContent"],
    )
    found: Json = output["result"]
    return found


def functions_of_the_guide() -> list[Unit]:
    return [one for one in of("hector-agui", "function ") if one.name.endswith(FUNCTIONS)]


@pytest.mark.parametrize(
    ("agent", "text"),
    [
        ("assistant", "You said 2 words: everything, please"),
        ("everything", "Outer begins, innerouter ends. endsThat is all."),
    ],
)
async def test_the_websocket_prints_the_answer(url: str, agent: str, text: str) -> None:
    code = joined(*of("hector-a2a", "new WebSocket"), *of("hector-a2a", "ws.onmessage"))
    output = await in_node(addressed(code, url, agent), wanted=("ws",), message={"message": ASKED})
    printed = [one for [one] in output["logged"]]
    assert printed
    assert "".join(printed) == text


# Pages that listen to events.

GUIDE = {
    "createMessageContainer": 1,
    "finalizeMessage": 1,
    "createContentBlock": 2,
    "appendToBlock": 2,
    "finalizeBlock": 1,
    "showToolCall": 3,
    "updateToolCall": 3,
    "showThinkingBlock": 2,
    "appendThinking": 2,
    "finalizeThinking": 1,
    "showTaskIndicator": 1,
    "updateTaskStatus": 2,
    "completeTask": 1,
    "showTaskError": 2,
}
"""What the guide's listeners call, with as many arguments."""
MAY_BE_MISSING = {"showToolCall": {2}, "updateToolCall": {1, 2}, "showThinkingBlock": {1}}
"""Arguments that an event may leave out: an input that streams, a result or an error."""


def events_url(code: str, url: str, agent: str, message: str) -> str:
    """Return `code`, whose EventSource asks with a message."""
    code = addressed(code, url, agent)
    request = httpx.QueryParams(message=message, format="agui")
    return code.replace("message:stream'", f"message:stream?{request}'")


async def received(url: str, agent: str, message: str) -> dict[str, list[list[Any]]]:
    """Return with what each function was called by the guide's listeners."""
    found = [one for one in of("hector-agui", "") if runner_of(one) == TESTS["new EventSource"]]
    code = events_url(joined(*found), url, agent, message)
    output = await in_node(code, wanted=("messageState",), recorded=list(GUIDE))
    calls: dict[str, list[list[Any]]] = {}
    for name, *given in output["calls"]:
        calls.setdefault(name, []).append(given)
    for name, given in calls.items():
        for each in given:
            missing = {at for at in range(GUIDE[name]) if each[at : at + 1] in ([], [None])}
            assert missing <= MAY_BE_MISSING.get(name, set()), (name, each)
    return calls


async def test_the_guides_listeners_hear_all_that_they_name(url: str) -> None:
    calls = await received(url, "everything", SAYS)
    assert calls.keys() == GUIDE.keys() - {"showTaskError"}
    texts = "".join(delta for _, delta in calls["appendToBlock"])
    assert "Outer begins, innerouter ends. ends" in texts
    assert "data:image/png;base64," in texts
    assert '"count"' not in texts
    kinds = [kind for _, kind in calls["createContentBlock"]]
    assert {"text", "code", "image", "file", "data"} == {*kinds}
    assert len({block for block, _ in calls["createContentBlock"]}) == len(kinds)
    assert [name for _, name, *_ in calls["showToolCall"]] == ["search", "count"]
    results = [(result, error) for _, result, error in calls["updateToolCall"]]
    assert results == [('{"found":3}', None), (None, "too many")]
    assert "".join(delta for _, delta in calls["appendThinking"]) == "First this, then that."
    assert [title for _, title in calls["showThinkingBlock"]] == ["Plan"]


async def test_the_guides_listeners_hear_why_a_task_failed(url: str) -> None:
    calls = await received(url, "everything", "fail")
    [[task, error]] = calls["showTaskError"]
    assert task
    assert "failed" in error
    assert "completeTask" not in calls


@pytest.mark.parametrize("agent", AGENTS)
async def test_the_examples_listeners_hear_all_that_they_name(url: str, agent: str) -> None:
    found = [one for one in of("hector-agui", "") if runner_of(one) == TESTS["new EventSource (2)"]]
    names = ["appendToMessage", "showToolIndicator", "renderThinking"]
    output = await in_node(events_url(joined(*found), url, agent, SAYS), recorded=names)
    assert {name for name, *_ in output["calls"]} == {*names}
    assert all(isinstance(one, str) for _, one in output["calls"])
    [started, completed] = [line for line, *_ in output["logged"]]
    assert (started, completed) == ("Message started:", "Task completed:")
    assert all(one for _, one in output["logged"])


async def test_the_react_component_draws_messages(url: str) -> None:
    names = ("import React", "interface AGUIEvent", "function AGUIChat")
    code = joined(*(unit for name in names for unit in of("hector-agui", name)))
    output = await in_node(events_url(code, url, "everything", SAYS), wanted=("AGUIChat",))
    [messages] = output["result"]["drawn"]["children"]
    [message] = messages
    assert message["properties"]["className"] == "message agent"


async def test_the_state_manager_takes_events() -> None:
    [unit] = of("hector-agui", "class AGUIStateManager")
    output = await in_node(unit.code, wanted=("AGUIStateManager",))
    assert output["result"] == {"state": None}


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
