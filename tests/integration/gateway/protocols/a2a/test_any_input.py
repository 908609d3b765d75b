"""Whatever is sent: an answer in protocol shape, never a 5xx, never a hang."""

import asyncio
import random
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.support.clients.bindings import message

ODD: list[Any] = [
    None, True, False, 0, -1, 1.5, 2**70, "", "x", "\x00", "é\U0001f600", "..", "0-" + "a" * 32,
    [], {}, [[]], {"": ""}, {"a": {"b": [1]}}, "TASK_STATE_WORKING", "2026-01-31T12:00:00Z",
]  # fmt: skip
PARAMS: list[dict[str, Any]] = [
    message(contextId="c", taskId="", extensions=["e"], referenceTaskIds=["r"])
    | {"configuration": {"historyLength": 1, "returnImmediately": True}, "metadata": {"m": 1}},
    {"id": "0-" + "a" * 32, "historyLength": 2, "tenant": "t"},
    {"contextId": "c", "status": "TASK_STATE_WORKING", "pageSize": 5, "pageToken": "p"},
]
METHODS = [
    "SendMessage", "SendStreamingMessage", "GetTask", "ListTasks", "CancelTask", "SubscribeToTask",
    "CreateTaskPushNotificationConfig", "GetExtendedAgentCard", "message/send", "",
]  # fmt: skip
PATHS = [
    "/message:send", "/message:stream", "/tasks", "/tasks/{odd}", "/tasks/{odd}:cancel", "/{odd}",
    "/tasks/{odd}:subscribe", "/tasks/{odd}/pushNotificationConfigs/{odd}", "/extendedAgentCard",
    "/v1/agents/{odd}", "/v1/agents/{odd}/tasks", "/v1/agents/ask/message:send",
    "/.well-known/a2a/agents/{odd}",
]  # fmt: skip


def bent(chance: random.Random, value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return `value` with some of it replaced, dropped or added."""
    if chance.random() < 0.15:
        return chance.choice(ODD)
    if isinstance(value, dict):
        kept = {k: bent(chance, v) for k, v in value.items() if chance.random() > 0.1}
        return kept | ({"odd": chance.choice(ODD)} if chance.random() < 0.2 else {})
    if isinstance(value, list):
        return [bent(chance, one) for one in value]
    return value


@pytest.mark.parametrize("seed", range(4))
async def test_json_rpc_answers_whatever_is_sent(http: httpx.AsyncClient, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(60):
        request = {"jsonrpc": "2.0", "id": 1, "method": chance.choice(METHODS)}
        request |= {"params": bent(chance, chance.choice(PARAMS))}
        if chance.random() < 0.2:
            request = bent(chance, request)
        async with asyncio.timeout(60):
            response = await http.post(chance.choice(["/", "/v1/agents/ask"]), json=request)
        assert response.status_code == 200, (request, response.text)
        if response.headers["content-type"] == "application/json":
            answer = response.json()
            assert answer["jsonrpc"] == "2.0"
            assert ("result" in answer) != ("error" in answer)
            if "error" in answer:
                assert answer["error"]["code"] != -32603, (request, answer)


@pytest.mark.parametrize("seed", range(4))
async def test_rest_answers_whatever_is_sent(http: httpx.AsyncClient, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(60):
        path = chance.choice(PATHS).replace("{odd}", quote(str(chance.choice(ODD)), safe=""))
        method = chance.choice(["GET", "POST", "DELETE", "PUT"])
        body = bent(chance, chance.choice(PARAMS)) if method == "POST" else None
        query = {name: str(chance.choice(ODD)) for name in ("pageSize", "historyLength", "status")}
        async with asyncio.timeout(60):
            response = await http.request(
                method, path, json=body, params=query if chance.random() < 0.3 else None
            )
        assert response.status_code in (200, 400, 404, 405), (method, path, body, response.text)
        if response.status_code != 200:
            error = response.json()["error"]
            assert error["code"] == response.status_code
            assert error["details"][0]["reason"]
