"""Agents of the official SDK's server, by URL, as agents of the fleet."""

import asyncio
from typing import Any

import httpx
import pytest

from headrace import Provider, Retry
from headrace.adapters import ApiKey, Bearer, ClientCredentials, remote_agent
from headrace.jetstream.objects import FileOwner, FileStore
from headrace.model.messages import Control
from headrace.sdk.errors import Misdeclared
from tests.integration.worker.conftest import Spawn, Working
from tests.support.examples import example
from tests.support.log_reading import answer, folded, said, state, words
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import own_settings, running
from tests.support.scripted_executor import BINDINGS, ScriptedExecutor, outside_agent
from tests.support.sdk_server import SdkServer, sdk_server
from tests.support.task_submitter import Task, TaskSubmitter, user_message
from tests.support.waiting import eventually


@pytest.mark.parametrize("binding", BINDINGS)
async def test_its_output_is_sent_over_every_binding(
    submitter: TaskSubmitter, working: Working, binding: str
) -> None:
    async with (
        sdk_server(ScriptedExecutor()) as server,
        working(await outside_agent(server.url, binding=binding)),
    ):
        task = await submitter.start("outside", "all is well")
        done = await folded(task)
    assert (state(done), words(done)) == ("COMPLETED", "Done.")
    reply, count = done["artifacts"]
    assert reply["parts"][0]["text"] == "Reply: all is well"
    assert reply["parts"][0]["metadata"]["agui_event_type"] == "content_block"
    assert (count["name"], count["parts"][0]["data"]) == ("count", 3)
    assert said(done) == [
        {"text": "starting", "metadata": {"agui_event_type": "task"}},
    ]
    assert done["metadata"]["remote_task"]


async def test_its_card_is_taken_over() -> None:
    async with sdk_server(ScriptedExecutor()) as server:
        card = (await asyncio.to_thread(remote_agent, server.url)).card
        named = (await outside_agent(server.url, name="x", description="Ours.")).card
    assert (card.name, card.description, card.version) == ("Scripted-Executor", "Replies.", "7")
    assert (card.title, card.icon_url) == ("Scripted Executor", "https://vendor.example/icon.png")
    assert card.provider == Provider(organization="Vendor", url="https://vendor.example")
    assert card.documentation_url == "", "what is no page is not linked to"
    assert (card.input_modes, card.output_modes) == (["text/plain"], ["text/markdown"])
    assert card.skills == [
        {"id": "reply", "name": "Reply", "description": "Repeats it.", "tags": ["text"]}
    ]
    assert (named.name, named.description) == ("x", "Ours.")


def test_without_card_and_name_there_is_no_agent() -> None:
    with pytest.raises(Misdeclared, match="card"):
        remote_agent("http://127.0.0.1:1", card_timeout=1)
    assert remote_agent("http://127.0.0.1:1", name="x", card_timeout=1).name == "x"
    with pytest.raises(Misdeclared, match="SOAP"):
        remote_agent("http://127.0.0.1:1", name="x", binding="SOAP")
    taken: Any = {"clean_up": print}
    with pytest.raises(Misdeclared, match="leave out clean_up"):
        remote_agent("http://127.0.0.1:1", name="x", card_timeout=0, **taken)


@pytest.mark.parametrize("binding", BINDINGS)
async def test_its_question_is_relayed_and_the_follow_up_goes_to_the_same_task(
    submitter: TaskSubmitter, working: Working, binding: str
) -> None:
    executor = ScriptedExecutor()
    async with (
        sdk_server(executor) as server,
        working(await outside_agent(server.url, binding=binding)),
    ):
        task = await submitter.start("outside", "ask")
        request = await folded(task)
        assert (state(request), words(request)) == ("INPUT_REQUIRED", "Which text?")
        run = await task.follow_up("fire")
        await task.reaches(run + 3)
        done = await folded(task)
    assert executor.received == ["ask", "fire"]
    assert (state(done), words(done)) == ("COMPLETED", "Done.")
    assert done["artifacts"][0]["parts"][0]["text"] == "Reply: fire"
    assert [part["text"] for part in said(done)].count("Which text?") == 1


