"""Delegated work as AG-UI tells it: subagent runs, nested, outliving attempts of their parent."""

from typing import Any

from headrace.delegation import CHILD
from headrace.events import Json
from headrace.parts import text_part, tool_call_part, tool_result_part
from headrace.task import CANCELED, COMPLETED, FAILED, INPUT_REQUIRED, WORKING
from tests.unit.agui.agui_logs import AguiLog
from tests.unit.agui.client_rules import Client


def child(log: AguiLog, *said: Json, task: str = "c-1", name: str = "m", **told: Any) -> None:  # noqa: ANN401
    """Append what a parent's log says of a child."""
    message = {"messageId": name, "role": "ROLE_AGENT", "parts": list(said)} if said else None
    marker = {"task": task, "generation": 2, **told}
    log.append([log.status(WORKING, message, {CHILD: marker})], state=WORKING)


def asked(log: AguiLog, agent: str = "helper", task: str = "c-1", **told: Any) -> None:  # noqa: ANN401
    """Append that a child is asked for."""
    child(log, task=task, generation=0, agent=agent, name="ask:x:1", **told)


def of_subagents(log: AguiLog) -> list[Json]:
    """Return what is told of subagents, checked by the client's rules."""
    events = log.told()
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
    told = of_subagents(log.end())
    assert told[1] == {
        "type": "SUBAGENT_STARTED",
        "subagentRunId": "c-2",
        "name": "deeper",
        "parentSubagentRunId": "c-1",
    }
    assert [e["type"] for e in told if e["subagentRunId"] == "c-2"][-2:] == [
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
    client = Client([{"id": "s"}, {"id": "u"}], {}).take_all(log.told())
    said = {m["id"]: m.get("content") for m in client.messages}
    assert said["b"] == "one two"
    assert "own" not in said
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


def test_a_client_of_0x_is_told_of_a_step_and_of_no_words() -> None:
    log = AguiLog.started(protocolVersion=None)
    for task in ("c-1", "c-2"):
        asked(log, task=task)
    child(log, text_part("secret", "b"))
    child(log, state=COMPLETED)
    told = log.end().told()
    steps = [event["stepName"] for event in told if "stepName" in event]
    assert steps == ["helper", "helper 2", "helper", "helper 2"]
    assert "secret" not in str(told)
