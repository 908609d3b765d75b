"""Agents of another Headrace, by URL: asked once, followed by cursor."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from headrace import events, parts
from headrace.bus import Bus
from headrace.directory import AgentCard
from headrace.interrupts import INTERRUPTS
from headrace.log import last_entry
from headrace.settings import BusSettings
from headrace.task import CANCELED, COMPLETED, INPUT_REQUIRED, WORKING
from headrace_gateway.settings import GatewaySettings
from headrace_worker import Agent
from headrace_worker.adapters import remote_agent
from tests.integration.gateway.running import running
from tests.integration.worker.conftest import Working
from tests.integration.worker.doors.reading import answer, folded, said, state, thoughts, words
from tests.support.cutting_proxy import CuttingProxy
from tests.support.desk import Desk, Task, eventually
from tests.support.scripted_fleet import Leg, ScriptedFleet
from tests.support.servers import NatsProcess, ports


async def patient(leg: Leg) -> None:
    """Think and begin, wait for the test, go on and end."""
    think = parts.thinking_part("Hm. ", "think-1", end=True)
    content = {"messageId": "think-1", "role": "ROLE_AGENT", "parts": [think]}
    await leg.append([events.status_update(leg.key.task, leg.context, WORKING, content)])
    await leg.chunk("a", append=False)
    await leg.chunk("b")
    await leg.go_on.wait()
    await leg.chunk("c")
    await leg.status(COMPLETED)


async def ask(leg: Leg) -> None:
    """Ask once, then say what was answered."""
    if leg.leg == 1:
        asked = {INTERRUPTS: [{"id": "int-1", "reason": "name"}]}
        draft = leg.status_draft(INPUT_REQUIRED, "Your name?", metadata=asked)
        await leg.append([draft], INPUT_REQUIRED)
    else:
        await leg.chunk(parts.text_of(leg.message["parts"]), append=False)
        await leg.status(COMPLETED)


@dataclass
class Other:
    """Another Headrace, behind a proxy."""

    fleet: ScriptedFleet
    proxy: CuttingProxy
    grpc: int

    async def agent(self, name: str, binding: str) -> Agent:
        url = f"{self.proxy.url}/v1/agents/{name}"
        return await asyncio.to_thread(
            remote_agent, url, binding=binding, backoff=0.0, reconnecting=10.0
        )


@pytest.fixture
async def other(nats_server: NatsProcess) -> AsyncIterator[Other]:
    """A fleet of scripts with a gateway of its own, which shares nothing with ours."""
    name = f"other{secrets.token_hex(4)}"
    settings = GatewaySettings(
        nats_url=nats_server.url,
        prefix=name,
        stream_prefix=name,
        http_port=ports.pick(),
        grpc_port=ports.pick(),
        startup_timeout=20,
    )
    agents = {
        "patient": (AgentCard(name="patient", description="Waits."), patient),
        "ask": (AgentCard(name="ask"), ask),
    }
    async with (
        _fleet(settings, agents) as fleet,
        running(settings),
        CuttingProxy(settings.http_port) as proxy,
    ):
        yield Other(fleet, proxy, settings.grpc_port)


@asynccontextmanager
async def _fleet(settings: GatewaySettings, agents: object) -> AsyncIterator[ScriptedFleet]:
    bus = Bus(BusSettings.model_validate(settings.model_dump()))
    await bus.connect("other")
    fleet = await ScriptedFleet(bus, agents).start()  # type: ignore[arg-type]  # its scripts
    try:
        yield fleet
    finally:
        await fleet.stop()
        await bus.close()


async def _has(task: Task, text: str) -> bool:
    artifacts = (await task.found()).task.get("artifacts", [])
    return bool(artifacts) and artifacts[0]["parts"][0]["text"] == text


def chunks(log: list[events.Json]) -> list[str]:
    """Return the texts of the artifact's chunks."""
    updates = [event["artifactUpdate"] for event in log if "artifactUpdate" in event]
    return [update["artifact"]["parts"][0]["text"] for update in updates]


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_its_events_are_told_with_their_metadata(
    desk: Desk, working: Working, other: Other, binding: str
) -> None:
    async with working(await other.agent("patient", binding)):
        task = await desk.start("patient", "x")
        await eventually(lambda: _has(task, "ab"))
        [leg] = other.fleet.legs
        leg.go_on.set()
        done = await folded(task)
    assert (state(done), answer(done), thoughts(done)) == ("COMPLETED", "abc", "Hm. ")
    [thought] = [part for part in said(done) if parts.is_thinking(part)]
    assert thought["metadata"]["agui_block_id"] == "think-1"
    assert done["metadata"]["remote_task"] == leg.key.task


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_a_cut_stream_goes_on_behind_its_cursor(
    desk: Desk, working: Working, other: Other, binding: str
) -> None:
    async with working(await other.agent("patient", binding)):
        task = await desk.start("patient", "x")
        await eventually(lambda: _has(task, "ab"))
        [leg] = other.fleet.legs
        await other.proxy.cut()
        leg.go_on.set()
        log = await task.events()
        done = await folded(task)
    assert chunks(log) == ["a", "b", "c"]
    assert (answer(done), len(other.fleet.legs)) == ("abc", 1)


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
async def test_a_new_attempt_follows_the_same_task_from_its_beginning(
    desk: Desk, working: Working, other: Other, binding: str
) -> None:
    agent = await other.agent("patient", binding)
    async with working(agent):
        task = await desk.start("patient", "x")
        await eventually(lambda: _has(task, "ab"))
    [leg] = other.fleet.legs
    leg.go_on.set()
    async with working(agent):
        done = await folded(task)
    assert (state(done), answer(done), thoughts(done)) == ("COMPLETED", "abc", "Hm. ")
    assert len(other.fleet.legs) == 1