@pytest.mark.parametrize("binding", BINDINGS)
async def test_an_answer_that_reaches_a_replica_without_the_task_keeps_the_question(
    submitter: TaskSubmitter, working: Working, binding: str
) -> None:
    executors = ScriptedExecutor(), ScriptedExecutor()
    async with sdk_server(executors[0]) as server, sdk_server(executors[1]) as replica:
        async with working(await outside_agent(server.url, binding=binding)):
            task = await submitter.start("outside", "ask")
            await folded(task)
        async with working(await outside_agent(replica.url, binding=binding)):
            for _ in range(2):
                run = await task.follow_up("fire")
                await task.reaches(run + 2)
                again = await folded(task)
                assert state(again) == "INPUT_REQUIRED"
                assert words(again).startswith("The answer was not used: the remote agent does not")
                assert words(again).endswith("as they wait.\nWhich text?")
                assert words(again).count("The answer was not used") == 1
        async with working(await outside_agent(server.url, binding=binding)):
            run = await task.follow_up("fire")
            await task.reaches(run + 3)
            done = await folded(task)
    assert (executors[0].received, executors[1].received) == (["ask", "fire"], [])
    assert (state(done), answer(done)) == ("COMPLETED", "Reply: fire")


async def test_neither_the_outside_agent_nor_the_client_chooses_which_task_a_follow_up_is_for(
    submitter: TaskSubmitter, working: Working
) -> None:
    executor = ScriptedExecutor()
    async with sdk_server(executor) as server, working(await outside_agent(server.url)):
        task = await submitter.start(
            "outside", "ask for another", metadata={"remote_task": "a", "remote_context": "a"}
        )
        assert state(await folded(task)) == "INPUT_REQUIRED"
        wrong = {"remote_task": "b", "remote_context": "b"}
        run = await task.follow_up_with(user_message("fire"), wrong)
        await task.reaches(run + 3)
        done = await folded(task)
    assert executor.received == ["ask for another", "fire"]
    assert (state(done), answer(done)) == ("COMPLETED", "Reply: fire")


async def test_users_with_one_context_id_have_a_conversation_each(
    submitter: TaskSubmitter, working: Working
) -> None:
    executor = ScriptedExecutor()
    async with (
        sdk_server(executor) as server,
        working(await outside_agent(server.url), await outside_agent(server.url, name="other")),
    ):
        task = await submitter.start("outside", "ask", context="same", owner="ada")
        await folded(task)
        run = await task.follow_up("fire")
        await task.reaches(run + 3)
        await folded(task)
        for agent, owner in [("outside", "ada"), ("outside", "eve"), ("other", "ada")]:
            await folded(await submitter.start(agent, "x", context="same", owner=owner))
    first, answered, again, *others = [request.context_id for request in executor.requests]
    assert first == answered == again
    assert len({"same", first, *others}) == 4


@pytest.mark.parametrize("binding", BINDINGS)
async def test_it_is_given_files_and_what_the_client_accepts(
    submitter: TaskSubmitter, working: Working, binding: str
) -> None:
    executor = ScriptedExecutor()
    async with (
        sdk_server(executor) as server,
        working(await outside_agent(server.url, binding=binding)),
    ):
        kept = await submitter.start("outside", "x", context="files", publish=False)
        mine = FileOwner("anonymous", "files")
        link = await FileStore(submitter.bus).put(
            kept.key, mine, b"PNG" * 70_000, "a.png", "image/png"
        )
        image = {"url": link, "mediaType": "image/png", "filename": "a.png"}
        message = {**user_message("look"), "parts": [{"text": "look"}, image]}
        modes = {"headrace.acceptedOutputModes": ["text/markdown"]}
        await folded(
            await submitter.start("outside", message=message, metadata=modes, context="files")
        )
    [request] = executor.requests
    assert request.message is not None
    text, file = request.message.parts
    assert (text.text, file.raw, file.filename) == ("look", b"PNG" * 70_000, "a.png")
    assert request.configuration is not None
    assert list(request.configuration.accepted_output_modes) == ["text/markdown"]


