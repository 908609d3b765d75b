"""All code of AG-UI's 0.x documents, taken from them and run, or listed with a reason.

`DIFFERENCES` says what is changed of it. Node runs what clients do, with the official
client; the TypeScript compiler and pydantic hold what our gateway says and takes to the documents'
types. `docs/agui-lines.md` is written from here: `python -m tests.e2e.test_agui_documents`.
"""

import __future__

import asyncio
import contextlib
import io
import json
import re
import typing
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import uuid4

import ag_ui.core
import httpx
import pytest
from ag_ui.core.types import ConfiguredBaseModel
from pydantic import BaseModel, Field, TypeAdapter

from headrace.model.events import Json
from headrace.model.run_ids import own_id
from tests.support import javascript
from tests.support.agui_documents import Block, blocks, needed
from tests.support.event_stream import all_frames
from tests.support.fleet import Fleet
from tests.support.plain_http import NO_TLS
from tests.support.service_process import ServiceProcess

PAGE = Path(__file__).parents[2] / "docs/agui-lines.md"

TESTS = {
    r"typescript (const (agent|clonedAgent)|interface AgentConfig)": (
        "test_the_official_client_is_answered"
    ),
    r"Accessing message|agent\.messages\);": "test_the_official_client_is_answered",
    r"Accessing agent state|agent\.state\.|case EventType": "test_state_is_read_as_it_changes",
    r"const (confirmAction|userConfirmationTool)|concepts/tools .*\{(?!EventType|result)": (
        "test_tools_are_called"
    ),
    r"const openaiMessages": "test_messages_become_openais",
    r"const EventSchemas": "test_schemas_parse_what_is_sent",
    r"concepts/messages .*(\{|Conversation)|concepts/tools .*\{result": "test_messages_are_taken",
    r"concepts/tools .*\{EventType": "test_a_streamed_call_has_these_fields",
    r"concepts/state json": "test_state_and_patches_are_applied",
    r"(?<!architecture) typescript (interface|type|enum) |architecture .*interface BaseEvent": (
        "test_what_is_sent_and_received_is_of_these_types"
    ),
    r"sdk/python/core/\w+ python (?!from)": "test_python_reads_what_is_sent_and_received",
    r"sdk/python/encoder/overview (python|text)": "test_pythons_encoder_writes_our_frames",
}
"""Which test runs a block, by a pattern that its page and name have."""

SETS_UP = "Sets up another project or a package; our tests install what they need."
REASONS = {
    r" mermaid ": "A picture.",
    r" bash ": SETS_UP,
    r"json \{@ag-ui/openai\}": SETS_UP,
    r"const (menu|agents)Integrations": "Lists an agent in AG-UI's own demo application.",
    r"class (My|Custom|Simple|OpenAI)Agent|architecture .*interface type": (
        "An agent, not a client: it emits its events itself and sends no requests to a server."
    ),
    r"agentic_chat_endpoint": (
        "Another server, whose indentation the document has lost. Such a server is an agent here: "
        "`tests/integration/worker/adapters/test_ag_ui.py`."
    ),
    r"tool_node": (
        "A piece of an agent, with names that it does not define. State of LangGraph's nodes: "
        "`tests/integration/worker/adapters/test_langgraph.py`."
    ),
    r"jsx In the frontend|tsx const confirmed": (
        "A hook of CopilotKit's React package, with functions of the reader's own application. "
        "CopilotKit's chat: `tests/e2e/test_copilotkit_react.py`."
    ),
    r"core/overview python from": "Not code: `import ...`.",
}
"""What is not run, by such a pattern, and why."""

NOT_MET = """
- `runAgent(…).subscribe(…)`: `runAgent` returns a promise, and not an Observable, in the clients
  that the tests install (1.0.0, 0.0.59, 0.0.53) and in the oldest published one (0.0.27).
- `tools: [...]` and `context: [...]` are not JavaScript.
- The types of `concepts` and `sdk` know five roles and sixteen events; what else is said (roles
  `activity` and `reasoning`, events of 1.0) is not held to them, but to 1.0's own models.
- The copy of the documents has no line breaks and no type arguments.
"""

