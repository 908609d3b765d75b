"""What LangGraph's users ask a person, and find answered here as at home."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

import pytest
from pydantic import BaseModel

from headrace import Retry
from headrace.model.events import Json
from headrace.sdk.errors import Misdeclared, Retryable
from headrace.testing import TestFleet
from tests.integration.worker.adapters.behaviour import answered, approval, generation, interrupts
from tests.integration.worker.adapters.office import Office
from tests.integration.worker.adapters.wire import calls, chat_model, replies
from tests.integration.worker.conftest import Spawn, Working
from tests.support.gates import opened
from tests.support.log_reading import answer, folded, state, words
from tests.support.task_submitter import Task, TaskSubmitter

BOTH = calls(("c1", "pay", {"to": "ada", "amount": 1}), ("c2", "pay", {"to": "bob", "amount": 2}))


class Order(BaseModel):
    """What a graph of Python types asks for."""

    item: str
    pieces: int


class Shop(TypedDict, total=False):
    """A graph's state."""

    done: list[str]
    price: int


def asks(schema: Any = None, value: Any = "How many?", **options: Any) -> Any:  # noqa: ANN401  # LangGraph's types
    """Return an agent that asks once, and says what it was answered."""
    from langchain_core.messages import AIMessage
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.types import interrupt

    from headrace.adapters import langgraph_agent

    def ask(_: MessagesState) -> Any:  # noqa: ANN401  # an update
        return {"messages": [AIMessage(repr(interrupt(value, response_schema=schema)))]}

    graph: Any = StateGraph(MessagesState)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    graph.add_edge("ask", END)
    made = graph.compile(checkpointer=InMemorySaver())
    return langgraph_agent(made, name="g", memory="task", **options)


def steps(**compiled: Any) -> Any:  # noqa: ANN401  # LangGraph's types
    """Return a graph of two steps that note themselves in the state."""
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import END, START, StateGraph

    def step(name: str) -> Callable[[Shop], Shop]:
        def run(shop: Shop) -> Shop:
            noted = f"{name} at {shop.get('price', 1)}"
            return {"done": [*shop.get("done", []), noted]}

        return run

    graph: Any = StateGraph(Shop)
    graph.add_node("look", step("look"))
    graph.add_node("buy", step("buy"))
    graph.add_edge(START, "look")
    graph.add_edge("look", "buy")
    graph.add_edge("buy", END)
    return graph.compile(checkpointer=InMemorySaver(), **compiled)


def stepping(graph: Any, **options: Any) -> Any:  # noqa: ANN401  # LangGraph's types
    """Return the agent of such a graph."""
    from headrace.adapters import langgraph_agent

    given: Any = {"name": "g", "memory": "task", "input_of": lambda _: {}, **options}
    return langgraph_agent(graph, output="done", state_keys=["price"], **given)


def bought(task: Json) -> Any:  # noqa: ANN401  # any JSON
    """Return the answer of such an agent."""
    return task["artifacts"][-1]["parts"][0]["data"]


async def said(task: Task, words_: str) -> Json:
    """Answer in words, and return the task when that run has ended."""
    return await answered(task, {"text": words_})


@pytest.mark.parametrize(
    ("schema", "wrong", "right", "start"),
    [
        ({"type": "integer", "minimum": 1}, {"data": 0}, {"data": 3}, "3"),
        ({"type": "integer"}, {"text": "some"}, {"text": "3"}, "3"),
        (Order, {"data": {"item": 1}}, {"data": {"item": "a", "pieces": 2}}, "Order(item='a'"),
    ],
    ids=["json", "words", "python"],
)
async def test_an_answer_that_the_schema_refuses_is_requested_again(  # noqa: PLR0917  # fixtures
    submitter: TaskSubmitter,
    working: Working,
    schema: Json | type,
    wrong: Json,
    right: Json,
    start: str,
) -> None:
    async with working(asks(schema)):
        task = await submitter.start("g", "x")
        [first] = await interrupts(task)
        again = await answered(task, wrong)
        [second] = await interrupts(task)
        done = await answered(task, right)
    assert state(again) == "INPUT_REQUIRED"
    assert words(again).startswith(f"the answer to {first['id']}: ")
    assert "How many?" in words(again)
    assert second == first
    assert (state(done), answer(done).startswith(start)) == ("COMPLETED", True)


