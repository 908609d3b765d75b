"""Delegated work as AG-UI tells it: subagent runs, nested, outliving attempts of their parent."""

from typing import Any

from headrace.model.delegation import CHILD
from headrace.model.events import Json
from headrace.model.parts import (
    ACTIVITY_SNAPSHOT,
    STEP_STARTED,
    subagent_end_part,
    subagent_part,
    text_part,
    thinking_part,
    tool_arguments_part,
    tool_call_part,
    tool_result_part,
)
from headrace.model.task import CANCELED, COMPLETED, FAILED, INPUT_REQUIRED, WORKING
from tests.support.agui.client_rules import Client
from tests.support.agui.logs import GIVEN, AguiLog, hinted


def child(log: AguiLog, *output: Json, task: str = "c-1", name: str = "m", **fields: Any) -> None:  # noqa: ANN401
    """Append what a parent's log says of a child."""
    message = {"messageId": name, "role": "ROLE_AGENT", "parts": list(output)} if output else None
    marker: Json = {"task": task, "generation": 2, **fields}
    log.append([log.status(WORKING, message, {CHILD: marker})], state=WORKING)


def asked(log: AguiLog, agent: str = "helper", task: str = "c-1", **fields: Any) -> None:  # noqa: ANN401
    """Append that a child is asked for."""
    child(log, task=task, generation=0, agent=agent, name="ask:x:1", **fields)


def of_subagents(log: AguiLog) -> list[Json]:
    """Return what is told of subagents, checked by the client's rules."""
    events = log.agui_events()
    Client([{"id": "s"}, {"id": "u"}], {}).take_all(events)
    return [event for event in events if "subagentRunId" in event]


def test_a_child_is_a_subagent_run_with_its_own_messages() -> None:
    log = AguiLog.started()
    asked(log)
    child(log, text_part("Hel", "b"))
    child(log, text_part("lo", "b"))
    child(log, state=COMPLETED)
    assert of_subagents(log.end()) == [
        {"type": "SUBAGENT_STARTED", "subagentRunId": "c-1", "name": "helper"},
        {
            "type": "TEXT_MESSAGE_START",
            "messageId": "b",
            "role": "assistant",
            "subagentRunId": "c-1",
        },
        *(
            {
                "type": "TEXT_MESSAGE_CONTENT",
                "messageId": "b",
                "delta": delta,
                "subagentRunId": "c-1",
            }
            for delta in ("Hel", "lo")
        ),
        {"type": "TEXT_MESSAGE_END", "messageId": "b", "subagentRunId": "c-1"},
        {"type": "SUBAGENT_FINISHED", "subagentRunId": "c-1", "outcome": {"type": "success"}},
    ]


def test_a_childs_child_is_nested_in_it() -> None:
    log = AguiLog.started()
    asked(log)
    child(log, child={"task": "c-2", "generation": 0, "agent": "deeper", "name": "n"})
    child(log, text_part("x", "b"), child={"task": "c-2", "generation": 3})
    child(log, state=COMPLETED)
    agui_events = of_subagents(log.end())
    assert agui_events[1] == {
        "type": "SUBAGENT_STARTED",
        "subagentRunId": "c-2",
        "name": "deeper",
        "parentSubagentRunId": "c-1",
    }
    assert [e["type"] for e in agui_events if e["subagentRunId"] == "c-2"][-2:] == [
        "TEXT_MESSAGE_END",
        "SUBAGENT_ERROR",
    ]


def test_a_child_ends_as_its_task_does() -> None:
    ends = {}
    for state in (FAILED, CANCELED, INPUT_REQUIRED):
        log = AguiLog.started()
        asked(log)
        child(log, {"text": "because"}, state=state)
        ends[state] = of_subagents(log.end())[-1]
    assert (ends[FAILED]["code"], ends[FAILED]["message"]) == ("failed", "because")
    assert ends[CANCELED]["code"] == "canceled"
    assert ends[INPUT_REQUIRED]["outcome"] == {"type": "suspended"}


def test_a_parents_new_attempt_takes_back_its_own_words_and_no_childs() -> None:
    log = AguiLog.started()
    asked(log)
    child(log, text_part("one ", "b"))
    log.show(text_part("lost", "own"), artifact="own")
    log.begin_attempt()
    child(log, text_part("two", "b"))
    child(log, state=COMPLETED)
    log.end()
    client = Client([{"id": "s"}, {"id": "u"}], {}).take_all(log.agui_events())
    messages = {m["id"]: m.get("content") for m in client.messages}
    assert messages["b"] == "one two"
    assert "own" not in messages
    assert client.seen.count("SUBAGENT_STARTED") == 1


