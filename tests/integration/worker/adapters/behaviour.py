"""What every adapter does alike: one suite, run against each with its real library.

An adapter's test module subclasses the classes of what its framework can do (`AsksItsModel`,
`StreamsArguments`, `Images`, `ClientTools`, `Approvals`, `SharedState`), names a model server that
speaks the wire format of its framework, and has a function ``build(url, office, **options)`` at its
top level, which makes the agent ``agent`` of the model at `url` with the tools of an `Office`. What
works differently in a framework the module overrides, with the reason; `docs/adapter-tests.md` says
why a class is left out.
"""

import asyncio
import base64
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from headrace import Agent
from headrace.adapters.conversation.of_log import turns_of_log
from headrace.jetstream.objects import FileOwner, FileStore
from headrace.model import events, parts
from headrace.model.events import INTERRUPTS, PENDING_TOOL_CALLS, Json
from headrace.model.task import CANCELED
from headrace.testing import TaskResult, TestFleet
from headrace_gateway.tasks.terms import check_parts
from tests.integration.worker.adapters.office import Office
from tests.integration.worker.adapters.wire import (
    Model,
    ModelMessage,
    ModelOutput,
    Refuses,
    Script,
    calls,
    chat_model,
    replies,
)
from tests.integration.worker.conftest import Spawn, Working
from tests.support.log_reading import (
    answer,
    folded,
    results,
    said,
    state,
    words,
)
from tests.support.pseudo_terminal import at_terminal
from tests.support.running_gateway import own_settings, running
from tests.support.servers import NatsProcess
from tests.support.task_submitter import Task, TaskSubmitter
from tests.support.worker_process import WorkerProcess

BOB = calls(("c1", "mail", {"to": "bob"}))
BOTH = calls(("c1", "mail", {"to": "bob"}), ("c2", "mail", {"to": "eve"}))
REFUND = calls(("c1", "refund", {"order": "A1", "amount": 5}))
IMAGE = b"\x89PNG" + bytes(1_000_000)
PAINT = {"name": "paint", "description": "Paint it.", "parameters": {"type": "object"}}


type Serve = Callable[..., AbstractAsyncContextManager[Model]]
type Kill = Callable[[Model], WorkerProcess]