async def test_a_schema_that_leads_elsewhere_or_nowhere_refuses_nothing(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(asks({"$ref": "http://127.0.0.1:9/schema"})):
        task = await submitter.start("g", "x")
        await interrupts(task)
        done = await said(task, "3")
    assert (state(done), answer(done)) == ("COMPLETED", "'3'")


@pytest.mark.parametrize(
    ("schema", "ends", "text"),
    [(None, "COMPLETED", "None"), ({"type": "string"}, "REJECTED", "")],
    ids=["none", "refused"],
)
async def test_an_answer_that_comes_too_late_is_none(
    submitter: TaskSubmitter, working: Working, schema: Json | None, ends: str, text: str
) -> None:
    async with working(asks(schema, answer_within=0.0)):
        task = await submitter.start("g", "x")
        [interrupt] = await interrupts(task)
        done = await said(task, "3")
    assert interrupt["expiresAt"]
    assert (state(done), answer(done)) == (ends, text)


async def test_a_fork_has_no_answer_from_behind_it_where_others_were_refused() -> None:
    from langgraph.graph import START, StateGraph
    from langgraph.types import interrupt

    from headrace.adapters import langgraph_agent

    def ask(_: Shop) -> Any:  # noqa: ANN401  # an update
        number = {"type": "integer"}
        return {"done": [f"{each}={interrupt(each, response_schema=number)}" for each in "abc"]}

    graph: Any = StateGraph(Shop)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    agent = langgraph_agent(graph.compile(), name="g", output="done", input_of=lambda _: {})
    async with TestFleet([agent]) as fleet:
        asked = await fleet.send("g", "x")
        places = dict[str, int]()
        for number, each in enumerate("abc"):
            await asked.reply("none")
            foreign = await asked.reply([approval("another", {"approved": True})])
            [interrupt_] = foreign.interrupts
            assert interrupt_["message"] == each
            places[each] = generation(foreign)
            asked = await asked.reply([{"data": number}])
        assert bought(asked.task) == ["a=0", "b=1", "c=2"]
        for number, each in enumerate("abc"):
            forked = await (await asked.handle.fork(places[each])).result()
            for left in "abc"[number:]:
                assert [one["message"] for one in forked.interrupts] == [left]
                forked = await forked.reply([{"data": 7}])
            expected = [
                f"{name}={place if place < number else 7}" for place, name in enumerate("abc")
            ]
            assert bought(forked.task) == expected


async def test_a_canceled_question_is_answered_with_none_or_stays_open(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(asks({"type": ["string", "null"]})):
        task = await submitter.start("g", "x")
        [interrupt] = await interrupts(task)
        done = await answered(task, approval(interrupt["id"], None, "cancelled"))
    assert (state(done), answer(done)) == ("COMPLETED", "None")
    async with working(asks({"type": "string"})):
        task = await submitter.start("g", "x")
        [interrupt] = await interrupts(task)
        again = await answered(task, approval(interrupt["id"], None, "cancelled"))
    assert state(again) == "INPUT_REQUIRED"


async def test_answers_by_interrupt_id_stand_in_one_object(
    submitter: TaskSubmitter, working: Working
) -> None:
    from langchain_core.messages import AIMessage
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.types import interrupt

    from headrace.adapters import langgraph_agent

    def ask(name: str) -> Any:  # noqa: ANN401  # a node
        return lambda _: {"messages": [AIMessage(f"{name}={interrupt(name)} ")]}

    graph: Any = StateGraph(MessagesState)
    for name in "ab":
        graph.add_node(name, ask(name))
        graph.add_edge(START, name)
    made = graph.compile(checkpointer=InMemorySaver())
    async with working(langgraph_agent(made, name="g", memory="task")):
        task = await submitter.start("g", "x")
        request = {each["message"]: each["id"] for each in await interrupts(task)}
        part = await answered(task, {"data": {request["a"]: 1}})
        [left] = await interrupts(task)
        done = await answered(task, {"data": {left["id"]: 2}})
    assert (state(part), left["id"]) == ("INPUT_REQUIRED", request["b"])
    assert sorted(answer(done).split()) == ["a=1", "b=2"]


@pytest.mark.usefixtures("task_state")
async def test_what_a_model_emitted_is_in_the_next_tasks_state_as_it_was(
    submitter: TaskSubmitter, working: Working
) -> None:
    from langchain_core.messages import AIMessage
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import END, START, MessagesState, StateGraph

    from headrace.adapters import langgraph_agent

    received: list[Any] = []

    def talk(held: MessagesState) -> Any:  # noqa: ANN401  # an update
        received.append(held["messages"])
        thought: Any = {"type": "reasoning", "reasoning": "Hm.", "extras": {"signature": "s"}}
        said_: Any = [thought, {"type": "text", "text": "Six."}]
        return {"messages": [AIMessage(said_, additional_kwargs={"odd": 1})]}

    graph: Any = StateGraph(MessagesState)
    graph.add_node("talk", talk)
    graph.add_edge(START, "talk")
    graph.add_edge("talk", END)
    async with working(langgraph_agent(graph.compile(checkpointer=InMemorySaver()), name="g")):
        await folded(await submitter.start("g", "How many?", context="c"))
        await folded(await submitter.start("g", "Sure?", context="c"))
    before = received[1][1]
    assert before.content[0]["extras"] == {"signature": "s"}
    assert before.additional_kwargs == {"odd": 1}


@pytest.mark.parametrize(
    ("part", "paid"),
    [
        ({"text": "yes"}, ["ada:1", "bob:2"]),
        ({"data": {"approved": False, "reason": "no money"}}, []),
        (
            {
                "data": {
                    "decisions": [
                        {"type": "reject", "message": "no money"},
                        {
                            "type": "edit",
                            "edited_action": {"name": "pay", "args": {"to": "eve", "amount": 3}},
                        },
                    ]
                }
            },
            ["eve:3"],
        ),
        ({"data": [{"type": "approve"}, {"type": "respond", "message": "paid"}]}, ["ada:1"]),
    ],
    ids=["words", "approval", "decisions", "respond"],
)
async def test_calls_that_are_reviewed_together_are_decided_on_one_by_one(
    submitter: TaskSubmitter, working: Working, part: Json, paid: list[str]
) -> None:
    from langchain.agents import create_agent
    from langchain.agents.middleware import HumanInTheLoopMiddleware
    from langchain_openai import ChatOpenAI
    from langgraph.checkpoint.memory import InMemorySaver

    from headrace.adapters import langgraph_agent

    paying: list[str] = []

    def pay(to: str, amount: int) -> str:
        """Pay somebody."""
        paying.append(f"{to}:{amount}")
        return "paid"

    async with chat_model([BOTH, replies("Done.")]) as model:
        request: Any = {"model": "small", "base_url": model.url, "api_key": "k"}
        review: Any = HumanInTheLoopMiddleware({"pay": True})
        graph = create_agent(
            ChatOpenAI(**request), [pay], middleware=[review], checkpointer=InMemorySaver()
        )
        async with working(langgraph_agent(graph, name="g", memory="task")):
            task = await submitter.start("g", "Pay both.")
            [question] = await interrupts(task)
            wrong = await answered(task, {"data": {"decisions": [{"type": "approve"}]}})
            assert state(wrong) == "INPUT_REQUIRED"
            assert "decisions" in words(wrong)
            assert paying == []
            done = await answered(task, part)
    assert len(question["metadata"]["value"]["action_requests"]) == 2
    [_, native] = question["responseSchema"]["anyOf"]
    for decisions in native["properties"]["decisions"]["prefixItems"]:
        [edit] = [one for one in decisions["oneOf"] if "edited_action" in one["properties"]]
        told = edit["properties"]["edited_action"]["properties"]["args"]["properties"]
        assert {name: field["type"] for name, field in told.items()} == {
            "to": "string",
            "amount": "integer",
        }
    assert (state(done), answer(done), sorted(paying)) == ("COMPLETED", "Done.", paid)


@pytest.mark.parametrize(
    "compiled",
    [{"interrupt_before": ["buy"]}, {"interrupt_after": ["look"]}],
    ids=["before", "after"],
)
async def test_a_breakpoint_is_passed_with_the_state_that_its_user_has_edited(
    submitter: TaskSubmitter, working: Working, compiled: Json
) -> None:
    async with working(stepping(steps(**compiled))):
        task = await submitter.start("g", "x")
        [interrupt] = await interrupts(task)
        foreign = {"approved": True, "editedArgs": {"done": []}}
        wrong = await answered(task, {"data": foreign})
        again = await answered(task, {"data": {"approve": True}})
        edited = {"approved": True, "editedArgs": {"price": 9}}
        done = await answered(task, approval(interrupt["id"], edited))
    assert (interrupt["reason"], interrupt["metadata"]) == ("breakpoint", {"next": ["buy"]})
    assert "editedArgs.done" in words(wrong)
    assert (state(wrong), state(again)) == ("INPUT_REQUIRED", "INPUT_REQUIRED")
    assert (state(done), bought(done)) == ("COMPLETED", ["look at 1", "buy at 9"])


@pytest.mark.parametrize("late", [False, True], ids=["refused", "late"])
async def test_a_breakpoint_that_is_not_passed_ends_the_task(
    submitter: TaskSubmitter, working: Working, *, late: bool
) -> None:
    within = 0.0 if late else None
    async with working(stepping(steps(interrupt_before="*"), answer_within=within)):
        task = await submitter.start("g", "x")
        [first] = await interrupts(task)
        if not late:
            await said(task, "yes")
        [second] = await interrupts(task)
        done = await said(task, "yes" if late else "too dear")
    assert (first["id"] == second["id"]) is late
    assert state(done) == "CANCELED"
    assert words(done) == ("The answer came too late." if late else "too dear")


@pytest.mark.parametrize("is_inner", [False, True], ids=["outer", "inner"])
async def test_a_worker_that_takes_over_at_a_breakpoint_does_not_pass_it(
    submitter: TaskSubmitter, working: Working, monkeypatch: pytest.MonkeyPatch, *, is_inner: bool
) -> None:
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import END, START, StateGraph

    from headrace.adapters.langgraph.events import LangGraphEvents

    failures: list[Exception] = [Retryable("as if the worker had died")]
    ends: Any = LangGraphEvents.end

    async def end(telling: LangGraphEvents, *given: Json) -> None:
        if failures:
            raise failures.pop()
        await ends(telling, *given)

    monkeypatch.setattr(LangGraphEvents, "end", end)
    graph = steps(interrupt_before=["buy"])
    if is_inner:
        graph.checkpointer = None
        outer = StateGraph(Shop)
        outer.add_node("inner", graph)
        outer.add_edge(START, "inner")
        outer.add_edge("inner", END)
        graph = outer.compile(checkpointer=InMemorySaver())
    async with working(stepping(graph, retry=Retry(backoff=0.0))):
        task = await submitter.start("g", "x")
        await interrupts(task)
        assert not failures
        done = await said(task, "yes")
    assert (state(done), bought(done)) == ("COMPLETED", ["look at 1", "buy at 1"])


async def test_a_worker_killed_at_a_breakpoint_has_its_successor_ask(
    submitter: TaskSubmitter, spawn: Spawn, working: Working, tmp_path: Path
) -> None:
    from tests.integration.worker.adapters import breakpoint_graph

    target, module = "tests.integration.worker.adapters.serving:agents", breakpoint_graph.__name__
    with spawn(target, adapter=module, model="none", office=tmp_path) as worker:
        task = await submitter.start("g", "x")
        await opened(tmp_path / "stopped")
        worker.kill()
    (tmp_path / "go").touch()
    async with working(breakpoint_graph.build("none", Office(tmp_path))):
        [interrupt] = await interrupts(task)
        assert interrupt["reason"] == "breakpoint"
        assert Office(tmp_path).done("refunded") == []
        done = await said(task, "yes")
    assert (state(done), answer(done)) == ("COMPLETED", "refunded A1")
    assert Office(tmp_path).done("refunded") == ["A1:3"]


def test_a_breakpoint_without_a_checkpointer_is_misdeclared() -> None:
    graph = steps(interrupt_before=["buy"])
    graph.checkpointer = None
    with pytest.raises(Misdeclared, match="checkpointer"):
        stepping(graph, saver="graph")