def test_tools_of_two_children_do_not_mix() -> None:
    log = AguiLog.started()
    for number in ("1", "2"):
        asked(log, task=f"c-{number}")
        child(log, text_part("x", f"b-{number}"), task=f"c-{number}")
    for number in ("1", "2"):
        child(log, tool_call_part("look", {}, f"call-{number}"), task=f"c-{number}")
        child(log, tool_result_part(f"call-{number}", "y"), task=f"c-{number}")
    calls = [e for e in of_subagents(log.end()) if e["type"] == "TOOL_CALL_START"]
    assert [(e["subagentRunId"], e["parentMessageId"]) for e in calls] == [
        ("c-1", "b-1"),
        ("c-2", "b-2"),
    ]


def test_a_client_of_0x_gets_a_step_and_no_text() -> None:
    log = AguiLog.started(protocolVersion=None)
    for task in ("c-1", "c-2"):
        asked(log, task=task)
    child(log, text_part("secret", "b"))
    child(log, state=COMPLETED)
    agui_events = log.end().agui_events()
    steps = [event["stepName"] for event in agui_events if "stepName" in event]
    assert steps == ["helper", "helper 2", "helper", "helper 2"]
    assert "secret" not in str(agui_events)


def test_what_a_child_emitted_since_its_parents_checkpoint_outlives_the_parents_attempt() -> None:
    log = AguiLog.started()
    asked(log)
    child(log, text_part("one ", "b"))
    log.append([log.status(WORKING)], state=WORKING, checkpoint=True)
    child(log, text_part("two ", "b"))
    log.begin_attempt()
    child(log, text_part("three", "b"))
    child(log, state=COMPLETED)
    client = Client(GIVEN, {}).take_all(log.end().agui_events())
    assert client.messages[-1]["content"] == "one two three"


def test_a_childs_calls_are_its_own_whatever_others_call_theirs() -> None:
    log = AguiLog.started()
    log.say(tool_call_part("look", {"who": "agent"}, "call-1"))
    log.say(tool_result_part("call-1", "by the agent"))
    for task in ("c-1", "c-2"):
        asked(log, task=task)
        child(log, tool_call_part("look", {"who": task}, "call-1"), task=task)
        child(log, tool_result_part("call-1", f"by {task}"), task=task)
        child(log, state=COMPLETED, task=task)
    client = Client(GIVEN, {}).take_all(log.end().agui_events())
    calls = {c["id"]: c["function"]["arguments"] for m in client.messages for c in made_by(m)}
    assert calls == {
        "call-1": '{"who":"agent"}',
        "call-1@c-1": '{"who":"c-1"}',
        "call-1@c-2": '{"who":"c-2"}',
    }
    results = {m["toolCallId"]: m["content"] for m in client.messages if m["role"] == "tool"}
    assert results == {
        "call-1": "by the agent",
        "call-1@c-1": "by c-1",
        "call-1@c-2": "by c-2",
    }


def made_by(message: Json) -> list[Json]:
    """Return the tool calls of a message."""
    calls: list[Json] = message.get("toolCalls", [])
    return calls


def test_a_child_that_goes_on_with_its_parents_answer_is_a_further_subagent_run() -> None:
    log = AguiLog.started()
    asked(log)
    child(log, text_part("Let me ask.", "b-1", end=True))
    child(log, {"text": "For how many?"}, state=INPUT_REQUIRED, name="q")
    asked(log)
    child(log, text_part("Booked.", "b-2"))
    child(log, child={"task": "c-2", "generation": 0, "agent": "deeper", "name": "n"})
    child(log, child={"task": "c-2", "generation": 2, "state": COMPLETED})
    child(log, state=COMPLETED)
    agui_events = of_subagents(log.end())
    runs = [e for e in agui_events if e["type"].startswith("SUBAGENT")]
    assert [(e["type"], e["subagentRunId"]) for e in runs] == [
        ("SUBAGENT_STARTED", "c-1"),
        ("SUBAGENT_FINISHED", "c-1"),
        ("SUBAGENT_STARTED", "c-1.2"),
        ("SUBAGENT_STARTED", "c-2"),
        ("SUBAGENT_FINISHED", "c-2"),
        ("SUBAGENT_FINISHED", "c-1.2"),
    ]
    assert runs[2]["name"] == "helper"
    assert runs[3]["parentSubagentRunId"] == "c-1.2"
    assert [e["outcome"]["type"] for e in runs if "outcome" in e] == [
        *["suspended", "success", "success"]
    ]
    booked = [e for e in agui_events if e.get("delta") == "Booked."]
    assert [e["subagentRunId"] for e in booked] == ["c-1.2"]