@pytest.mark.usefixtures("task_state")
class Behaviour:
    """What every adapter does."""

    model: ClassVar[Any] = staticmethod(chat_model)
    """A model server of `Script`s: a context manager that yields a `Model`."""
    calls_tools: ClassVar[bool] = True
    """Whether the worker does; a backend that does asks its model before the worker is told."""
    imports: ClassVar[tuple[str, ...]] = ()
    """Modules that `build` imports: they take seconds, and a worker process finds them imported."""

    @property
    def build(self) -> Callable[..., Agent]:
        """How the agent is made."""
        made: Callable[..., Agent] = sys.modules[type(self).__module__].build
        return made

    @pytest.fixture
    def office(self, tmp_path: Path) -> Office:
        """Where the tools leave their traces."""
        folder = tmp_path / "office"
        folder.mkdir()
        return Office(folder)

    @pytest.fixture
    def serve(self, working: Working, office: Office) -> Serve:
        """How to serve a model that follows a script, and the agent of it."""

        @asynccontextmanager
        async def start(script: Script, **options: object) -> AsyncIterator[Model]:
            async with self.model(script) as model:
                made = self.build(model.url, office, **options)
                async with working(made):
                    yield model

        return start

    @pytest.fixture
    def kill(self, spawn: Spawn, office: Office) -> Kill:
        """How to start a worker process that serves the agent."""

        def start(model: Model) -> WorkerProcess:
            target = "tests.integration.worker.adapters.serving:agents"
            module = type(self).__module__
            imports = (module, *self.imports)
            given = {"adapter": module, "model": model.url, "office": office.folder}
            return spawn(target, imports=imports, **given)

        return start

    async def test_a_second_turn_gets_the_first_unchanged(
        self, submitter: TaskSubmitter, serve: Serve
    ) -> None:
        script = [BOB, replies("I mailed ", "bob."), replies("You asked for a mail.")]
        async with serve(script) as model:
            first = await folded(await submitter.start("agent", "Mail bob.", context="shared"))
            second = await folded(await submitter.start("agent", "What was it?", context="shared"))
        assert (state(first), answer(first)) == ("COMPLETED", "I mailed bob.")
        assert answer(second) == "You asked for a mail."
        assert lines(model.conversations[2]) == [
            "user: Mail bob.",
            "assistant: mail(bob)",
            "tool: sent to bob",
            "assistant: I mailed bob.",
            "user: What was it?",
        ]

    async def test_users_with_one_context_id_are_strangers(
        self, submitter: TaskSubmitter, serve: Serve
    ) -> None:
        script = [replies("Noted."), replies("I know nothing.")]
        async with serve(script) as model:
            await folded(await submitter.start("agent", "It is 1234.", context="same", owner="ada"))
            await folded(await submitter.start("agent", "What is it?", context="same", owner="eve"))
        assert lines(model.conversations[1]) == ["user: What is it?"]

    async def test_parallel_tasks_of_one_context_are_each_answered_and_all_remembered(
        self, submitter: TaskSubmitter, serve: Serve
    ) -> None:
        def script(received: list[ModelMessage]) -> ModelOutput:
            return replies(f"About {received[-1].text}.")

        async with serve(script) as model:
            tasks = [await submitter.start("agent", name, context="shared") for name in "abc"]
            done = await asyncio.gather(*map(folded, tasks))
            await folded(await submitter.start("agent", "And?", context="shared"))
        assert [answer(task) for task in done] == ["About a.", "About b.", "About c."]
        received = lines(model.conversations[3])
        assert sorted(received[:-1]) == [
            *(f"assistant: About {name}." for name in "abc"),
            *(f"user: {name}" for name in "abc"),
        ]
        assert received[-1] == "user: And?"

    async def test_parallel_calls_are_all_answered(
        self, submitter: TaskSubmitter, serve: Serve, office: Office
    ) -> None:
        async with serve([BOTH, replies("Done.")]) as model:
            done = await folded(await submitter.start("agent", "Mail both."))
        assert (state(done), answer(done)) == ("COMPLETED", "Done.")
        assert sorted(office.done("sent")) == ["bob", "eve"]
        assert sorted(lines(model.conversations[1])[2:]) == [
            "tool: sent to bob",
            "tool: sent to eve",
        ]
        assert sorted(received.answers for received in model.conversations[1][2:]) == ["c1", "c2"]

    async def test_an_id_that_recurs_in_a_run_is_another_call(
        self, submitter: TaskSubmitter, serve: Serve, office: Office
    ) -> None:
        script = [BOB, calls(("c1", "mail", {"to": "eve"})), replies("Done.")]
        async with serve(script):
            task = await submitter.start("agent", "Mail both.")
            turns = turns_of_log(await task.ended())
            assert state(await folded(task)) == "COMPLETED"
        called = [(call.id, call.arguments) for turn in turns for call in turn.calls]
        assert [arguments for _, arguments in called] == [{"to": "bob"}, {"to": "eve"}]
        answered_ids = [turn.result.id for turn in turns if turn.result is not None]
        assert answered_ids == [name for name, _ in called]
        assert len(set(answered_ids)) == 2
        assert office.done("sent") == ["bob", "eve"]

    @pytest.mark.parametrize(
        "error",
        [[Refuses(429)] * 4, [Refuses(503)] * 4, [replies("I ma", cut=True)]],
        ids=["busy", "down", "cut"],
    )
    async def test_an_error_after_a_tool_round_repeats_the_request_and_no_tool(
        self, submitter: TaskSubmitter, serve: Serve, office: Office, error: list[Any]
    ) -> None:
        script = [BOB, *error, replies("Mailed.")]
        async with serve(script) as model:
            done = await folded(await submitter.start("agent", "Mail bob."))
        assert (state(done), answer(done)) == ("COMPLETED", "Mailed.")
        assert office.done("begun") == ["bob"]
        assert [content for content, _ in results(done)] == ["sent to bob"]
        assert lines(model.conversations[-1]) == lines(model.conversations[1])

    async def test_a_worker_killed_between_rounds_has_its_tools_not_run_again(
        self, submitter: TaskSubmitter, office: Office, kill: Kill, working: Working
    ) -> None:
        script = [BOB, replies("I ", hangs=True), replies("Mailed.")]
        async with self.model(script) as model:
            with kill(model) as worker:
                task = await submitter.start("agent", "Mail bob.")
                await model.until_received(2)
                if not self.calls_tools:
                    await until_printed(task, "sent to bob")
                worker.kill()
            async with working(self.build(model.url, office)):
                done = await folded(task)
        assert (state(done), answer(done)) == ("COMPLETED", "Mailed.")
        assert office.done("begun") == ["bob"]
        assert lines(model.conversations[2]) == lines(model.conversations[1])

    async def test_a_worker_killed_inside_a_round_has_the_finished_tools_not_run_again(
        self, submitter: TaskSubmitter, office: Office, kill: Kill, working: Working
    ) -> None:
        office.hold("eve")
        async with self.model([BOTH, replies("Done.")]) as model:
            with kill(model) as worker:
                task = await submitter.start("agent", "Mail both.")
                await until_printed(task, "sent to bob")
                worker.kill()
            office.release("eve")
            async with working(self.build(model.url, office)):
                done = await folded(task)
        assert (state(done), answer(done)) == ("COMPLETED", "Done.")
        assert office.done("sent") == ["bob", "eve"]
        assert sorted(lines(model.conversations[-1])[2:]) == [
            "tool: sent to bob",
            "tool: sent to eve",
        ]
        assert len(model.conversations) == 2

    async def test_a_cancel_amid_a_token_closes_the_models_stream(
        self, submitter: TaskSubmitter, serve: Serve
    ) -> None:
        script = [replies("and ", hangs=True)]
        async with serve(script) as model:
            task = await submitter.start("agent", "Go on.")
            await until_printed(task, "and ")
            await task.held()
            await task.ask("cancel")
            done = await folded(task)
            await model.until_left()
        assert state(done) == "CANCELED"

    async def test_a_fork_after_a_turn_knows_that_turn_and_none_after_it(
        self, office: Office
    ) -> None:
        script = [BOB, *map(replies, ("Mailed.", "Second.", "Third.", "Fourth."))]
        async with (
            self.model(script) as model,
            TestFleet([self.build(model.url, office)], timeout=60) as fleet,
        ):
            first = await fleet.send("agent", "Mail bob.")
            # The fork of a task that is over is a task of two turns.
            source = await first.handle.fork(None, "And then?")
            before = await source.result()
            await (await source.fork(generation(first), "Or else?")).result()
            assert (await source.now()).task == before.task
            await (await source.fork(None, "Go on.")).result()
        turn = ["user: Mail bob.", "assistant: mail(bob)", "tool: sent to bob"]
        turn += ["assistant: Mailed."]
        assert lines(model.conversations[2]) == [*turn, "user: And then?"]
        assert lines(model.conversations[3]) == [*turn, "user: Or else?"]
        assert lines(model.conversations[4]) == [
            *(*turn, "user: And then?"),
            *("assistant: Second.", "user: Go on."),
        ]
        assert office.done("sent") == ["bob"]

    async def test_a_fork_knows_the_tasks_before_its_source_and_none_after_it(
        self, office: Office
    ) -> None:
        script = [replies(text) for text in ("1.", "2.", "3.", "4.", "5.")]
        async with (
            self.model(script) as model,
            TestFleet([self.build(model.url, office)], timeout=60) as fleet,
        ):
            await fleet.send("agent", "One.", context="talk")
            source = (await fleet.send("agent", "Two.", context="talk")).handle
            await fleet.send("agent", "Three.", context="talk")
            await (await source.fork(None, "Fork.")).result()
            await fleet.send("agent", "Four.", context="talk")
        two = ["user: One.", "assistant: 1.", "user: Two.", "assistant: 2."]
        assert lines(model.conversations[3]) == [*two, "user: Fork."]
        assert lines(model.conversations[4]) == [
            *two,
            "user: Three.",
            "assistant: 3.",
            "user: Four.",
        ]