async def test_credentials_it_requests_come_from_our_user(
    submitter: TaskSubmitter, working: Working
) -> None:
    executor = ScriptedExecutor()
    async with sdk_server(executor) as server, working(await outside_agent(server.url)):
        task = await submitter.start("outside", "auth")
        await eventually(lambda: _waits(task))
        await task.held()
        message = Control(ask="input", input="one", message=user_message("token 7"))
        await task.bus.request(task.bus.subjects.control(task.key), message.encode(), 30.0)
        done = await folded(task)
    assert executor.received == ["auth", "token 7"]
    assert (state(done), answer(done)) == ("COMPLETED", "Reply: token 7")


async def test_credentials_that_are_not_provided_end_both_tasks(
    submitter: TaskSubmitter, working: Working
) -> None:
    executor = ScriptedExecutor()
    async with (
        sdk_server(executor) as server,
        working(await outside_agent(server.url, auth_timeout=0.1)),
    ):
        done = await folded(await submitter.start("outside", "auth"))
    assert (state(done), executor.canceled) == ("REJECTED", [done["metadata"]["remote_task"]])


async def test_it_is_an_agent_of_the_fleet_at_the_gateway(
    submitter: TaskSubmitter, working: Working, names: dict[str, str]
) -> None:
    settings = own_settings(submitter.bus.settings.nats_url, **names)
    async with (
        sdk_server(ScriptedExecutor()) as server,
        working(await outside_agent(server.url)),
        running(settings) as gateway,
        httpx.AsyncClient(
            base_url=f"{gateway}/v1/agents/outside", timeout=60, verify=NO_TLS
        ) as http,
    ):
        card = (await http.get("/.well-known/agent-card.json")).json()
        answered = await http.post("/message:stream", json={"message": user_message("fire")})
    assert [skill["id"] for skill in card["skills"]] == ["reply"]
    assert "Reply: " in answered.text
    assert "TASK_STATE_COMPLETED" in answered.text


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_cancel_reaches_its_task(
    submitter: TaskSubmitter, working: Working, binding: str
) -> None:
    executor = ScriptedExecutor()
    async with (
        sdk_server(executor) as server,
        working(await outside_agent(server.url, binding=binding)),
    ):
        task = await submitter.start("outside", "slowly")
        await _began(executor, task)
        await task.ask("cancel")
        done = await folded(task)
    assert state(done) == "CANCELED"
    assert executor.canceled == [done["metadata"]["remote_task"]]


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_broken_stream_is_reopened_and_nothing_is_emitted_twice(
    submitter: TaskSubmitter, working: Working, binding: str
) -> None:
    executor = ScriptedExecutor()
    async with (
        sdk_server(executor, bindings=[binding]) as server,
        working(await outside_agent(server.url)),
    ):
        task = await submitter.start("outside", "slowly")
        await _began(executor, task)
        await (server.by_grpc if binding == "GRPC" else server.proxy).cut()
        executor.go_on.set()
        done = await folded(task)
    assert executor.received == ["slowly"]
    assert (state(done), done["artifacts"][0]["parts"][0]["text"]) == ("COMPLETED", "Reply: slowly")
    assert len(said(done)) == 1


