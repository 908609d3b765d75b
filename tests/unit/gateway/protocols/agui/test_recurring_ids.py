"""Ids that an agent uses again, in a run and in a thread: clients find each item by its own id."""

from headrace.model import parts
from headrace.model.events import AGUI, INTERRUPTS, PENDING_TOOL_CALLS, Json
from headrace.model.run_ids import own_id
from headrace.model.task import COMPLETED, INPUT_REQUIRED, TaskKey
from headrace_gateway.protocols.agui.fold import NamedRuns
from tests.support.agui.client_rules import Client
from tests.support.agui.logs import GIVEN, RUN_METADATA, AguiLog, hinted
from tests.unit.gateway.protocols.agui.test_subagents import asked, child


def log_of(task: str, *messages: Json) -> AguiLog:
    """Return the log of another task of the thread, begun with the client's messages."""
    log = AguiLog(TaskKey("t", "agent", task))
    log.submit("hello", {AGUI: RUN_METADATA | ({"messages": list(messages)} if messages else {})})
    log.begin_attempt()
    return log


def of_calls(events: list[Json]) -> list[tuple[str, str]]:
    """Return the kind and the call of all events about tool calls."""
    return [(event["type"], event["toolCallId"]) for event in events if "toolCallId" in event]


def called(log: AguiLog, call: str = "call_1", content: str = "found") -> AguiLog:
    """Append a call and its result."""
    log.say(parts.tool_call_part("search", {"of": content}, call))
    return log.say(parts.tool_result_part(call, content))


WHOLE = ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT"]


def test_two_calls_of_a_run_with_one_id_are_two_calls_each_with_its_result() -> None:
    log = called(called(AguiLog.started(), content="one"), content="two").end()
    events = log.client_events()
    client = Client(GIVEN).take_all(events)
    first, second = dict.fromkeys(name for _, name in of_calls(events))
    assert of_calls(events) == [(kind, name) for name in (first, second) for kind in WHOLE]
    assert [own_id(first), own_id(second)] == ["call_1", "call_1"]
    results = {m["toolCallId"]: m["content"] for m in client.messages if m["role"] == "tool"}
    assert results == {first: "one", second: "two"}


def test_calls_at_once_with_one_id_get_their_results_in_order() -> None:
    log = AguiLog.started()
    for number in (1, 2):
        log.say(parts.tool_call_part("search", {"n": number}, "call_1"))
    for number in (1, 2):
        log.say(parts.tool_result_part("call_1", number))
    events = log.end().client_events()
    starts = [name for kind, name in of_calls(events) if kind == "TOOL_CALL_START"]
    results = [(e["toolCallId"], e["content"]) for e in events if e["type"] == "TOOL_CALL_RESULT"]
    assert len(set(starts)) == 2
    assert results == [(starts[0], "1"), (starts[1], "2")]


def test_arguments_that_stream_again_under_an_id_are_another_call() -> None:
    log = AguiLog.started()
    for number in (1, 2):
        log.say(parts.tool_arguments_part('{"n":', "call_1", "search"))
        log.say(parts.tool_arguments_part(f"{number}}}", "call_1", end=True))
    events = log.end().client_events()
    Client(GIVEN).take_all(events)
    made: dict[str, str] = {}
    for event in events:
        if event["type"] == "TOOL_CALL_ARGS":
            made[event["toolCallId"]] = made.get(event["toolCallId"], "") + event["delta"]
    assert list(made.values()) == ['{"n":1}', '{"n":2}']


def test_two_tasks_of_a_thread_share_no_id() -> None:
    ids = list[set[str]]()
    for task in ("0-a", "0-b"):
        log = called(log_of(task)).show(parts.text_part("Hi", "b"), artifact="b")
        log.say(parts.thinking_part("Hm", "t"), message="t").show(parts.file_part(b"a", "a.txt"))
        log.say(hinted(parts.ACTIVITY_SNAPSHOT, {"n": 1}, agui_block_id="plan"))
        log.say(parts.subagent_part("s-1", "helper"))
        names = ("messageId", "toolCallId", "subagentRunId")
        events = log.end().client_events()
        ids.append({event[name] for event in events for name in names if name in event})
    assert len(ids[0]) == 8
    assert ids[0].isdisjoint(ids[1])