def test_a_child_that_is_queried_again_and_emits_nothing_more_has_no_further_run() -> None:
    log = AguiLog.started()
    asked(log)
    child(log, {"text": "For how many?"}, state=INPUT_REQUIRED)
    asked(log)
    log.begin_attempt()
    asked(log)
    child(log, givenUp=True, generation=9)
    agui_events = of_subagents(log.end())
    started = [e["subagentRunId"] for e in agui_events if e["type"] == "SUBAGENT_STARTED"]
    assert started == ["c-1"]


def test_what_a_childs_dead_attempt_emitted_is_taken_back() -> None:
    log = AguiLog.started().show(text_part("Wait. ", "own"), artifact="own")
    asked(log)
    child(log, text_part("saved ", "b-1"), generation=2)
    child(log, text_part("lost", "b-2"), generation=3)
    child(log, thinking_part("lost", "t-1"), generation=3)
    child(log, tool_arguments_part('{"a', "call-1", "look"), generation=3)
    child(log, hinted(STEP_STARTED, agui_step_name="plan"), generation=3)
    child(log, hinted(ACTIVITY_SNAPSHOT, {"n": 1}, agui_block_id="a-1"), generation=3)
    child(log, generation=4, attempt=2, discardedAfter=2)
    child(log, hinted(STEP_STARTED, agui_step_name="plan"), generation=5)
    child(log, tool_arguments_part('{"all":1}', "call-1", "look", end=True), generation=5)
    child(log, text_part("said again", "b-2~2"), generation=5)
    child(log, state=COMPLETED, generation=6)
    events = log.end().agui_events()
    client = Client(GIVEN, {}).take_all(events)
    by_child = [m for m in client.messages if m.get("subagentRunId") == "c-1"]
    assert [m.get("content") for m in by_child if m["role"] == "assistant" and m["content"]] == [
        *["saved ", "said again"]
    ]
    assert [m["content"] for m in by_child if m["role"] == "activity"] == [{}]
    assert [m["content"] for m in by_child if m["role"] == "reasoning"] == [""]
    [call] = [call for message in by_child for call in made_by(message)]
    assert call["function"]["arguments"] == '{"all":1}'
    [attempt] = [e for e in events if e.get("name") == "headrace.attempt"]
    assert (attempt["value"], attempt["subagentRunId"]) == ({"attempt": 2}, "c-1")
    assert next(m for m in client.messages if m["id"] == "own")["content"] == "Wait. "


def test_an_agent_that_is_handed_over_to_is_a_subagent_run_and_its_answer_the_tasks() -> None:
    log = AguiLog.started().say(subagent_part("s1", "refunds")).show(text_part("Done.", "b"))
    log.say(subagent_end_part("s1", "refunds", "suspended"))
    events = log.end().agui_events()
    Client([{"id": "s"}, {"id": "u"}], {}).take_all(events)
    assert [event for event in events if "subagentRunId" in event] == [
        {"type": "SUBAGENT_STARTED", "subagentRunId": "s1", "name": "refunds"},
        {
            "type": "SUBAGENT_FINISHED",
            "subagentRunId": "s1",
            "outcome": {"type": "suspended"},
        },
    ]


def test_a_child_that_hands_over_has_a_subagent_run_in_its_own() -> None:
    log = AguiLog.started()
    asked(log)
    child(log, subagent_part("s1", "refunds"))
    child(log, state=COMPLETED)
    runs = [event for event in of_subagents(log.end()) if event["type"].startswith("SUBAGENT")]
    assert [(run["type"], run["subagentRunId"]) for run in runs] == [
        ("SUBAGENT_STARTED", "c-1"),
        ("SUBAGENT_STARTED", "s1"),
        ("SUBAGENT_FINISHED", "s1"),
        ("SUBAGENT_FINISHED", "c-1"),
    ]
    assert runs[1]["parentSubagentRunId"] == "c-1"


def test_clients_of_0x_get_a_handover_as_a_step() -> None:
    log = AguiLog.started(protocolVersion=None).say(subagent_part("s1", "refunds"))
    log.say(subagent_end_part("s1", "refunds", "success"))
    events = log.end().agui_events()
    steps = [(event["type"], event["stepName"]) for event in events if "stepName" in event]
    assert steps == [("STEP_STARTED", "refunds"), ("STEP_FINISHED", "refunds")]
    assert not any("subagentRunId" in event for event in events)


def test_a_new_attempt_ends_the_subagent_run_of_the_one_before() -> None:
    log = AguiLog.started().say(subagent_part("s1", "refunds"))
    log.begin_attempt()
    log.say(subagent_part("s2", "refunds"))
    runs = [(e["type"], e["subagentRunId"]) for e in of_subagents(log.end())]
    assert runs == [
        ("SUBAGENT_STARTED", "s1"),
        ("SUBAGENT_FINISHED", "s1"),
        ("SUBAGENT_STARTED", "s2"),
        ("SUBAGENT_FINISHED", "s2"),
    ]
