"""Recorded cases: what a recorder keeps of a task's events, and what a file must look like."""

import json
from base64 import b64encode

import pytest

from headrace.model import parts
from headrace.model.case import Case, CaseInvalid, CaseRecorder, outline, parse_case
from headrace.model.delegation import CHILD
from headrace.model.events import ATTEMPT, DISCARDED_AFTER, GENERATION, INTERRUPTS, QUEUED, Json
from headrace.model.task_report import TaskEvent

HEADER = '{"format": "headrace.case", "version": 1, "agent": "shop"}'


def status(generation: int, state: str = "WORKING", *content: Json, **metadata: object) -> Json:
    message = {"role": "ROLE_AGENT", "parts": list(content)} if content else None
    body = {"status": {"state": f"TASK_STATE_{state}", "message": message}}
    return {"statusUpdate": {**body, "metadata": {**metadata, GENERATION: generation}}}


def asked(generation: int, *content: Json, message: str = "m1") -> Json:
    output = {"messageId": message, "role": "ROLE_USER", "parts": list(content)}
    body = {"status": {"state": "TASK_STATE_SUBMITTED", "message": output}}
    return {"statusUpdate": {**body, "metadata": {GENERATION: generation}}}


def steps(*events: Json, max_file_bytes: int = 8) -> list[Json]:
    recorder = CaseRecorder(max_file_bytes)
    for event in events:
        recorder.add(TaskEvent(event))
    return recorder.steps


def test_pieces_of_a_text_are_one_step() -> None:
    pieces = [status(n, "WORKING", parts.text_part(text)) for n, text in enumerate("abc", 1)]
    thought = status(4, "WORKING", parts.thinking_part("hm"))
    assert steps(*pieces, thought) == [{"text": "abc"}, {"thinking": "hm"}]


def test_the_output_of_a_discarded_attempt_is_left_out() -> None:
    lost = status(2, "WORKING", parts.text_part("lost"))
    again = status(3, "WORKING", **{ATTEMPT: 2, DISCARDED_AFTER: 1})
    kept = status(4, "WORKING", parts.text_part("kept"))
    assert steps(asked(1, {"text": "hi"}), lost, again, kept) == [
        {"input": [{"text": "hi"}]},
        {"text": "kept"},
    ]


def test_a_queued_message_is_one_input() -> None:
    message = {"messageId": "m2", "role": "ROLE_USER", "parts": [{"text": "more"}]}
    queued = status(1, "WORKING", **{QUEUED: {"message": message, "metadata": {}}})
    taken = asked(2, {"text": "more"}, message="m2")
    assert steps(queued, taken) == [{"input": [{"text": "more"}]}]


def test_what_child_tasks_emit_is_left_out() -> None:
    assert steps(status(1, "WORKING", parts.text_part("child's"), **{CHILD: {"task": "t2"}})) == []


def test_a_question_has_its_interrupts() -> None:
    interrupts = [{"id": "i1", "message": "Really?"}]
    event = status(1, "INPUT_REQUIRED", {"text": "Really?"}, **{INTERRUPTS: interrupts})
    state = {"state": "input-required", "text": "Really?", "interrupts": interrupts}
    assert steps(event) == [{"state": state}]


def test_a_large_file_is_recorded_by_its_digest() -> None:
    small, large = parts.file_part(b"12345678", "a"), parts.file_part(b"123456789", "b")
    [step] = steps(asked(1, small, large))
    assert [part.get("raw") for part in step["input"]] == [b64encode(b"12345678").decode(), None]
    assert [part["bytes"] for part in step["input"]] == [8, 9]
    assert "sha256" in step["input"][1]


def test_credentials_in_addresses_and_metadata_are_left_out() -> None:
    link = parts.link_part("https://me:secret@files.example/a?token=secret#secret", "a")
    text = {"text": "hi", "metadata": {"apiKey": "secret"}}
    [step] = steps(asked(1, link, text))
    assert step == {"input": [{"filename": "a", "url": "https://files.example/a"}, {"text": "hi"}]}


def test_ids_times_and_addresses_are_not_compared() -> None:
    def recorded(name: str) -> list[Json]:
        interrupts = [{"id": name, "expiresAt": name, "message": "Really?"}]
        answer = {"text": "yes", "metadata": {parts.INTERRUPT_ID: name}}
        return steps(
            status(1, "WORKING", parts.tool_call_part("stock", {}, f"call-{name}")),
            status(2, "WORKING", parts.link_part(f"https://files.example/{name}", "a.txt")),
            status(3, "WORKING", parts.subagent_part(name, "helper")),
            status(4, "INPUT_REQUIRED", {"text": "Really?"}, **{INTERRUPTS: interrupts}),
            asked(5, answer),
        )

    assert outline(recorded("one")) == outline(recorded("other"))
    assert recorded("one") != recorded("other")


def test_a_case_is_read_as_it_was_written() -> None:
    case = Case("shop", [{"input": [{"text": "line\u2028\nnext"}]}, {"text": "ü"}], "c.jsonl")
    assert parse_case("\n".join(case.lines()) + "\n", "c.jsonl") == case


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        ([], "c:1: a line must be a JSON object: Expecting value"),
        (["[]"], "c:1: a line must be a JSON object, not list"),
        (['{"format": "other"}'], "c:1: the first line must have format 'headrace.case'"),
        (
            [HEADER.replace("1", "2")],
            "c:1: version must be 1, not 2; export it again",
        ),
        ([HEADER.replace("shop", "")], "c:1: agent must be an agent's name"),
        ([HEADER], "c:2: the first step must be an input"),
        ([HEADER, '{"text": "a"}'], "c:2: the first step must be an input"),
        ([HEADER, '{"input": ["a"]}'], "c:2: input must be a list of A2A Parts"),
        ([HEADER, '{"input": []}', '{"text": "a'], "c:3: a line must be a JSON object: Unter"),
        ([HEADER, '{"input": []}', '{"text": 1}'], "c:3: text must be a JSON string"),
        ([HEADER, '{"input": []}', '{"word": "a"}'], "c:3: a step must have one key of input, "),
        (
            [HEADER, '{"input": []}', json.dumps({"state": {"interrupts": ["a"]}})],
            "c:3: interrupts must be a list of AG-UI Interrupts",
        ),
    ],
)
def test_a_file_that_is_no_case_is_refused_with_line_and_rule(lines: list[str], error: str) -> None:
    with pytest.raises(CaseInvalid) as refused:
        parse_case("\n".join(lines), "c")
    assert str(refused.value).startswith(error)
