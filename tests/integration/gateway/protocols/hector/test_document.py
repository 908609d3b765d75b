"""Every curl line of Hector's documents, run by curl as it stands there but for the host."""

import asyncio
import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.support.clients.bindings import Json
from tests.support.javascript import program

_HOST = re.compile(r"http://localhost:\d+")
_SEND = r"""curl -X POST http://localhost:8081/v1/agents/assistant/message:send \
  -H "Content-Type: application/json" \
  -d '{"message":{"role":"ROLE_USER","content":[{"text":"Hello"}]}}'"""
_GET = r"""curl -N -H "Accept: text/event-stream" \
  http://localhost:8081/v1/agents/assistant/message:stream"""
_RPC = r"""curl -X POST http://localhost:8082/rpc \
  -H "Content-Type: application/json" \
  -d '{
    "jsonrpc": "2.0",
    "method": "message/send",
    "params": {
      "name": "assistant",
      "message": {"role":"ROLE_USER","content":[{"text":"Hello"}]}
    },
    "id": 1
  }'"""
_NATIVE = r"""curl -N http://localhost:8080/v1/agents/assistant/message:stream \
  -H "Content-Type: application/json" \
  -d '{"message": {"parts": [{"text": "Hello"}]}}'"""
_AGUI = _NATIVE.replace("  -d", '  -H "Accept: application/x-agui-events" \\\n  -d')
_BY_QUERY = _NATIVE.replace(
    "http://localhost:8080/v1/agents/assistant/message:stream",
    '"http://localhost:8080/v1/agents/assistant/message:stream?format=agui"',
)
_AS_FORM = _AGUI.replace('  -H "Content-Type: application/json" \\\n', "")
_CARD = "curl http://localhost:8080/v1/agents/assistant/ | jq '.capabilities.extensions'"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a document."""

    name: str
    command: str
    expected: Callable[[str], object]
    """Whether that is what it is answered with."""
    query: str = ""
    """What has to be added to the address."""


def is_task(output: str) -> bool:
    return bool(task_of(json.loads(output))["artifacts"][0]["parts"] == [{"text": "Hello"}])


def task_of(answer: Json) -> Json:
    task: Json = answer.get("result", answer)["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    return task


def is_response(output: str) -> bool:
    answer = json.loads(output)
    answer = answer.get("result", answer)
    return bool(answer["response"]["content"] == [{"text": "Hello"}] and answer["task_id"])


def is_a2a_stream(output: str) -> bool:
    assert "event:" not in output
    events = [json.loads(line[6:]) for line in output.splitlines() if line.startswith("data: ")]
    states = [one["statusUpdate"]["status"]["state"] for one in events if "statusUpdate" in one]
    return "task" in events[0] and states[-1] == "TASK_STATE_COMPLETED"


def is_hector_stream(output: str) -> bool:
    *events, done = output.strip().split("\n\n")
    assert done == "event: done\ndata: {}"
    assert all("\nevent: message\n" in one for one in events)
    received = [json.loads(one.rpartition("\ndata: ")[2]) for one in events]
    by_parts = [part["text"] for one in received for part in one["message"]["parts"]]
    by_content = [one["response"]["content"][0]["text"] for one in received]
    return "".join(by_parts) == "".join(by_content) == "Hello"


def is_marked_stream(output: str) -> bool:
    lines = [line for line in output.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "data: [DONE]"
    received = [json.loads(line[6:])["response"]["content"][0]["text"] for line in lines[:-1]]
    return "".join(received) == "Hello"


def is_agui_stream(output: str) -> bool:
    names = re.findall(r"^event: (.*)$", output, re.MULTILINE)
    assert names[:2] == ["task_start", "message_start"]
    assert names[-3:] == ["message_stop", "task_complete", "done"]
    return {"content_block_start", "content_block_delta", "content_block_stop"} < {*names}


def asks_for_a_message(output: str) -> bool:
    error = json.loads(output)["error"]
    return bool(error["code"] == 400 and "message" in error["message"])


def lists_agents(output: str) -> bool:
    agents = json.loads(output)["agents"]
    wanted = {"id": "assistant", "name": "assistant", "url": "/v1/agents/assistant"}
    return wanted in agents


def is_unknown_task(output: str) -> bool:
    return bool(json.loads(output)["error"]["code"] == 404)


def offers_agui(output: str) -> bool:
    card = json.loads(output)
    uris = [one["uri"] for one in card["capabilities"]["extensions"]]
    modes = {"text/plain", "application/x-agui-events"}
    return "https://ag-ui.org/protocol/v1" in uris and modes <= {*card["defaultOutputModes"]}


LINES = [
    Line("rest-send", _SEND, is_task),
    Line("rest-send-hector", _SEND, is_response, "?format=hector"),
    Line("rest-stream-get", _GET, asks_for_a_message),
    Line("rest-stream-get-message", _GET, is_a2a_stream, "?message=Hello"),
    Line("rest-stream-get-done", _GET, is_marked_stream, "?message=Hello&format=hector&done=1"),
    Line("rpc-send", _RPC, is_task),
    Line("rpc-send-hector", _RPC, is_response, "?format=hector"),
    Line("discovery", "curl http://localhost:8081/.well-known/a2a", lists_agents),
    Line(
        "task-status",
        "curl http://localhost:8081/v1/agents/assistant/tasks/{task_id}",
        is_unknown_task,
    ),
    Line("native-stream", _NATIVE, is_a2a_stream),
    Line("native-stream-hector", _NATIVE, is_hector_stream, "?format=hector"),
    Line("agui-accept", _AGUI, is_agui_stream),
    Line("agui-query", _BY_QUERY, is_agui_stream),
    Line("agui-form", _AS_FORM, is_agui_stream),
    Line("agui-card", _CARD, offers_agui),
]


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.name)
async def test_a_line_is_answered_as_hectors_documents_state(gateway: str, line: Line) -> None:
    command = shlex.split(_HOST.sub(gateway, line.command.partition(" | jq")[0]))
    requests = [one + line.query if one.startswith(gateway) else one for one in command[1:]]
    curl = await asyncio.create_subprocess_exec(
        program("curl"), "--silent", "--globoff", *requests, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await asyncio.wait_for(curl.communicate(), 60)
    assert line.expected(output.decode()), output.decode()