DIFFERENCES = """
- Line breaks are restored.
- Addresses are the gateway's, and a client that is made without one gets it.
- `runAgent` returns an Observable of the official client's events.
- `[...]` is run as `[]`.
- Names that a block uses but does not define, such as `agent`, `event` and `z`, are given to it.
- Values are held to the documents' types without messages of roles and events of types that these
  do not have. An event's `type` is written as a member of `EventType`. Fields beside those of a
  type are allowed.
"""


def runner_of(block: Block) -> tuple[str, str]:
    """Return the test that runs a block and "", or "" and the reason why none does."""
    name = f"{block.page} {block.name}"
    for pattern, reason in REASONS.items():
        if re.search(pattern, name):
            return "", reason
    for pattern, test in TESTS.items():
        if re.search(pattern, name):
            return test, ""
    raise AssertionError(f"{name} is neither run nor listed")


def run_by(test: str) -> list[Block]:
    """Return the blocks that a test runs."""
    return [one for one in blocks() if runner_of(one)[0] == test]


def named(name: str, page: str = "concepts/") -> Block:
    """Return the only block that has that name."""
    [found] = [one for one in blocks() if one.name == name and one.page.startswith(page)]
    return found


def page() -> str:
    """Return the page that lists every block with its test or reason."""
    head = (
        "# AG-UI's 0.x documents, block by block\n\n"
        "Written by `tests/e2e/test_agui_documents.py`, which takes the code from the documents\n"
        f"and runs it, with these differences:\n{DIFFERENCES}"
    )
    tables = [
        f"\n## `{page}`\n\n| block | test, or why there is none |\n|---|---|\n"
        + "".join(f"| `{one.name}` | {_ran(one)} |\n" for one in blocks() if one.page == page)
        for page in dict.fromkeys(one.page for one in blocks())
    ]
    return f"{head}{''.join(tables)}\n## Not met as it stands\n{NOT_MET}"


def _ran(block: Block) -> str:
    test, reason = runner_of(block)
    return f"`{test}`" if test else reason


@needed
def test_the_page_lists_every_block() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