def test_a_history_that_the_client_sends_hides_no_call() -> None:
    made = {"id": "call_1", "type": "function", "function": {"name": "search", "arguments": "{}"}}
    history: list[Json] = [
        {"id": "a", "role": "assistant", "toolCalls": [made]},
        {"id": "call_1-result", "role": "tool", "toolCallId": "call_1", "content": "old"},
        {"id": "u", "role": "user"},
    ]
    log = called(log_of("0-a", *history)).end()
    client = Client([*history[:2], {**history[2], "content": "hello"}]).take_all(
        log.client_events()
    )
    assert [kind for kind, _ in of_calls(log.client_events())] == WHOLE
    assert [m["content"] for m in client.messages if m["role"] == "tool"] == ["old", "found"]


def test_a_new_attempt_gives_its_calls_the_ids_of_the_one_before() -> None:
    log = called(AguiLog.started(), content="one")
    log.append([log.status("TASK_STATE_WORKING")], checkpoint=True)
    called(log, content="two")
    log.begin_attempt()
    called(log, content="two").end()
    client = Client(GIVEN).take_all(log.client_events())
    starts = [n for kind, n in of_calls(log.client_events()) if kind == "TOOL_CALL_START"]
    assert len(starts) == 3
    assert starts[1] == starts[2] != starts[0]
    assert [m["content"] for m in client.messages if m["role"] == "tool"] == ["one", "two"]


def asking(log: AguiLog, **metadata: object) -> AguiLog:
    """Append the end of a run that waits for its client."""
    log.append([log.status(INPUT_REQUIRED, None, dict(metadata))], state=INPUT_REQUIRED)
    return log


def test_pending_calls_and_approvals_are_named_as_their_calls_are() -> None:
    log = AguiLog.started().say(parts.tool_call_part("paint", {}, "call_1"))
    asking(log, **{PENDING_TOOL_CALLS: ["call_1"]})
    events = log.client_events()
    assert events[-1]["outcome"]["pendingToolCallIds"] == [of_calls(events)[0][1]]

    log = AguiLog.started().say(parts.tool_call_part("delete", {}, "call_1"))
    asking(log, **{INTERRUPTS: [{"id": "call_1", "toolCallId": "call_1", "reason": "tool_call"}]})
    events = log.client_events()
    [interrupt] = events[-1]["outcome"]["interrupts"]
    assert interrupt["toolCallId"] == interrupt["id"] == of_calls(events)[0][1]

    log = AguiLog.started().say(parts.tool_call_part("paint", {}, "call_1"))
    asking(log, **{PENDING_TOOL_CALLS: ["call_1"], INTERRUPTS: [{"id": "q", "reason": "ask"}]})
    events = log.client_events()
    assert events[-1]["outcome"] == {
        "type": "interrupt",
        "interrupts": [{"id": "q", "reason": "ask"}],
        "pendingToolCallIds": [of_calls(events)[0][1]],
    }

    log = asking(AguiLog.started(), **{INTERRUPTS: [{"id": "confirm", "reason": "ask"}]})
    assert log.client_events()[-1]["outcome"]["interrupts"] == [{"id": "confirm", "reason": "ask"}]


def test_a_result_in_a_later_run_belongs_to_the_call_of_the_run_with_the_question() -> None:
    log = AguiLog.started().say(parts.tool_call_part("delete", {}, "call_1"))
    asking(log, **{INTERRUPTS: [{"id": "q", "toolCallId": "call_1", "reason": "tool_call"}]})
    log.submit("yes", {AGUI: RUN_METADATA})
    second = log.run
    log.begin_attempt()
    log.say(parts.tool_result_part("call_1", "deleted"))
    called(log, content="again")
    asking(log, **{INTERRUPTS: [{"id": "q", "reason": "more"}]})
    log.submit("yes", {AGUI: RUN_METADATA})
    third = log.run
    log.begin_attempt()
    called(log, content="third").end()

    [(_, first), *_] = of_calls(log.client_events(1))
    (kind, answered), *rest = of_calls(log.client_events(second))
    assert (kind, answered) == ("TOOL_CALL_RESULT", first)
    names = {first, *(name for _, name in rest), of_calls(log.client_events(third))[0][1]}
    assert len(names) == 3


