"""A question outlives the whole stack: every process ends and begins again before its answer."""

import asyncio
import json
import uuid
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from headrace.model.events import Json
from tests.integration.worker.adapters.behaviour import REFUND
from tests.integration.worker.adapters.gemini_wire import gemini_model
from tests.integration.worker.adapters.office import Office
from tests.integration.worker.adapters.wire import chat_model, replies
from tests.support.plain_http import NO_TLS
from tests.support.stack import Stack

ROOT = Path(__file__).parents[2]
MODELS = {
    "test_pydantic_ai": chat_model,
    "test_openai_agents": chat_model,
    "test_langgraph": chat_model,
    "test_google_adk": gemini_model,
}
"""The model servers of the adapters' agents, by the modules that build these."""


async def said(url: str, agent: str, text: str, task: str = "") -> Json:
    """Send a message, and return its task once the run is over."""
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}]}
    body = {"message": message | ({"taskId": task} if task else {})}
    async with httpx.AsyncClient(base_url=url, timeout=120, verify=NO_TLS) as http:
        answer = await http.post(f"/v1/agents/{agent}/message:send", json=body)
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()["task"]
    return found


@pytest.mark.timeout(600)
async def test_an_answer_after_a_restart_of_everything_is_the_answer(tmp_path: Path) -> None:
    offices = {name: Office(tmp_path / name) for name in MODELS}
    async with AsyncExitStack() as servers:
        urls = dict[str, str]()
        for name, serve in MODELS.items():
            offices[name].folder.mkdir()
            model = await servers.enter_async_context(serve([REFUND, replies("So be it.")]))
            urls[name] = model.url
        environment = {
            "PYTHONPATH": str(ROOT),
            "MODELS": json.dumps(urls),
            "OFFICES": str(tmp_path),
        }
        stack = Stack(
            tmp_path / "stack",
            gateways=1,
            workers=1,
            agents="tests.integration.worker.adapters.serving_all:agents",
            arguments=("--port", "0"),
            environment=environment,
        )
        await asyncio.to_thread(stack.start)
        asked = {name: await said(stack.url, name, "Refund A1.") for name in MODELS}
        assert {one["status"]["state"] for one in asked.values()} == {"TASK_STATE_INPUT_REQUIRED"}
        await asyncio.to_thread(stack.stop)
        await asyncio.to_thread(stack.start)
        try:
            done = {
                name: await said(stack.url, name, "yes", one["id"]) for name, one in asked.items()
            }
        finally:
            await asyncio.to_thread(stack.stop)
    for name, task in done.items():
        text = "".join(part["text"] for one in task["artifacts"] for part in one["parts"])
        ended = (task["status"]["state"], text)
        assert (name, *ended) == (name, "TASK_STATE_COMPLETED", "So be it.")
        assert (name, offices[name].done("refunded")) == (name, ["A1:5"])
