"""Situations of public reports, tried with the clients that they name.

The table of `docs/conformance.md` names each report with its test, here or elsewhere.
"""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.client import A2ACardResolver
from a2a.helpers.proto_helpers import new_text_message
from a2a.types import a2a_pb2 as pb
from a2a.utils.constants import TransportProtocol

from headrace.model.events import Json
from tests.e2e.test_official_client import BINDINGS, asking, connected, said, sent, text_of
from tests.support import extra_services, javascript
from tests.support.receiver import Receiver, receiving
from tests.support.service_process import ServiceProcess
from tests.support.stack import Stack
from tests.support.waiting import until

type Drive = Callable[..., Json]
type Agents = Callable[[str], tuple[str, str]]

APPROVE = {"resume": {"status": "resolved", "payload": {"approved": True}}}


@pytest.fixture(scope="module")
def worker(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    folder, nats_url = tmp_path_factory.mktemp("reports"), stack.dev()["nats_url"]
    with extra_services.worker(folder, "agents", nats_url, "report_agents") as worker:
        until(lambda: extra_services.is_served(stack.gateways, "payer"), "its agents are there")
        yield worker


@pytest.fixture
def agents(stack: Stack, worker: ServiceProcess) -> Agents:
    """Return an agent's URLs at two gateways."""
    assert worker
    here, there = stack.gateways
    return lambda name: (f"{here}/v1/agents/{name}", f"{there}/v1/agents/{name}")


@pytest.fixture(scope="module")
def drive() -> Iterator[Drive]:
    """Run the official AG-UI client and return all it holds; it has nothing to complain of."""
    with javascript.Script("drive.mjs") as script:

        def driven(url: str, *runs: Json, **more: Any) -> Json:  # noqa: ANN401
            held: Json = script.run({"url": url, "runs": runs, **more})
            assert held["warnings"] == []
            assert [one["failure"] for one in held["runs"]] == [None] * len(runs)
            return held

        yield driven


def follow_up(task: pb.Task, text: str, *, same_task: bool) -> pb.SendMessageRequest:
    ids = {"context_id": task.context_id} | ({"task_id": task.id} if same_task else {})
    message = new_text_message(text, role=pb.ROLE_USER, **ids)
    return pb.SendMessageRequest(message=message)


def kinds(run: Json) -> list[str]:
    return [event["type"] for event in run["events"]]


def contents(messages: list[Json]) -> list[tuple[str, Any]]:
    return [(m["role"], m["content"]) for m in messages if m.get("content")]


def calls(messages: list[Json]) -> list[str]:
    return [call["id"] for message in messages for call in message.get("toolCalls") or ()]


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_task_that_nobody_waited_for_is_followed_and_its_cancel_reaches_the_agent(
    agents: Agents, tmp_path: Path, binding: TransportProtocol
) -> None:
    here, there = agents("cleaning")
    cleaned = tmp_path / "cleaned"
    request = asking(str(cleaned))
    request.configuration.return_immediately = True
    async with (
        connected(here, binding, streaming=False) as sender,
        connected(there, binding) as follower,
    ):
        [event] = [event async for event in sender.send_message(request)]
        last = pb.StreamResponse(task=event.task)
        canceled: pb.Task | None = None
        async for last in follower.subscribe(pb.SubscribeToTaskRequest(id=event.task.id)):
            if canceled is None and (said([last]) or text_of(last.task)):
                canceled = await sender.cancel_task(pb.CancelTaskRequest(id=event.task.id))
    assert canceled is not None
    assert canceled.status.state == pb.TASK_STATE_CANCELED
    assert last.status_update.status.state == pb.TASK_STATE_CANCELED
    assert await asyncio.to_thread(cleaned.exists)


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_history_is_as_long_as_its_client_asks_for(
    agents: Agents, binding: TransportProtocol
) -> None:
    here, there = agents("collecting")
    async with (
        connected(here, binding, streaming=False) as client,
        connected(there, binding, streaming=False) as other,
    ):
        [event] = await sent(client, "first")
        request = follow_up(event.task, "last", same_task=True)
        request.configuration.history_length = 0
        [event] = [event async for event in client.send_message(request)]
        read = [
            await other.get_task(pb.GetTaskRequest(id=event.task.id, history_length=length))
            for length in (0, 1, 100)
        ]
        query = pb.ListTasksRequest(context_id=event.task.context_id, history_length=0)
        listed = await other.list_tasks(query)
    assert len(event.task.history) == 0
    assert [len(task.history) for task in read] == [0, 1, 3]
    assert [len(task.history) for task in listed.tasks] == [0]


@pytest.mark.parametrize("binding", BINDINGS)
async def test_pieces_without_text_are_no_messages_without_parts(
    agents: Agents, binding: TransportProtocol
) -> None:
    async with connected(agents("pausing")[0], binding) as client:
        events = await sent(client, "hi")
    assert said(events) == "one two"
    updates = [event.artifact_update.artifact for event in events if said([event])]
    assert all(len(artifact.parts) for artifact in updates)
    messages = [event.status_update.status.message for event in events]
    assert all(len(message.parts) for message in messages if message.message_id)


@pytest.mark.parametrize("binding", BINDINGS)
async def test_an_executor_that_appends_to_what_it_never_began_loses_nothing(
    agents: Agents, binding: TransportProtocol
) -> None:
    here, there = agents("appending")
    async with connected(here, binding) as client, connected(there, binding) as other:
        events = await sent(client, "hi")
        read = await other.get_task(pb.GetTaskRequest(id=events[0].task.id))
    updates = [event.artifact_update for event in events if event.HasField("artifact_update")]
    assert [update.append for update in updates] == [False, True]
    assert said(events) == text_of(read) == "one two"
    assert read.status.state == pb.TASK_STATE_COMPLETED


async def test_answers_at_either_gateway_keep_what_the_other_one_stored(agents: Agents) -> None:
    here, there = agents("collecting")
    async with (
        connected(here, BINDINGS[0], streaming=False) as client,
        connected(there, BINDINGS[0], streaming=False) as other,
    ):
        [event] = await sent(client, "first")
        for one, text in ((other, "second"), (client, "third"), (other, "last")):
            request = follow_up(event.task, text, same_task=True)
            [event] = [event async for event in one.send_message(request)]
    assert text_of(event.task) == "first second third last "
    told = [part.text for message in event.task.history for part in message.parts]
    assert [text for text in told if text != "More?"] == ["first", "second", "third", "last"]


async def test_a_message_of_a_context_comes_with_the_answers_before_it(agents: Agents) -> None:
    here, there = agents("historian")
    async with (
        connected(here, BINDINGS[0], streaming=False) as client,
        connected(there, BINDINGS[0], streaming=False) as other,
    ):
        [event] = await sent(client, "first")
        request = follow_up(event.task, "second", same_task=False)
        [event] = [event async for event in other.send_message(request)]
    assert text_of(event.task) == "0 tools; first | 0 tools; first | second"


async def test_a_webhook_gets_the_credentials_that_its_client_named_and_every_state(
    agents: Agents,
) -> None:
    async with (
        receiving() as receiver,
        connected(agents("collecting")[0], BINDINGS[0], streaming=False) as client,
    ):
        request = asking("last")
        config = request.configuration.task_push_notification_config
        config.url, config.token = receiver.url(), "token"
        config.authentication.scheme, config.authentication.credentials = "Bearer", "s3cret"
        [_] = [event async for event in client.send_message(request)]
        await receiver.until(lambda: states(receiver)[-1:] == ["TASK_STATE_COMPLETED"], "the end")
    assert states(receiver)[-2:] == ["TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]
    assert {one.headers["authorization"] for one in receiver.came} == {"Bearer s3cret"}
    assert {one.headers["x-a2a-notification-token"] for one in receiver.came} == {"token"}


def states(receiver: Receiver) -> list[str]:
    updates = [one.body.get("statusUpdate") or one.body.get("task") for one in receiver.came]
    return [update["status"]["state"] for update in updates if update]


@pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")
async def test_adks_remote_agent_is_given_each_text_once(
    agents: Agents, http: httpx.AsyncClient
) -> None:
    from google.adk.agents.remote_a2a_agent import RemoteA2aAgent  # noqa: PLC0415  # warns
    from google.adk.runners import InMemoryRunner  # noqa: PLC0415
    from google.genai.types import Content, Part  # noqa: PLC0415

    # By its URL, ADK refuses a card that names gRPC: another port is another origin.
    card = await A2ACardResolver(http, agents("pausing")[0]).get_agent_card()
    remote = RemoteA2aAgent(name="remote", agent_card=card, httpx_client=http)
    runner = InMemoryRunner(remote, app_name="app")
    session = await runner.session_service.create_session(app_name="app", user_id="ann")
    told = list[str]()
    new = Content(role="user", parts=[Part(text="hi")])
    run = runner.run_async(user_id="ann", session_id=session.id, new_message=new)
    async for event in run:
        parts = event.content.parts if event.content and event.content.parts else []
        told += [part.text for part in parts if part.text and not part.thought]
    assert "".join(told) == "one two"


async def test_pieces_without_text_are_no_events(agents: Agents, drive: Drive) -> None:
    held = drive(f"{agents('pausing')[0]}/ag-ui", {"text": "hi"})
    deltas = [event["delta"] for event in held["runs"][0]["events"] if "delta" in event]
    assert sorted(deltas) == ["one ", "one ", "two", "two"]


async def test_what_is_said_twice_is_two_messages(agents: Agents, drive: Drive) -> None:
    held = drive(f"{agents('fragile')[0]}/ag-ui", *[{"text": "yes"}] * 3)
    again = drive(f"{agents('fragile')[1]}/ag-ui/connect", {}, threadId=held["threadId"])
    assert contents(again["messages"]) == [("user", "yes"), ("assistant", "heard yes")] * 3
    asked = drive(f"{agents('historian')[0]}/ag-ui", *[{"text": "yes"}] * 2)
    assert asked["messages"][-1]["content"] == "0 tools; yes | 0 tools; yes | yes"


async def test_the_pages_tools_and_files_reach_the_model_as_they_are_in_each_turn(
    agents: Agents, drive: Drive
) -> None:
    tools = [{"name": "paint", "description": "Paint.", "parameters": {"type": "object"}}]
    image = {"type": "image", "source": {"type": "data", "value": "aGk=", "mimeType": "image/png"}}
    turns = [{"text": [{"type": "text", "text": "what?"}, image], "tools": tools}]
    turns += [{"text": text, "tools": tools} for text in ("and", "then")]
    held = drive(f"{agents('historian')[0]}/ag-ui", *turns)
    answers = [content for role, content in contents(held["messages"]) if role == "assistant"]
    assert [answer.partition(";")[0] for answer in answers] == ["1 tools"] * 3
    assert "BinaryContent(data=b'hi', media_type='image/png')" in answers[0]


async def test_approvals_in_a_row_pay_once_each_and_no_later_turn_pays_again(
    agents: Agents, drive: Drive
) -> None:
    here, there = agents("payer")
    held = drive(f"{here}/ag-ui", {"text": "pay row 2"}, APPROVE, APPROVE, {"text": "thanks"})
    results = [content for role, content in contents(held["messages"]) if role == "tool"]
    assert results == ["paid 1", "paid 2"]
    assert [kinds(run)[-1] for run in held["runs"]] == ["RUN_FINISHED"] * 4
    made = calls(held["messages"])
    announced = [e["toolCallId"] for run in held["runs"] for e in run["events"] if is_start(e)]
    assert announced == made
    assert len(set(made)) == 2
    ids = [message["id"] for message in held["messages"]]
    assert len(set(ids)) == len(ids)
    url, thread = f"{there}/ag-ui/connect", held["threadId"]
    for more in ({}, {"messages": held["messages"]}):
        again = drive(url, {}, threadId=thread, **more)
        assert again["messages"] == held["messages"]


def is_start(event: Json) -> bool:
    return bool(event["type"] == "TOOL_CALL_START")


async def test_a_run_that_fails_after_an_approval_has_paid_once_and_its_thread_goes_on(
    agents: Agents, drive: Drive
) -> None:
    here, there = agents("payer")
    # The official client sends nothing more in a thread whose interrupts it does not cancel.
    going_on = {"text": "thanks", "resume": {"status": "cancelled"}}
    held = drive(f"{here}/ag-ui", {"text": "break once 1"}, APPROVE, going_on, {"text": "bye"})
    ends = [kinds(run)[-1] for run in held["runs"]]
    assert ends == ["RUN_FINISHED", "RUN_ERROR", "RUN_FINISHED", "RUN_FINISHED"]
    results = [content for role, content in contents(held["messages"]) if role == "tool"]
    assert results == ["paid 1"]
    again = drive(f"{there}/ag-ui/connect", {}, threadId=held["threadId"])
    assert again["messages"] == held["messages"]
    assert contents(again["messages"])[-2:] == [("user", "bye"), ("assistant", "bye")]


BROKEN = [
    ("user", "one"),
    ("assistant", "heard one"),
    ("user", "break"),
    ("user", "two"),
    ("assistant", "heard two"),
]


async def test_a_thread_with_a_failed_run_is_restored_and_goes_on(
    agents: Agents, stack: Stack, drive: Drive
) -> None:
    here, there = agents("fragile")
    held = drive(f"{here}/ag-ui", {"text": "one"}, {"text": "break"})
    url, thread = f"{there}/ag-ui/connect", held["threadId"]
    restored = drive(url, {}, threadId=thread)
    assert kinds(restored["runs"][0])[-1] == "RUN_ERROR"
    assert contents(restored["messages"]) == BROKEN[:3]
    with javascript.Script("copilotkit.mjs") as copilot:
        steps = [{"connect": True}, {"connect": True}, {"text": "two"}, {"connect": True}]
        order = {"runtimeUrl": f"{stack.gateways[1]}/copilotkit", "agentId": "fragile"}
        page = copilot.run({**order, "threadId": thread, "steps": steps})
    assert contents(page["messages"]) == BROKEN
    assert [error["code"] for error in page["errors"]] == ["agent_run_error_event"] * 2


async def test_a_stream_that_a_page_joined_ends_with_its_run_and_the_next_join_has_later_ones(
    agents: Agents, drive: Drive
) -> None:
    here, there = agents("fragile")
    held = drive(f"{here}/ag-ui", {"text": "one"})
    url, thread = f"{there}/ag-ui/connect", held["threadId"]
    joined = drive(url, {}, threadId=thread)
    assert kinds(joined["runs"][0])[-1] == "RUN_FINISHED"
    held = drive(f"{here}/ag-ui", {"text": "two"}, threadId=thread)
    joined = drive(url, {}, threadId=thread, messages=joined["messages"])
    assert contents(joined["messages"])[-1] == ("assistant", "heard two")


async def test_a_page_that_lost_its_messages_goes_on_in_its_thread(
    agents: Agents, http: httpx.AsyncClient, drive: Drive
) -> None:
    here, there = agents("fragile")
    held = drive(f"{here}/ag-ui", {"text": "one"})
    thread, new = held["threadId"], {"id": "of-the-new-page", "role": "user", "content": "two"}
    drive(f"{there}/ag-ui", {}, threadId=thread, messages=[new])
    stored = (await http.get(f"{here}/ag-ui/threads/{thread}")).json()["messages"]
    assert contents(stored) == [*BROKEN[:2], *BROKEN[3:]]