def test_a_call_that_waits_over_several_runs_keeps_its_id() -> None:
    log = AguiLog.started().say(parts.tool_call_part("book", {}, "call_1"))
    for _ in range(2):
        asking(log, **{INTERRUPTS: [{"id": "q", "reason": "ask"}]})
        log.submit("yes", {AGUI: RUN_METADATA})
        log.begin_attempt()
    log.say(parts.tool_result_part("call_1", "booked")).end()
    assert of_calls(log.client_events(log.run)) == [
        ("TOOL_CALL_RESULT", of_calls(log.client_events(1))[0][1])
    ]


def test_the_calls_that_wait_are_known_without_the_frames() -> None:
    log = called(AguiLog.started()).say(parts.tool_call_part("paint", {}, "call_1"))
    asking(log, **{PENDING_TOOL_CALLS: ["call_1"]})
    named = NamedRuns()
    for entry in log.parsed():
        named.read(entry)
    pending = log.client_events()[-1]["outcome"]["pendingToolCallIds"]
    assert dict(named.left().open_calls) == {"call_1": pending}


def test_a_child_that_goes_on_in_its_parents_next_run_is_another_subagent_run() -> None:
    log = AguiLog.started()
    asked(log)
    child(log, parts.tool_call_part("look", {}, "call_1"))
    child(log, state=INPUT_REQUIRED)
    asking(log, **{INTERRUPTS: [{"id": "q", "reason": "ask"}]})
    log.submit("yes", {AGUI: RUN_METADATA})
    log.begin_attempt()
    child(log, generation=0)
    child(log, parts.tool_result_part("call_1", "x"))
    child(log, parts.tool_call_part("look", {}, "call_1"))
    child(log, state=COMPLETED)
    log.end()
    first, second = of_calls(log.client_events(1)), of_calls(log.client_events(log.run))
    assert second[0] == ("TOOL_CALL_RESULT", first[0][1])
    assert second[1] == ("TOOL_CALL_START", "call_1@c-1.2")


def test_two_calls_of_a_child_with_one_id_are_two_calls() -> None:
    log = AguiLog.started()
    asked(log)
    for number in (1, 2):
        child(log, parts.tool_call_part("look", {"n": number}, "call_1"))
        child(log, parts.tool_result_part("call_1", number))
    child(log, state=COMPLETED)
    events = log.end().client_events()
    Client(GIVEN).take_all(events)
    assert list(dict.fromkeys(name for _, name in of_calls(events))) == [
        "call_1@c-1",
        "call_1@c-1_2",
    ]


def test_a_conversation_that_the_agent_sets_has_the_ids_of_its_calls() -> None:
    log = called(AguiLog.started())
    made = {"id": "call_1", "type": "function", "function": {"name": "search", "arguments": "{}"}}
    log.say(
        parts.messages_part(
            [
                {"id": "m1", "role": "assistant", "toolCalls": [made]},
                {"id": "r1", "role": "tool", "toolCallId": "call_1", "content": "old"},
                {"id": "m2", "role": "assistant", "toolCalls": [made]},
            ]
        )
    )
    log.say(parts.tool_result_part("call_1", "found"))
    events = log.end().client_events()
    Client(GIVEN).take_all(events)
    [snapshot] = [e["messages"] for e in events if e["type"] == "MESSAGES_SNAPSHOT"]
    latest = of_calls(events)[0][1]
    assert [m["toolCalls"][0]["id"] for m in (snapshot[0], snapshot[2])] == ["call_1", latest]
    assert snapshot[1]["toolCallId"] == "call_1"
    assert of_calls(events)[-1] == ("TOOL_CALL_RESULT", latest)


def test_a_subagent_that_returns_under_its_id_is_another_run() -> None:
    log = AguiLog.started()
    for _ in range(2):
        log.say(parts.subagent_part("s-1", "helper"))
        log.say(parts.subagent_end_part("s-1", "helper", "success"))
    events = log.end().client_events()
    Client(GIVEN).take_all(events)
    assert len({e["subagentRunId"] for e in events if e["type"] == "SUBAGENT_STARTED"}) == 2
