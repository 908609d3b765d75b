"""A client of A2A 0.3 and its webhook, through a whole stack."""

import httpx
import pytest
from a2a.compat.v0_3.types import Task

from tests.support.fleet import Fleet
from tests.support.receiver import receiving


@pytest.mark.parametrize("where", ["", "/v1/message:send"])
async def test_a_client_of_0_3_gets_whole_tasks_of_0_3(
    fleet: Fleet, http: httpx.AsyncClient, where: str
) -> None:
    message = {"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hello"}]}
    url = f"{fleet.gateways[0]}/v1/agents/echo{where}"
    async with receiving() as receiver:
        hook = {"url": receiver.url(), "token": "tok"}
        params = {"message": message, "configuration": {"pushNotificationConfig": hook}}
        call = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params}
        answer = (await http.post(url, json=params if where else call)).json()
        sent = Task.model_validate(answer if where else answer["result"])

        def is_over() -> bool:
            states = [one.body["status"]["state"] for one in receiver.came]
            return "completed" in states

        await receiver.until(is_over, "the end is told")
    last = receiver.came[-1]
    received = Task.model_validate(last.body)
    assert (received.id, received.artifacts, received.history) == (
        sent.id,
        sent.artifacts,
        sent.history,
    )
    assert last.headers["x-a2a-notification-token"] == "tok"
    assert last.headers["content-type"] == "application/json"
