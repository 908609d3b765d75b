"""What a user's answer decides on tool calls that wait for approval."""

from datetime import UTC, datetime, timedelta

import pytest

from headrace.adapters.conversation.turns import CallItem, other_parts
from headrace.adapters.questions.answers import AnswerInvalid
from headrace.adapters.questions.approvals import Decision, decisions_of, question
from headrace.model.events import Json

CALL = CallItem("c1", "refund", {"order": "A1"})
ASKED = question(CALL)


def named(payload: object, status: str = "resolved", name: str = "c1") -> Json:
    output = {"agui_interrupt_id": name, "agui_resume_status": status}
    return {"data": payload, "metadata": output}


def test_a_question_states_what_is_to_be_done_and_how_to_answer() -> None:
    assert ASKED["message"] == 'Approve refund({"order":"A1"})?'
    assert (ASKED["id"], ASKED["toolCallId"]) == ("c1", "c1")
    assert ASKED["responseSchema"]["required"] == ["approved"]
    ends = datetime.fromisoformat(question(CALL, within=60)["expiresAt"])
    assert timedelta(0) < ends - datetime.now(UTC) <= timedelta(seconds=60)


def test_a_question_has_titles_and_types_of_the_tools_arguments_without_references() -> None:
    order = {"title": "Order", "description": "Its number", "type": "string", "default": "A"}
    arguments: Json = {"properties": {"order": order, "to": {"$ref": "#/$defs/To"}, "odd": True}}
    schema = question(CALL, arguments=arguments)["responseSchema"]
    edited = schema["properties"]["editedArgs"]
    shown = {"title": "Order", "description": "Its number", "type": "string"}
    assert edited == {"type": "object", "properties": {"order": shown, "to": {}}}
    assert ASKED["responseSchema"]["properties"]["editedArgs"] == {"type": "object"}
    unknowns: list[Json] = [{}, {"properties": []}, {"properties": {}}]
    for unknown in unknowns:
        assert question(CALL, arguments=unknown)["responseSchema"] == ASKED["responseSchema"]


@pytest.mark.parametrize(
    ("answer", "decided"),
    [
        ([named({"approved": True})], Decision(approved=True)),
        ([named({"approved": True, "editedArgs": {"a": 1}})], Decision(True, {"a": 1})),  # noqa: FBT003
        ([named({"approved": False, "reason": "no"})], Decision(approved=False, reason="no")),
        ([named(None, "cancelled")], Decision(approved=False, reason="The user cancelled it.")),
        ([named({"approved": True}, name="?")], Decision(False, None, "The user did not answer.")),  # noqa: FBT003
        ([{"data": {"approved": True}}], Decision(approved=True)),
        ([{"data": True}], Decision(approved=True)),
        ([{"text": "Yes."}], Decision(approved=True)),
        ([{"text": "what is it?"}], Decision(approved=False, reason="what is it?")),
    ],
)
def test_only_a_clear_yes_approves(answer: list[Json], decided: Decision) -> None:
    assert decisions_of(answer, [ASKED]) == {"c1": decided}


@pytest.mark.parametrize("payload", [{"approved": 1}, {"approved": "true"}, {}, 7, []])
def test_an_answer_of_another_shape_decides_nothing(payload: object) -> None:
    with pytest.raises(AnswerInvalid, match="c1"):
        decisions_of([named(payload)], [ASKED])


def test_an_answer_that_comes_too_late_refuses() -> None:
    late = question(CALL, within=-1)
    [decided] = decisions_of([named({"approved": True})], [late]).values()
    assert (decided.approved, decided.reason) == (False, "The approval came too late.")


def test_text_beside_answers_is_the_users_message() -> None:
    assert other_parts([named({"approved": True}), {"text": "Thanks."}]) == [{"text": "Thanks."}]
    assert other_parts([{"text": "yes"}]) == []


def test_an_answer_to_one_call_approves_no_other_under_whichever_name_it_names_it() -> None:
    other = question(CallItem("c2", "refund", {}))
    output = {"data": {"approved": True}, "metadata": {"interrupt_id": "c1"}}
    decided = decisions_of([output], [ASKED, other])
    assert [decided[call].approved for call in ("c1", "c2")] == [True, False]