def test_each_test_of_the_page_is_one_of_this_module() -> None:
    listed = re.findall(r"`(test_\w+)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(listed) > 100
    assert {*listed} == {*TESTS.values()} <= globals().keys()
    elsewhere = re.findall(r"`(tests/[\w/]+\.py)`", PAGE.read_text(encoding="utf-8"))
    assert len(elsewhere) > 3
    assert [one for one in elsewhere if not (PAGE.parents[1] / one).is_file()] == []


def test_a_run_is_a_promise_in_every_client_that_the_tests_install() -> None:
    javascript.install(javascript.FOLDER)
    clients = sorted((javascript.FOLDER / "node_modules/@ag-ui").glob("client*"))
    declared = [(one / "dist/index.d.ts").read_text(encoding="utf-8") for one in clients]
    returned = [{*re.findall(r"^ *runAgent\(.*\): (\w+)<", one, re.MULTILINE)} for one in declared]
    assert returned == [{"Promise"}] * 3


@pytest.fixture
def url(fleet: Fleet, extra_worker: ServiceProcess) -> str:
    """Where the agents are."""
    assert extra_worker
    return f"{fleet.gateways[0]}/v1/agents"


# What clients do.

GREETING = "hello there"
ANSWER = "You said 2 words: hello there"


def order(block: Block, url: str, agent: str = "assistant", **more: Any) -> Json:  # noqa: ANN401
    code = block.lines.replace("[...]", "[]")
    return {"code": code, "url": f"{url}/{agent}/ag-ui", **more}


type InNode = Callable[..., Awaitable[list[Json]]]


@pytest.fixture(scope="module")
def in_node() -> Iterator[InNode]:
    """Return what became of each order."""
    with javascript.Script("agui_documents.mjs") as script:

        async def ran(*orders: Json) -> list[Json]:
            answers: list[Json] = await asyncio.to_thread(script.run, [*orders])
            return answers

        yield ran


async def valued(in_node: InNode, found: list[Block]) -> list[Any]:
    """Return the values that blocks write."""
    wanted = ["documented"]
    return [
        one["found"]["documented"]
        for one in await in_node(
            *(
                {"code": f"const documented = {one.lines.rpartition('\n;')[2]}", "wanted": wanted}
                for one in found
            )
        )
    ]


def deltas(run: Json) -> str:
    return "".join(one["delta"] for one in run["told"] if one["type"] == "TEXT_MESSAGE_CONTENT")


async def test_the_official_client_is_answered(url: str, in_node: InNode) -> None:
    found = run_by("test_the_official_client_is_answered")
    first, history, second, configured, cloned, architecture = found
    clone = order(cloned, url, given={}, before=GREETING, wanted=["kept"])
    clone["code"] += "\nconst kept = clonedAgent.messages"
    ran = await in_node(
        order(first, url, message=GREETING),
        order(history, url, given={}, before=GREETING, message="and again"),
        order(second, url),
        order(configured, url, message=GREETING),
        clone,
        order(architecture, url, message=GREETING),
    )
    assert [one["told"][-1]["type"] for one in ran] == ["RUN_FINISHED"] * 6
    assert [deltas(ran[at]) for at in (0, 3)] == [ANSWER] * 2
    assert deltas(ran[5]) == f"You said 0 words: {ANSWER}", "it runs without a message first"
    assert written_in(first, *ran[0]["clients"][0]["headers"].values())
    [shown] = ran[1]["logged"][0]
    assert shown[0]["content"] == GREETING
    *_, pushed, _ = ran[1]["inputs"][-1]["messages"]
    assert written_in(history, pushed["id"], pushed["content"])
    output = "".join(line[1] for line in ran[2]["logged"] if line[0] == "Content:")
    [asked] = ran[2]["inputs"][0]["messages"]
    assert output == f"You said {len(asked['content'].split())} words: {asked['content']}"
    assert written_in(second, asked["content"], *ran[2]["logged"][-1], ran[2]["inputs"][0]["runId"])
    client, sent = ran[3]["clients"][0], ran[3]["inputs"][0]
    assert written_in(configured, client["agentId"], client["description"], sent["threadId"])
    assert written_in(configured, *sent["state"].values())
    assert sent["messages"][0]["role"] == "system"
    assert ran[4]["found"]["kept"] == ran[4]["messages"] != []
    assert written_in(architecture, *ran[5]["logged"][0], ran[5]["clients"][0]["threadId"])


def written_in(block: Block, *values: str) -> bool:
    """Return whether the block has all these strings; there is one at least."""
    return values != () and all(f'"{value}"' in block.code for value in values)


async def test_state_is_read_as_it_changes(url: str, in_node: InNode) -> None:
    shown, reduced = run_by("test_state_is_read_as_it_changes")
    given = {"initialState": {"preferences": {"theme": "dark"}, "count": 1}}
    before = json.dumps([{"op": "add", "path": "/preferences/size", "value": 2}])
    [ran] = await in_node(order(shown, url, "patcher", given=given, before=before))
    assert ran["logged"][0] == [{"theme": "dark", "size": 2}]
    assert [line[0] for line in ran["logged"][1:]] == ["New state:"]
    patches = [one for one in ran["told"] if one["type"] == "STATE_DELTA"]
    assert len(patches) == 2
    code = f"(() => {{ switch (event.type) {{ {reduced.lines} }} }})();"
    applied = {
        "code": code,
        "values": {"event": patches[0], "state": given["initialState"]},
    }
    [ran] = await in_node(applied)
    assert ran["calls"] == [
        ["emitUpdate", {"state": {"preferences": {"theme": "dark", "size": 2}, "count": 1}}]
    ]


async def test_tools_are_called(url: str, in_node: InNode) -> None:
    *running, confirm, fetch, navigate, generate = run_by("test_tools_are_called")
    tools = await valued(in_node, [confirm, fetch, navigate, generate])
    requests = [order(one, url, "caller", given={}) for one in running]
    given = {"code": f"agent.runAgent({{ tools: {json.dumps(tools)} }})", "given": {}}
    ran = await in_node(*requests, {**given, "url": f"{url}/caller/ag-ui"})
    called = [
        [(one["toolCallName"]) for one in each["told"] if one["type"] == "TOOL_CALL_START"]
        for each in ran
    ]
    assert called == [["confirmAction"]] * 2 + [[tool["name"] for tool in tools]]
    arguments = [one["delta"] for one in ran[2]["told"] if one["type"] == "TOOL_CALL_ARGS"]
    required = [tool["parameters"]["required"] for tool in tools]
    assert [list(json.loads(one)) for one in arguments] == required
    pending = [one["told"][-1]["outcome"]["pendingToolCallIds"] for one in ran]
    assert [len(one) for one in pending] == [1, 1, 4]


async def test_messages_become_openais(url: str, in_node: InNode) -> None:
    [block] = run_by("test_messages_become_openais")
    [held] = await in_node(
        {"code": "", "url": f"{url}/assistant/ag-ui", "given": {}, "message": GREETING}
    )
    wanted, values = ["openaiMessages"], {"agUiMessages": held["messages"]}
    [ran] = await in_node({"code": block.lines, "wanted": wanted, "values": values})
    user, caller, answer = ran["found"]["openaiMessages"]
    assert user == {"role": "user", "content": GREETING}
    [call] = caller["tool_calls"]
    assert (call["type"], call["function"]["name"]) == ("function", "count_words")
    assert json.loads(call["function"]["arguments"]) == {"text": GREETING}
    assert answer == {"role": "assistant", "content": ANSWER}


async def test_messages_are_taken(url: str, in_node: InNode) -> None:
    caller, result, conversation, answered = await valued(
        in_node, run_by("test_messages_are_taken")
    )
    histories = [[caller, result], conversation, []]
    ran = await in_node(
        *(
            {
                "code": "",
                "url": f"{url}/assistant/ag-ui",
                "given": {"initialMessages": history},
                "message": GREETING,
            }
            for history in histories
        )
    )
    assert [deltas(one) for one in ran] == [ANSWER] * 3
    kept = [one["messages"][: len(history)] for one, history in zip(ran, histories, strict=True)]
    assert kept == histories
    tools = await valued(in_node, run_by("test_tools_are_called")[2:3])
    code = f"""
        agent.runAgent({{ tools: {json.dumps(tools)} }}).subscribe({{ complete: () => {{
          const toolCallId = agent.messages.at(-1).toolCalls[0].id;
          agent.messages.push({{ ...{json.dumps(answered)}, toolCallId }});
          agent.runAgent();
        }} }});
    """
    [answering] = await in_node({"code": code, "url": f"{url}/caller/ag-ui", "given": {}})
    assert deltas(answering) == "true"


async def test_state_and_patches_are_applied(url: str, in_node: InNode) -> None:
    state: Json = {
        "user": {},
        "conversation_state": "running",
        "temporary_data": 1,
        "pending_items": ["first", "second"],
    }
    *patches, proposal = (
        json.loads(one.code) for one in run_by("test_state_and_patches_are_applied")
    )
    ran = await in_node(
        *(
            {
                "code": "",
                "url": f"{url}/patcher/ag-ui",
                "given": {"initialState": given},
                "message": json.dumps(patch),
            }
            for given, patch in [*((state, [patch]) for patch in patches), (proposal, [])]
        )
    )
    assert [one["state"] for one in ran] == [
        {**state, "user": {"preferences": {"theme": "dark"}}},
        {**state, "conversation_state": "paused"},
        {key: value for key, value in state.items() if key != "temporary_data"},
        {**state, "pending_items": ["second"], "completed_items": "first"},
        proposal,
    ]
    assert json.loads(deltas(ran[-1])) == proposal


# What is said and taken, by the documents' types.


@dataclass(frozen=True, slots=True)
class Recorded:
    """What went over the wire."""

    events: list[Json]
    """As our gateway says them."""
    inputs: list[Json]
    """As the official client sends them, and our gateway takes them."""

    def of(self, kind: str) -> list[Json]:
        """Return the events of a type, held to what the documents know of it."""
        found = [one for one in self.events if one["type"] == kind]
        if kind == "MESSAGES_SNAPSHOT":
            return [{**one, "messages": known(one["messages"])} for one in found]
        return found

    @property
    def messages(self) -> list[Json]:
        """The messages that were sent, and those that were told."""
        messages = [message for one in self.of("MESSAGES_SNAPSHOT") for message in one["messages"]]
        return [*messages, *(message for one in self.inputs for message in known(one["messages"]))]

    @property
    def calls(self) -> list[Json]:
        return [call for one in self.messages for call in one.get("toolCalls", [])]


ROLES = ("developer", "system", "assistant", "user", "tool")


def known(messages: list[Json]) -> list[Json]:
    return [one for one in messages if one["role"] in ROLES]


@pytest.fixture(scope="module")
def recordings() -> list[Recorded]:
    """What was recorded for an earlier test of this module."""
    return []


@pytest.fixture
async def recorded(url: str, recordings: list[Recorded], in_node: InNode) -> Recorded:
    """Runs that say everything, and one that is joined when it is over."""
    if not recordings:
        recordings.append(await record(url, in_node))
    return recordings[0]


async def record(url: str, in_node: InNode) -> Recorded:
    tool = {"name": "paint", "description": "Paints.", "parameters": TOOL_PARAMETERS}
    history = [
        {"id": "1", "role": "system", "content": "Be kind.", "name": "house"},
        {"id": "2", "role": "developer", "content": "Be brief.", "name": "author"},
        {"id": "3", "role": "user", "content": GREETING, "name": "ann"},
    ]
    body = {
        "tools": [tool],
        "context": [{"description": "place", "value": "Oslo"}],
        "forwardedProps": {"n": 1},
    }
    code = f"agent.runAgent({json.dumps(body)})"
    given = {"initialMessages": history, "initialState": {"n": 1}}
    [ran] = await in_node(
        {"code": code, "url": f"{url}/assistant/ag-ui", "given": given, "message": GREETING}
    )
    events = [
        *await said(f"{url}/everything/ag-ui", "everything, please"),
        *await said(f"{url}/everything/ag-ui", "fail"),
        *await said(f"{url}/assistant/ag-ui/connect", thread=ran["inputs"][0]["threadId"]),
    ]
    return Recorded(events, ran["inputs"])


TOOL_PARAMETERS = {"type": "object", "properties": {}, "required": ["colour"]}


async def said(url: str, text: str = "", thread: str = "") -> list[Json]:
    """Return a run's events as they are sent."""
    message = {"id": str(uuid4()), "role": "user", "content": text}
    body = {
        "threadId": thread or str(uuid4()),
        "runId": str(uuid4()),
        "state": {},
        "messages": [message] if text else [],
        "tools": [],
        "context": [],
        "forwardedProps": {},
    }
    async with (
        httpx.AsyncClient(timeout=60, verify=NO_TLS) as http,
        http.stream("POST", url, json=body) as response,
    ):
        return [frame.json for frame in await all_frames(response)]


def samples(name: str, code: str, recorded: Recorded) -> list[Any]:
    """Return all of what was recorded that is of the type that `code` declares."""
    events, inputs = recorded.events, recorded.inputs
    if name.endswith("Event") and (kind := re.search(r"EventType\.(\w+)", code)):
        return recorded.of(kind[1])
    if name.endswith("Message") and (role := re.search(r'role: (?:Literal\[)?"(\w+)"', code)):
        return [one for one in recorded.messages if one["role"] == role[1]]
    found: dict[str, list[Any]] = {
        "BaseEvent": [one for one in events if one["type"] in EVENTS],
        "Event": [one for kind in EVENTS for one in recorded.of(kind)],
        "EventType": sorted({one["type"] for one in events} & {*EVENTS}),
        "BaseMessage": recorded.messages,
        "Message": recorded.messages,
        "Role": sorted({one["role"] for one in recorded.messages}),
        "ToolCall": recorded.calls,
        "FunctionCall": [one["function"] for one in recorded.calls],
        "JsonPatchOperation": [op for one in recorded.of("STATE_DELTA") for op in one["delta"]],
        "RunAgentInput": [{**one, "messages": known(one["messages"])} for one in inputs],
        "Tool": [tool for one in inputs for tool in one["tools"]],
        "Context": [context for one in inputs for context in one["context"]],
        "State": [one["state"] for one in inputs],
    }
    return found[name]


EVENTS = (
    "TEXT_MESSAGE_START",
    "TEXT_MESSAGE_CONTENT",
    "TEXT_MESSAGE_END",
    "TOOL_CALL_START",
    "TOOL_CALL_ARGS",
    "TOOL_CALL_END",
    "STATE_SNAPSHOT",
    "STATE_DELTA",
    "MESSAGES_SNAPSHOT",
    "RAW",
    "CUSTOM",
    "RUN_STARTED",
    "RUN_FINISHED",
    "RUN_ERROR",
    "STEP_STARTED",
    "STEP_FINISHED",
)
"""The events that the documents have types for."""


def declared(block: Block) -> str:
    """Return the name that a block declares."""
    return block.name.removesuffix(f" ({block.name[-2]})").split()[-1]


def typescript(value: Any) -> str:  # noqa: ANN401
    """Write a value; an event's type is one of the enumeration, and not a string."""
    written = json.dumps(value)
    is_event = isinstance(value, dict) and value.get("type") in EVENTS
    kind = value["type"] if is_event else value if value in EVENTS else ""
    return written.replace(f'"{kind}"', f"EventType.{kind}", 1) if kind else written


MUTABLE = """
type Mutable<T> = T extends object ? { -readonly [K in keyof T]: Mutable<T[K]> } : T;
declare function as<T>(value: T): void;
declare const mutable: <const T>(value: T) => Mutable<T>;
"""
"""A value that is passed on is not held to have no more fields than its type."""


def module(block: Block, values: list[Any]) -> str:
    """Return a module of the documents' types, in which the values are of the block's type."""
    name = declared(block)
    others = [
        one.lines
        for one in run_by("test_what_is_sent_and_received_is_of_these_types")
        if one.page.startswith("sdk/js") and declared(one) != name
    ]
    operation = named("typescript interface JsonPatchOperation").lines
    others += [operation] if name == "StateDeltaEvent" else []
    checks = [f"as<{name}>(mutable({typescript(value)}));" for value in values]
    return "\n".join(["export {};", *others, block.lines, MUTABLE, *checks])


def checks_of_the_check() -> dict[str, str]:
    """Return modules with values without a field, of another type, and with one field more."""
    block = named("typescript interface ToolCallEndEvent")
    return {
        "missing.ts": module(block, [{"type": "TOOL_CALL_END"}]),
        "another.ts": module(block, [{"type": "TOOL_CALL_END", "toolCallId": 3}]),
        "right.ts": module(block, [{"type": "TOOL_CALL_END", "toolCallId": "3", "more": 1}]),
    }


@needed
async def test_what_is_sent_and_received_is_of_these_types(recorded: Recorded) -> None:
    found = run_by("test_what_is_sent_and_received_is_of_these_types")
    values = [samples(declared(one), one.code, recorded) for one in found]
    assert [one.name for one, each in zip(found, values, strict=True) if not each] == []
    assert len(values[[declared(one) for one in found].index("EventType")]) == len(EVENTS)
    modules = {
        f"{at}.ts": module(one, each)
        for at, (one, each) in enumerate(zip(found, values, strict=True))
    }
    modules |= checks_of_the_check()
    complaints = await asyncio.to_thread(javascript.run, "typecheck.mjs", modules)
    assert len(complaints) == len(found) + 3 > 40
    wrong = {name: output for name, output in complaints.items() if output}
    assert [*wrong] == ["missing.ts", "another.ts"], wrong


async def test_a_streamed_call_has_these_fields(recorded: Recorded, in_node: InNode) -> None:
    documented = await valued(in_node, run_by("test_a_streamed_call_has_these_fields"))
    assert [one["type"] for one in documented] == [
        "TOOL_CALL_START",
        *["TOOL_CALL_ARGS"] * 3,
        "TOOL_CALL_END",
    ]
    streamed = [
        one for one in recorded.events if own_id(one.get("toolCallId", "")) == "call-streamed"
    ]
    for one in documented:
        ours = [event for event in streamed if event["type"] == one["type"]]
        assert ours, one
        missing = one.keys() - ours[0].keys() - {"parentMessageId"}
        assert missing == set(), one
    pieces = [
        [one["delta"] for one in each if one["type"] == "TOOL_CALL_ARGS"]
        for each in (documented, streamed[:4])
    ]
    assert [len(each) > 1 for each in pieces] == [True, True]
    assert [list(json.loads("".join(each))) for each in pieces] == [["action"], ["text"]]


async def test_schemas_parse_what_is_sent(recorded: Recorded, in_node: InNode) -> None:
    [block] = run_by("test_schemas_parse_what_is_sent")
    events = [one for one in recorded.events if one["type"] in EVENTS]
    code = f"{block.lines}\nconst parsed = events.map((event) => EventSchemas.parse(event).type);"
    [ran] = await in_node({"code": code, "wanted": ["parsed"], "values": {"events": events}})
    assert ran["found"]["parsed"] == [one["type"] for one in events]
    assert {*ran["found"]["parsed"]} == {*EVENTS}


@needed
async def test_python_reads_what_is_sent_and_received(recorded: Recorded) -> None:
    found = run_by("test_python_reads_what_is_sent_and_received")
    read = list[str]()
    for page in dict.fromkeys(one.page for one in found):
        types = python_types([one for one in found if one.page == page])
        for block in found:
            if block.page == page:
                name = block.name.split()[-1]
                values = samples(name, block.code, recorded)
                adapter = TypeAdapter(types[name])
                read += [block.name for value in values[:20] if adapter.validate_python(value)]
    assert {*read} == {one.name for one in found}


def execute(block: Block, scope: dict[str, Any]) -> None:
    """Execute a block of Python; its annotations may name what comes later."""
    late = __future__.annotations.compiler_flag
    code = compile(block.lines, block.name, "exec", late, dont_inherit=True)
    exec(code, scope)  # noqa: S102  # code of the documents


def python_types(found: list[Block]) -> dict[str, Any]:
    """Return what the blocks of a page define; they name what later ones define."""
    scope: dict[str, Any] = {
        **vars(ag_ui.core),
        **{name: getattr(typing, name) for name in ("Annotated", "Any", "List", "Literal")},
        **{name: getattr(typing, name) for name in ("Optional", "Union")},
        "BaseMessage": ag_ui.core.types.BaseMessage,
        "ConfiguredBaseModel": ConfiguredBaseModel,
        "Enum": Enum,
        "Field": Field,
        "__name__": __name__,
    }
    for block in found:
        execute(block, scope)
    models = [one for one in scope.values() if isinstance(one, type) and issubclass(one, BaseModel)]
    for model in models:
        if model.__module__ == __name__:
            model.model_rebuild(force=True, _types_namespace=scope)
    return scope


async def test_pythons_encoder_writes_our_frames(recorded: Recorded) -> None:
    using, example, frame = run_by("test_pythons_encoder_writes_our_frames")
    event = recorded.of("TEXT_MESSAGE_CONTENT")[0]
    scope: dict[str, Any] = {"event": ag_ui.core.TextMessageContentEvent.model_validate(event)}
    execute(using, scope)
    assert re.fullmatch(r"data: \{.+\}\\n\\n", frame.code)
    assert scope["encoded_event"].startswith("data: ")
    assert json.loads(scope["encoded_event"].removeprefix("data: ")) == event
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        execute(example, {})
    shown = json.loads(printed.getvalue().removeprefix("data: "))
    assert shown.keys() <= event.keys()
    assert shown["type"] == "TEXT_MESSAGE_CONTENT"
    assert written_in(example, shown["delta"])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