async def test_a_silent_stream_is_opened_anew(submitter: TaskSubmitter, working: Working) -> None:
    executor = ScriptedExecutor()
    async with (
        sdk_server(executor, bindings=["JSONRPC"]) as server,
        working(await outside_agent(server.url, silence=1.0)),
    ):
        task = await submitter.start("outside", "slowly")
        await _began(executor, task)
        # The card twice, the message, the stream after the one that was silent.
        await eventually(lambda: _has_asked(server, 4))
        executor.go_on.set()
        done = await folded(task)
    assert (answer(done), executor.received) == ("Reply: slowly", ["slowly"])


@pytest.mark.parametrize("binding", ["JSONRPC", "GRPC"])
async def test_a_new_attempt_follows_the_same_task_and_emits_all_of_it(
    submitter: TaskSubmitter, working: Working, binding: str
) -> None:
    executor = ScriptedExecutor()
    async with sdk_server(executor) as server:
        agent = await outside_agent(server.url, binding=binding)
        async with working(agent):
            task = await submitter.start("outside", "slowly")
            await _began(executor, task)
        # That worker has left; nobody told the outside to stop.
        async with working(agent):
            await task.held()
            executor.go_on.set()
            done = await folded(task)
    assert (executor.received, executor.canceled) == (["slowly"], [])
    assert (state(done), done["artifacts"][0]["parts"][0]["text"]) == ("COMPLETED", "Reply: slowly")
    assert [part["text"] for part in said(done)] == ["starting"]


async def test_a_killed_workers_successor_follows_the_same_task(
    submitter: TaskSubmitter, spawn: Spawn
) -> None:
    executor = ScriptedExecutor()
    async with sdk_server(executor, bindings=["JSONRPC"]) as server:
        target = "tests.support.outside_agent:outside"
        first = await asyncio.to_thread(spawn, target, outside_url=server.url)
        task = await submitter.start("outside", "slowly")
        await _began(executor, task)
        await asyncio.to_thread(spawn, target, outside_url=server.url)
        await asyncio.to_thread(first.kill)
        await eventually(lambda: _is_at_attempt(task, 2))
        executor.go_on.set()
        done = await folded(task)
    assert (executor.received, executor.canceled) == (["slowly"], [])
    assert (state(done), done["artifacts"][0]["parts"][0]["text"]) == ("COMPLETED", "Reply: slowly")
    assert [part["text"] for part in said(done)] == ["starting"]


async def test_an_agent_that_does_not_stream_is_polled(
    submitter: TaskSubmitter, working: Working
) -> None:
    executor = ScriptedExecutor()
    async with (
        sdk_server(executor, streaming=False, bindings=["JSONRPC"]) as server,
        working(await outside_agent(server.url)),
    ):
        task = await submitter.start("outside", "slowly")
        await eventually(lambda: _shows(task, "Reply: "))
        executor.go_on.set()
        done = await folded(task)
    assert (state(done), done["artifacts"][0]["parts"][0]["text"]) == ("COMPLETED", "Reply: slowly")
    assert executor.received == ["slowly"]


async def test_a_bare_message_is_the_last_word(submitter: TaskSubmitter, working: Working) -> None:
    async with sdk_server(ScriptedExecutor()) as server, working(await outside_agent(server.url)):
        done = await folded(await submitter.start("outside", "bare"))
    assert (state(done), words(done)) == ("COMPLETED", "a bare message")


async def test_a_refusal_rejects_with_its_reason(
    submitter: TaskSubmitter, working: Working
) -> None:
    executor = ScriptedExecutor()
    async with sdk_server(executor) as server, working(await outside_agent(server.url)):
        done = await folded(await submitter.start("outside", "refuse"))
    assert state(done) in {"REJECTED", "FAILED"}
    assert executor.received == ["refuse"]


async def test_an_agent_out_of_reach_is_tried_again_and_then_given_up(
    submitter: TaskSubmitter, working: Working
) -> None:
    executor = ScriptedExecutor()
    async with (
        sdk_server(executor, bindings=["JSONRPC"]) as server,
        working(await outside_agent(server.url, retry=Retry(attempts=3, backoff=0.0))),
    ):
        proxy = server.proxy
        proxy.refuses = True
        given_up = await folded(await submitter.start("outside", "x"))
        taken = proxy.taken
        proxy.refuses = False
        done = await folded(await submitter.start("outside", "y"))
    assert state(given_up) == "FAILED"
    assert "busy or unreachable" in words(given_up)
    assert taken >= 3
    assert (state(done), executor.received) == ("COMPLETED", ["y"])


