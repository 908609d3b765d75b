"""A question outlives the whole stack: every process ends and begins again before its answer."""

import asyncio
import json
import signal
import uuid
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from headrace.model.events import Json
from tests.integration.worker.adapters.behaviour import REFUND
from tests.integration.worker.adapters.gemini_wire import gemini_model
from tests.integration.worker.adapters.office import Office
from tests.integration.worker.adapters.test_agui_agent import run, text
from tests.integration.worker.adapters.wire import chat_model, replies
from tests.support.chat_stub import ag_ui_stub
from tests.support.pids import living
from tests.support.plain_http import NO_TLS
from tests.support.scripted_executor import ScriptedExecutor
from tests.support.sdk_server import sdk_server
from tests.support.stack import Stack
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
MODELS = {
    "test_pydantic_ai": chat_model,
    "test_openai_agents": chat_model,
    "test_langgraph": chat_model,
    "test_google_adk": gemini_model,
}
"""The model servers of the adapters' agents, by the modules that build these."""


async def said(url: str, agent: str, words: str, task: str = "") -> Json:
    """Send a message, and return its task once the run is over."""
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": words}]}
    body = {"message": message | ({"taskId": task} if task else {})}
    async with httpx.AsyncClient(base_url=url, timeout=120, verify=NO_TLS) as http:
        answer = await http.post(f"/v1/agents/{agent}/message:send", json=body)
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()["task"]
    return found


ASKS = {"id": "i1", "reason": "confirm", "message": "Sure?", "responseSchema": {"type": "string"}}
TALKS = {
    **dict.fromkeys(MODELS, ("Refund A1.", "yes", "So be it.")),
    "translator": ("klingon", "german", "Guten Tag encore "),
    "backend": ("x", "yes", "Done."),
    "outside": ("ask", "fire", "Reply: fire"),
}
"""What each agent is sent, what it is answered, and what it says then."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("ends", [signal.SIGTERM, signal.SIGKILL])
async def test_an_answer_after_a_restart_of_everything_is_the_answer(
    tmp_path: Path, ends: signal.Signals
) -> None:
    offices = {name: Office(tmp_path / name) for name in MODELS}
    executor = ScriptedExecutor()
    asking = run(outcome={"type": "interrupt", "interrupts": [ASKS]})
    async with AsyncExitStack() as servers:
        urls = dict[str, str]()
        for name, serve in MODELS.items():
            offices[name].folder.mkdir()
            model = await servers.enter_async_context(serve([REFUND, replies("So be it.")]))
            urls[name] = model.url
        backend = await servers.enter_async_context(ag_ui_stub(asking, run(*text("m", "Done."))))
        outside = await servers.enter_async_context(sdk_server(executor))
        environment = {
            "PYTHONPATH": str(ROOT),
            "MODELS": json.dumps(urls),
            "OFFICES": str(tmp_path),
            "AG_UI": backend.url,
            "REMOTE": outside.url,
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
        asked = {name: await said(stack.url, name, first) for name, (first, _, _) in TALKS.items()}
        assert {one["status"]["state"] for one in asked.values()} == {"TASK_STATE_INPUT_REQUIRED"}
        pids = stack.pids()
        await asyncio.to_thread(stack.stop, ends)
        await asyncio.to_thread(until, lambda: not living(pids), "its processes have ended")
        await asyncio.to_thread(stack.start)
        try:
            done = {
                name: await said(stack.url, name, answer, asked[name]["id"])
                for name, (_, answer, _) in TALKS.items()
            }
        finally:
            await asyncio.to_thread(stack.stop)
    for name, task in done.items():
        parts = [part for one in task["artifacts"] for part in one["parts"]]
        told = "".join(part.get("text", "") for part in parts)
        ended = (task["status"]["state"], told)
        assert (name, *ended) == (name, "TASK_STATE_COMPLETED", TALKS[name][2])
    for name, office in offices.items():
        assert (name, office.done("refunded")) == (name, ["A1:5"])
    resume = backend.requests[1]["resume"]
    assert resume == [{"interruptId": "i1", "status": "resolved", "payload": "yes"}]
    assert executor.received == ["ask", "fire"]