class StreamsArguments(Behaviour):
    """What a tool is called with is told while the model writes it."""

    async def test_arguments_stream(self, submitter: TaskSubmitter, serve: Serve) -> None:
        async with serve([BOB, replies("Done.")]):
            task = await submitter.start("agent", "Mail bob.")
            await folded(task)
        messages = [
            event["statusUpdate"]["status"].get("message") or {}
            for event in await task.events()
            if "statusUpdate" in event
        ]
        received = [part for message in messages for part in message.get("parts", ())]
        pieces = [part["text"] for part in received if parts.is_partial_tool_call(part)]
        assert [piece for piece in pieces if piece] == ['{"t', 'o":"bob"}']


class AsksItsModel(Behaviour):
    """The adapter asks the model itself, and so can ask again for what was cut off."""

    async def test_an_error_amid_an_agui_thread_repeats_no_tool(
        self, submitter: TaskSubmitter, serve: Serve, office: Office
    ) -> None:
        messages = [
            {"id": "1", "role": "user", "content": "Hello."},
            {"id": "2", "role": "assistant", "content": "Hi."},
            {"id": "3", "role": "user"},
        ]
        async with serve([BOB, replies("I ma", cut=True), replies("Mailed.")]) as model:
            agui = {"messages": messages}
            task = await submitter.start("agent", "Mail bob.", metadata={"headrace.agui": agui})
            done = await folded(task)
        assert (state(done), answer(done)) == ("COMPLETED", "Mailed.")
        assert office.done("begun") == ["bob"]
        assert lines(model.conversations[2]) == [
            "user: Hello.",
            "assistant: Hi.",
            "user: Mail bob.",
            "assistant: mail(bob)",
            "tool: sent to bob",
        ]

    async def test_a_call_that_is_cut_off_is_requested_again(
        self, submitter: TaskSubmitter, serve: Serve, office: Office
    ) -> None:
        cut = calls(("c1", "mail", {"to": "bob"}), cut=True)
        script = [cut, BOB, replies("Mailed.")]
        async with serve(script):
            done = await folded(await submitter.start("agent", "Mail bob."))
        assert (state(done), office.done("begun")) == ("COMPLETED", ["bob"])

    async def test_a_result_that_is_too_large_for_the_log_is_reported(
        self,
        submitter: TaskSubmitter,
        serve: Serve,
        office: Office,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        async def mail(to: str) -> str:
            """Send a mail."""
            return to * 500_000

        monkeypatch.setattr(office, "mail", mail)
        async with serve([BOB]):
            done = await folded(await submitter.start("agent", "Mail bob."))
        assert state(done) == "FAILED"
        assert "exceeds the limit of" in words(done)

    async def test_usage_is_counted(self, submitter: TaskSubmitter, serve: Serve) -> None:
        # What an attempt has spent before it failed is spent.
        async with serve([BOB, *[Refuses(429)] * 4, replies("Done.")]):
            done = await folded(await submitter.start("agent", "Mail bob."))
        assert done["metadata"]["tokens_used"] == 30


class Images(Behaviour):
    """Models are shown images."""

    async def test_images_reach_the_model_in_this_turn_and_the_next(
        self, submitter: TaskSubmitter, serve: Serve, office: Office
    ) -> None:
        small = b"\x89PNG" + bytes(1000)
        script = [replies("Two."), replies("Two, still.")]
        async with serve(script) as model:
            card = self.build(model.url, office).card
            task = await submitter.start("agent", "x", context="shared", publish=False)
            link = await FileStore(submitter.bus).put(
                task.key, FileOwner("anonymous", "shared"), IMAGE, "large.png", "image/png"
            )
            message: Json = {
                "messageId": "m",
                "role": "ROLE_USER",
                "parts": [
                    {"text": "How many?"},
                    {"raw": base64.b64encode(small).decode(), "mediaType": "image/png"},
                    {"url": link, "mediaType": "image/png", "filename": "large.png"},
                ],
            }
            check_parts(message, card)
            await folded(await submitter.start("agent", message=message, context="shared"))
            await folded(await submitter.start("agent", "Sure?", context="shared"))
        assert model.conversations[0][-1].images == [small, IMAGE]
        [requests] = [received for received in model.conversations[1] if received.images]
        assert requests.images == [small, IMAGE]


class ClientTools(Behaviour):
    """Tools of the client are offered to the model."""

    refuses_names: ClassVar[bool] = False
    """Whether a client's tool of the name of one of the agent's own is refused, not left out."""

    async def test_a_clients_tool_is_the_clients_to_run(
        self, submitter: TaskSubmitter, serve: Serve
    ) -> None:
        script = [calls(("p1", "paint", {"colour": "red"})), replies("Painted.")]
        own = [] if self.refuses_names else [{**PAINT, "name": "mail"}]
        agui: Json = {"tools": [PAINT, *own]}
        async with serve(script) as model:
            task = await submitter.start("agent", "Paint.", metadata={"headrace.agui": agui})
            waits = (await task.events())[-1]["statusUpdate"]
            assert waits["metadata"][PENDING_TOOL_CALLS] == ["p1"]
            result = parts.tool_result_part("p1", "wet")
            done = await answered(task, result, {"headrace.agui": agui})
        assert (state(done), answer(done)) == ("COMPLETED", "Painted.")
        assert lines(model.conversations[1])[1:] == ["assistant: paint(red)", "tool: wet"]

    async def test_a_clients_result_is_used_without_a_memory(
        self, submitter: TaskSubmitter, serve: Serve
    ) -> None:
        agui: Json = {"headrace.agui": {"tools": [PAINT]}}
        script = [calls(("p1", "paint", {"colour": "red"})), replies("Painted.")]
        async with serve(script, memory="none") as model:
            task = await submitter.start("agent", "Paint it.", metadata=agui)
            await task.ended()
            done = await answered(task, parts.tool_result_part("p1", "wet"), agui)
        assert (state(done), answer(done)) == ("COMPLETED", "Painted.")
        assert lines(model.conversations[1])[-2:] == ["assistant: paint(red)", "tool: wet"]

    async def test_a_clients_tool_of_the_agents_own_name_is_the_agents(
        self, submitter: TaskSubmitter, serve: Serve, office: Office
    ) -> None:
        agui: Json = {"tools": [{**PAINT, "name": "mail"}]}
        async with serve([BOB, replies("Done.")]):
            done = await folded(
                await submitter.start("agent", "Mail bob.", metadata={"headrace.agui": agui})
            )
        assert (state(done), office.done("sent")) == ("COMPLETED", ["bob"])


class Approvals(Behaviour):
    """Tools can need approval: ``refund`` does."""

    labels_arguments: ClassVar[bool] = True
    """Whether an approval says what the tool's arguments are; an outside agent may not."""

    hears_words_beside: ClassVar[bool] = True
    """Whether the model is told what its user says beside an answer."""

    @pytest.mark.parametrize(
        ("payload", "refunded", "received"),
        [
            ({"approved": True}, ["A1:5"], "refunded A1"),
            ({"approved": True, "editedArgs": {"order": "A1", "amount": 2}}, ["A1:2"], "refunded"),
            ({"approved": False, "reason": "too much"}, [], "too much"),
        ],
        ids=["approved", "edited", "rejected"],
    )
    async def test_an_approval_is_requested_and_heeded(  # noqa: PLR0917  # fixtures
        self,
        submitter: TaskSubmitter,
        serve: Serve,
        office: Office,
        payload: Json,
        refunded: list[str],
        received: str,
    ) -> None:
        async with serve([REFUND, replies("So be it.")]) as model:
            task = await submitter.start("agent", "Refund A1.")
            [interrupt] = await interrupts(task)
            told = interrupt["responseSchema"]["properties"]
            assert told["approved"] == {"type": "boolean"}
            if self.labels_arguments:
                assert told["editedArgs"]["properties"]["order"]["type"] == "string"
            else:
                assert told["editedArgs"]["type"] == "object"
            assert interrupt["message"].startswith("Approve refund({")
            assert office.done("refunded") == []
            done = await answered(task, approval(interrupt["id"], payload))
        assert (state(done), answer(done)) == ("COMPLETED", "So be it.")
        assert office.done("refunded") == refunded
        assert received in model.conversations[1][-1].text

    async def test_an_answer_is_used_without_a_memory(
        self, submitter: TaskSubmitter, serve: Serve, office: Office
    ) -> None:
        script = [REFUND, replies("So be it."), replies("Hello.")]
        async with serve(script, memory="none") as model:
            task = await submitter.start("agent", "Refund A1.", context="shared")
            await interrupts(task)
            again = await answered(task, {"data": {"approved": 1}})
            assert state(again) == "INPUT_REQUIRED"
            done = await answered(task, {"text": "yes"})
            await folded(await submitter.start("agent", "Hi.", context="shared"))
        assert (state(done), answer(done)) == ("COMPLETED", "So be it.")
        assert office.done("refunded") == ["A1:5"]
        assert lines(model.conversations[1])[-2:] == [
            "assistant: refund(A1,5)",
            "tool: refunded A1",
        ]
        assert lines(model.conversations[2]) == ["user: Hi."]

    async def test_a_user_approves_on_a_terminal(
        self, nats_server: NatsProcess, names: dict[str, str], serve: Serve, office: Office
    ) -> None:
        settings = own_settings(nats_server.url, **names)

        def approve(url: str) -> tuple[int, str]:
            with at_terminal("send", "--agent", "agent", "--url", url, "Refund A1.") as terminal:
                terminal.until("INPUT_REQUIRED")
                terminal.until("\n> ")
                terminal.type("yes")
                return terminal.end(), terminal.text

        async with running(settings) as url, serve([REFUND, replies("So be it.")]):
            code, shown = await asyncio.to_thread(approve, url)
        assert (code, office.done("refunded")) == (0, ["A1:5"])
        assert "So be it." in shown
        assert "─ refund ─" in shown

    async def test_later_turns_get_the_result_of_an_approval(
        self, submitter: TaskSubmitter, serve: Serve
    ) -> None:
        async with serve([REFUND, replies("Done."), replies("A refund.")]) as model:
            task = await submitter.start("agent", "Refund A1.", context="shared")
            [interrupt] = await interrupts(task)
            beside = [{"text": "And hurry."}]
            await answered(task, approval(interrupt["id"], {"approved": True}), more=beside)
            await folded(await submitter.start("agent", "What was it?", context="shared"))
        assert lines(model.conversations[2]) == [
            "user: Refund A1.",
            "assistant: refund(A1,5)",
            "tool: refunded A1",
            *(["user: And hurry."] if self.hears_words_beside else []),
            "assistant: Done.",
            "user: What was it?",
        ]

    async def test_an_error_behind_an_approval_repeats_the_request_alone(
        self, submitter: TaskSubmitter, serve: Serve, office: Office
    ) -> None:
        async with serve([REFUND, *[Refuses(429)] * 4, replies("Done.")]) as model:
            task = await submitter.start("agent", "Refund A1.")
            [interrupt] = await interrupts(task)
            done = await answered(task, approval(interrupt["id"], {"approved": True}))
        assert (state(done), answer(done)) == ("COMPLETED", "Done.")
        assert office.done("refunded") == ["A1:5"]
        assert lines(model.conversations[-1]) == lines(model.conversations[1])

    async def test_a_canceled_approval_is_a_refusal(
        self, submitter: TaskSubmitter, serve: Serve, office: Office
    ) -> None:
        async with serve([REFUND, replies("Fine.")]) as model:
            task = await submitter.start("agent", "Refund A1.")
            [interrupt] = await interrupts(task)
            done = await answered(task, approval(interrupt["id"], None, "cancelled"))
        assert (state(done), office.done("refunded")) == ("COMPLETED", [])
        assert [received.answers for received in model.conversations[1]] == ["", "", "c1"]

    async def test_an_answer_that_can_not_be_understood_is_requested_again(
        self, submitter: TaskSubmitter, serve: Serve, office: Office
    ) -> None:
        async with serve([REFUND, replies("Refunded.")]):
            task = await submitter.start("agent", "Refund A1.")
            [interrupt] = await interrupts(task)
            again = await answered(task, approval(interrupt["id"], {"approved": 1}))
            assert state(again) == "INPUT_REQUIRED"
            assert f"the answer to {interrupt['id']}: " in words(again)
            assert await interrupts(task) == [interrupt]
            assert office.done("refunded") == []
            done = await answered(task, {"text": "yes"})
        assert (state(done), answer(done)) == ("COMPLETED", "Refunded.")
        assert office.done("refunded") == ["A1:5"]

    async def test_a_fork_at_an_approval_is_answered_apart_from_its_source(
        self, office: Office
    ) -> None:
        script = [REFUND, replies("Refunded."), replies("Kept.")]
        async with (
            self.model(script) as model,
            TestFleet([self.build(model.url, office)], timeout=60) as fleet,
        ):
            waiting = await fleet.send("agent", "Refund A1.")
            [interrupt] = waiting.interrupts
            source = waiting.handle
            done = await source.reply([approval(interrupt["id"], {"approved": True})])
            fork = await source.fork(generation(waiting))
            assert (await fork.result()).interrupts == [interrupt]
            refused = {"approved": False, "reason": "too much"}
            forked = await fork.reply([approval(interrupt["id"], refused)])
            assert (await source.now()).task == done.task
        assert (done.state, forked.state) == ("completed", "completed")
        assert office.done("refunded") == ["A1:5"]
        assert lines(model.conversations[2])[:2] == ["user: Refund A1.", "assistant: refund(A1,5)"]
        assert "too much" in model.conversations[2][-1].text

    async def test_several_approvals_are_requested_at_once(
        self, submitter: TaskSubmitter, serve: Serve, office: Office
    ) -> None:
        both = calls(("c1", "refund", {"order": "A1"}), ("c2", "refund", {"order": "A2"}))
        async with serve([both, replies("Done.")]) as model:
            task = await submitter.start("agent", "Refund both.")
            # What runs side by side asks in any order.
            request = {each["toolCallId"]: each["id"] for each in await interrupts(task)}
            done = await answered(
                task,
                approval(request["c1"], {"approved": True}),
                more=[approval(request["c2"], {"approved": False})],
            )
        assert (state(done), office.done("refunded")) == ("COMPLETED", ["A1:1"])
        assert len(model.conversations[1]) == 4

    async def test_an_approval_of_a_canceled_task_is_nobodys(
        self, submitter: TaskSubmitter, serve: Serve, office: Office
    ) -> None:
        async with serve([REFUND, replies("Sunny.")]):
            task = await submitter.start("agent", "Refund A1.", context="shared")
            await interrupts(task)
            await cancel_waiting(task)
            done = await folded(await submitter.start("agent", "The weather?", context="shared"))
        assert (state(done), answer(done)) == ("COMPLETED", "Sunny.")
        assert office.done("refunded") == []


class ApprovalsInTime(Approvals):
    """The adapter itself decides how long an approval is waited for."""

    within: ClassVar[str] = "approve_within"
    """Its keyword for that."""

    async def test_an_answer_that_comes_too_late_is_a_refusal(
        self, submitter: TaskSubmitter, serve: Serve, office: Office
    ) -> None:
        async with serve([REFUND, replies("Too late.")], **{self.within: 0.0}) as model:
            task = await submitter.start("agent", "Refund A1.")
            [interrupt] = await interrupts(task)
            assert interrupt["expiresAt"]
            done = await answered(task, approval(interrupt["id"], {"approved": True}))
        assert (state(done), answer(done)) == ("COMPLETED", "Too late.")
        assert office.done("refunded") == []
        assert "came too late" in model.conversations[1][-1].text


class ApprovalsBesideClientTools(ClientTools, Approvals):
    """A response may call the client's tools beside those that need approval."""

    async def test_a_call_of_the_clients_and_one_to_approve_are_both_answered(
        self, submitter: TaskSubmitter, serve: Serve, office: Office
    ) -> None:
        painted = ("p1", "paint", {"colour": "red"})
        script = [calls(painted, ("c1", "refund", {"order": "A1"})), replies("Done.")]
        agui: Json = {"headrace.agui": {"tools": [PAINT]}}
        async with serve(script) as model:
            task = await submitter.start("agent", "Both.", metadata=agui)
            [interrupt] = await interrupts(task)
            waits = (await task.events())[-1]["statusUpdate"]
            assert waits["metadata"][PENDING_TOOL_CALLS] == ["p1"]
            decided = approval(interrupt["id"], {"approved": True})
            done = await answered(task, parts.tool_result_part("p1", "wet"), agui, [decided])
        assert (state(done), answer(done)) == ("COMPLETED", "Done.")
        assert office.done("refunded") == ["A1:1"]
        received = {each.answers: each.text for each in model.conversations[1] if each.answers}
        assert received == {"p1": "wet", "c1": "refunded A1"}


class SharedState(Behaviour):
    """A tool ``put(item)`` of the agent adds to ``items`` of the state shared with the client."""

    async def test_state_is_shared_both_ways(self, submitter: TaskSubmitter, serve: Serve) -> None:
        script = [calls(("c1", "put", {"item": "pear"})), replies("Done.")]
        async with serve(script):
            agui = {"state": {"items": ["apple"]}}
            task = await submitter.start("agent", "Pears!", metadata={"headrace.agui": agui})
            done = await folded(task)
        assert (state(done), answer(done)) == ("COMPLETED", "Done.")
        received = [part for part in said(done) if parts.event_type(part) == parts.STATE_SNAPSHOT]
        assert [part["data"] for part in received] == [{"items": ["apple", "pear"]}]


def lines(received: list[ModelMessage]) -> list[str]:
    """Return a conversation in lines."""
    return [each.line for each in received]


def generation(result: TaskResult) -> int:
    """Return the last generation that a task's result includes."""
    return int(result.task["metadata"]["headrace.generation"])


def approval(name: str, payload: Json | None, status: str = "resolved") -> Json:
    """Return the part with which a user interface answers an interrupt."""
    output = {"agui_interrupt_id": name, "agui_resume_status": status}
    return {"data": payload, "metadata": output}


async def interrupts(task: Task) -> list[Json]:
    """Return what a task asks its user, once it does."""
    last = (await task.events())[-1]["statusUpdate"]
    assert last["status"]["state"] == "TASK_STATE_INPUT_REQUIRED", words(await folded(task))
    interrupt: list[Json] = last["metadata"][INTERRUPTS]
    return interrupt


async def answered(
    task: Task, part: Json, metadata: Json | None = None, more: list[Json] | None = None
) -> Json:
    """Answer a task that waits, and return it when that run has ended."""
    message = {"messageId": "answer", "role": "ROLE_USER", "parts": [part, *(more or [])]}
    run = await task.follow_up_with(message, metadata)
    await task.reaches(run + 2)
    return await folded(task)


async def until_printed(task: Task, text: str) -> None:
    """Return once `text` is in the task's log."""
    async with asyncio.timeout(60):
        while not any(text.encode() in line for e in await task.entries() for line in e.lines):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def cancel_waiting(task: Task) -> None:
    """Cancel a task that waits for its user, as a gateway does."""
    draft = events.status_update(task.key.task, task.context, CANCELED)
    await task.append(draft, CANCELED, writer="gateway-test", run=1)
