"""Where answers are published, and what of a task."""

import pytest
from pydantic import ValidationError

from headrace.model.answers import AnswerRule, ReplyRefused
from headrace.model.events import Json

INBOX = "_INBOX.Zk3.1"


@pytest.mark.parametrize(
    "subject",
    [
        "$JS.API.STREAM.PURGE.x",
        "_INBOX.a",
        "$KV.AGENTS.a",
        "a.*",
        "a.>",
        "a..b",
        "",
        "a b",
        "a\r\nb",
    ],
)
def test_an_answer_goes_to_no_subject_of_the_servers_and_to_no_pattern(subject: str) -> None:
    with pytest.raises(ValidationError, match="must be a NATS subject without wildcards"):
        AnswerRule(subject=subject)


def test_an_answer_goes_to_no_subject_that_would_close_the_connection() -> None:
    assert AnswerRule(subject="a" * 255).subject is not None
    with pytest.raises(ValidationError, match="at most 255 characters"):
        AnswerRule(subject="a" * 256)


@pytest.mark.parametrize(
    ("declared", "rule"),
    [
        ({}, "exactly one of subject and reply"),
        ({"subject": "a", "reply": True}, "exactly one of subject and reply"),
        ({"reply": True, "stream": "S"}, "no stream stores replies"),
    ],
)
def test_a_rule_has_one_place(declared: Json, rule: str) -> None:
    with pytest.raises(ValidationError, match=rule):
        AnswerRule.model_validate(declared)


@pytest.mark.parametrize(
    "reply",
    [
        "$JS.API.STREAM.PURGE.x",
        "headrace.run.a",
        "_INBOX.gateway.x",
        "_INBOX.worker.x",
        "_R_.x.1",
        f"_INBOX.{'x' * 4080}",
    ],
)
def test_a_reply_goes_to_no_inbox_of_the_fleets_own(reply: str) -> None:
    with pytest.raises(ReplyRefused):
        AnswerRule(reply=True).answers(reply, 1)


def test_a_reply_goes_to_the_inbox_of_the_caller() -> None:
    answers = AnswerRule(reply=True).answers(INBOX, 2)
    assert answers is not None
    assert (answers.subject, answers.stream, answers.depth) == (INBOX, None, 2)
    assert AnswerRule(reply=True).answers("", 1) is None
    named = AnswerRule(subject="orders.done").answers(INBOX, 1)
    assert named is not None
    assert named.subject == "orders.done"


def status(state: str) -> Json:
    return {"statusUpdate": {"status": {"state": f"TASK_STATE_{state}"}}}


@pytest.mark.parametrize(
    ("what", "included"),
    [
        ("end", ["COMPLETED", "INPUT_REQUIRED"]),
        ("artifacts", ["artifact"]),
        ("events", ["SUBMITTED", "WORKING", "artifact", "COMPLETED", "INPUT_REQUIRED"]),
    ],
)
def test_a_rule_states_what_is_published(what: str, included: list[str]) -> None:
    answers = AnswerRule.model_validate({"subject": "a", "what": what}).answers("", 1)
    assert answers is not None
    received: dict[str, Json] = {
        "SUBMITTED": {"task": {"status": {"state": "TASK_STATE_SUBMITTED"}}},
        "WORKING": status("WORKING"),
        "artifact": {"artifactUpdate": {}},
        "COMPLETED": status("COMPLETED"),
        "INPUT_REQUIRED": status("INPUT_REQUIRED"),
    }
    assert [name for name, event in received.items() if answers.include(event)] == included