async def test_a_message_sent_again_makes_no_second_task(
    desk: Desk, working: Working, other: Other
) -> None:
    agent = await other.agent("patient", "JSONRPC")
    async with working(agent):
        task = await desk.start("patient", "x")
        await eventually(lambda: _has(task, "ab"))
        other.proxy.refuses = True
        await other.proxy.cut()
    # The worker left when it did not reach the other one; the next attempt comes later.
    other.proxy.refuses = False
    other.fleet.legs[0].go_on.set()
    async with working(agent):
        done = await folded(task)
    assert (state(done), answer(done), len(other.fleet.legs)) == ("COMPLETED", "abc", 1)


async def test_its_question_its_interrupt_and_the_answer_pass(
    desk: Desk, working: Working, other: Other
) -> None:
    async with working(await other.agent("ask", "JSONRPC")):
        task = await desk.start("ask", "x")
        last = (await task.events())[-1]["statusUpdate"]
        assert last["metadata"][INTERRUPTS] == [{"id": "int-1", "reason": "name"}]
        named = {"agui_interrupt_id": "int-1", "agui_resume_status": "resolved"}
        part = {"text": "Ada", "metadata": named}
        leg = await task.follow_up_with({"messageId": "r", "role": "ROLE_USER", "parts": [part]})
        await task.reaches(leg + 3)
        done = await folded(task)
    first, second = other.fleet.legs
    assert first.key == second.key
    assert second.message["parts"] == [part]
    assert (state(done), answer(done)) == ("COMPLETED", "Ada")
    assert words(done) == ""


async def test_a_cancel_is_confirmed_over_there(desk: Desk, working: Working, other: Other) -> None:
    async with working(await other.agent("patient", "JSONRPC")):
        task = await desk.start("patient", "x")
        await eventually(lambda: _has(task, "ab"))
        await task.held()
        await task.ask("cancel")
        done = await folded(task)
        theirs = await last_entry(other.fleet.bus, other.fleet.legs[0].key)
    assert theirs is not None
    assert (state(done), theirs.stamp.state) == ("CANCELED", CANCELED)