async def test_api_keys_tokens_and_headers_let_it_in(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with sdk_server(ScriptedExecutor(), bindings=["JSONRPC"]) as server:
        cases: list[tuple[dict[str, Any], dict[str, str]]] = [
            ({"credentials": ApiKey("k", "X-Outside")}, {"x-outside": "k"}),
            ({"credentials": ApiKey("k")}, {"x-api-key": "k"}),
            ({"credentials": Bearer("t")}, {"authorization": "Bearer t"}),
            ({"headers": {"X-Tenant": "a"}}, {"x-tenant": "a"}),
        ]
        for given, needed in cases:
            server.headers = needed
            async with working(await outside_agent(server.url, **given)):
                done = await folded(await submitter.start("outside", "x"))
            assert (state(done), server.refused) == ("COMPLETED", 0)


async def test_a_token_is_fetched_once_and_anew_when_it_is_refused(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with sdk_server(ScriptedExecutor(), bindings=["JSONRPC"]) as server:
        issuer = ClientCredentials("me", "secret", f"{server.url}/token", scopes=["reply"])
        async with working(await outside_agent(server.url, credentials=issuer)):
            server.headers = {"authorization": "Bearer token-1"}
            first = await folded(await submitter.start("outside", "x"))
            again = await folded(await submitter.start("outside", "x"))
            assert len(server.issued) == 1
            server.headers = {"authorization": "Bearer token-2"}
            renewed = await folded(await submitter.start("outside", "x"))
    assert {state(first), state(again), state(renewed)} == {"COMPLETED"}
    assert (server.refused, len(server.issued)) == (1, 2)
    assert server.issued[0]["grant_type"] == "client_credentials"
    assert server.issued[0]["scope"] == "reply"
    assert server.issued[0]["auth"].startswith("Basic ")
    assert "secret" not in repr(issuer)


async def test_wrong_credentials_reject_at_once(submitter: TaskSubmitter, working: Working) -> None:
    async with sdk_server(ScriptedExecutor(), bindings=["JSONRPC"]) as server:
        server.headers = {"authorization": "Bearer right"}
        async with working(await outside_agent(server.url, credentials=Bearer("wrong"))):
            done = await folded(await submitter.start("outside", "x"))
    assert state(done) == "REJECTED"
    assert "wrong" not in words(done)


async def test_the_example_speaks_to_its_agent(submitter: TaskSubmitter, working: Working) -> None:
    async with sdk_server(ScriptedExecutor()) as server:
        agent = await asyncio.to_thread(
            lambda: example("outside_agent", OUTSIDE_URL=server.url).outside
        )
        async with working(agent):
            done = await folded(await submitter.start("outside", "x"))
    assert answer(done) == "Reply: x"


async def _began(executor: ScriptedExecutor, task: Task) -> None:
    async with asyncio.timeout(60):
        await executor.began.wait()
    await eventually(lambda: _shows(task, "Reply: "))
    await task.held()


async def _shows(task: Task, text: str) -> bool:
    found = await task.found()
    artifacts = found.task.get("artifacts", [])
    return bool(artifacts) and artifacts[0]["parts"][0]["text"] == text


async def _waits(task: Task) -> bool:
    return (await task.last()).stamp.state == "TASK_STATE_AUTH_REQUIRED"


async def _has_asked(server: SdkServer, requests: int) -> bool:
    return server.requests >= requests


async def _is_at_attempt(task: Task, attempt: int) -> bool:
    return (await task.last()).stamp.attempt >= attempt
