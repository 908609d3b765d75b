"""How a run ends that asks its user."""

import orjson

from headrace import InputRequired
from headrace.model.events import GENERATION, INPUT_SCHEMA, INTERRUPTS, PENDING_TOOL_CALLS, Json
from headrace.model.task import INPUT_REQUIRED
from headrace_worker.blocks import RunIds
from headrace_worker.encoder import Endings


def asked(output: InputRequired) -> tuple[Json, Json]:
    """Return the event's message and its metadata."""
    end = Endings("t", "c", RunIds("t", 1)).of(output)
    assert end.state == INPUT_REQUIRED
    update = orjson.loads(end.draft.line(1))["statusUpdate"]
    metadata = {key: value for key, value in update["metadata"].items() if key != GENERATION}
    return update["status"].get("message", {}), metadata


def test_a_question_has_its_words_and_the_answers_shape() -> None:
    message, metadata = asked(InputRequired("Which?", {"type": "string"}))
    assert message["parts"] == [{"text": "Which?"}]
    assert message["metadata"] == {INPUT_SCHEMA: {"type": "string"}}
    assert metadata == {}


def test_tool_calls_that_are_the_users_are_named_and_need_no_words() -> None:
    assert asked(InputRequired(tool_calls=["c-1"])) == ({}, {PENDING_TOOL_CALLS: ["c-1"]})


def test_interrupts_of_the_agents_own_are_handed_on() -> None:
    interrupt = {"id": "i", "reason": "approval"}
    assert asked(InputRequired("OK?", interrupts=[interrupt]))[1] == {INTERRUPTS: [interrupt]}
