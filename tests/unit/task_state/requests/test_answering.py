"""Questions are answered, in pieces if need be, or refused."""

import json
import logging
from base64 import urlsafe_b64encode

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from headrace.jetstream.headers import nanoseconds
from headrace.model.errors import (
    BusUnavailable,
    InvalidName,
    LogLost,
    NewerVersion,
    StateUnavailable,
    TaskUnknown,
    UndecodableMessage,
)
from headrace.model.messages import GetTask
from headrace.state_client import MORE
from headrace_task_state.queries.frontier import ViewBehind
from headrace_task_state.queries.list_tasks import decode_cursor, encode_cursor
from headrace_task_state.requests import AnswerPieces, refusal_of
from headrace_task_state.store import After
from tests.support.waiting import eventually


def invalid() -> Exception:
    try:
        GetTask.model_validate({"tenant": "t", "owner": "o"})
    except ValidationError as error:
        return error
    raise AssertionError


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (TaskUnknown("task not found"), "task_unknown", "task not found"),
        (InvalidName("pageToken", "x", "is none"), "bad_request", "is none"),
        (invalid(), "bad_request", "task: Field required"),
        (StateUnavailable("later"), "state_unavailable", "later"),
        (BusUnavailable("no leader"), "state_unavailable", "no leader"),
        (TimeoutError(), "state_unavailable", "in time"),
        (NewerVersion("get", "version 4"), "state_unavailable", "version 4"),
        (UndecodableMessage("get", "version x"), "bad_request", "version x"),
    ],
)
def test_what_goes_wrong_is_reported(error: Exception, code: str, message: str) -> None:
    refusal = refusal_of(error)
    assert refusal.code == code
    assert message in refusal.message


@pytest.mark.parametrize(
    ("error", "is_late"),
    [
        (ViewBehind("behind"), True),
        (TimeoutError(), True),
        (NewerVersion("get", "version 4"), True),
        (UndecodableMessage("get", "version x"), False),
        (StateUnavailable("no Redis"), False),
    ],
)
def test_an_answer_that_was_only_late_can_be_requested_again(
    error: Exception, *, is_late: bool
) -> None:
    assert refusal_of(error).is_late == is_late


@pytest.mark.parametrize("error", [KeyError("secret"), LogLost("secret")])
def test_an_unexpected_error_is_logged_and_not_shown(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        refusal = refusal_of(error)
    assert refusal.code == "state_unavailable"
    assert "secret" not in refusal.message
    assert "secret" in caplog.text


@pytest.mark.parametrize(
    ("error", "is_logged"),
    [(NewerVersion("get", "of two"), False), (UndecodableMessage("get", "of two"), True)],
)
def test_a_malformed_message_is_logged_and_a_newer_one_is_not(
    error: Exception, caplog: pytest.LogCaptureFixture, *, is_logged: bool
) -> None:
    refusal_of(error)
    assert ("of two" in caplog.text) == is_logged


@pytest.mark.parametrize("size", [1, 9, 10, 11, 20, 25])
async def test_pieces_in_a_row_are_the_answer(size: int) -> None:
    pieces = AnswerPieces("state.more.me", 10)
    answer = bytes(range(size))
    piece = pieces.first(answer)
    fetched = [piece.body]
    while more := piece.headers.get(MORE):
        assert more.startswith("state.more.me.")
        piece = pieces.fetch(more)
        fetched.append(piece.body)
    assert b"".join(fetched) == answer
    assert all(0 < len(body) <= 10 for body in fetched)


async def test_pieces_are_not_kept_for_ever() -> None:
    pieces = AnswerPieces("state.more.me", 10, life=0.01)
    more = pieces.first(b"x" * 25).headers[MORE]

    async def gone() -> bool:
        return pieces.fetch(more) == (b"", {})

    await eventually(gone, "the answer is forgotten")


@pytest.mark.parametrize("subject", ["state.more.me.token.1", "state.more.me.token.x", "a.b"])
def test_a_piece_that_is_not_kept_is_empty(subject: str) -> None:
    assert AnswerPieces("state.more.me", 10).fetch(subject) == (b"", {})


@given(st.integers(0, 2**53 - 1))
def test_a_page_token_names_where_the_page_ended(time: int) -> None:
    after = After(time, f"3-{'0' * 32}")
    assert decode_cursor(encode_cursor(after)) == after


@given(st.one_of(st.integers(max_value=-1), st.integers(2**53), st.floats(), st.booleans()))
def test_a_page_token_with_a_time_that_no_list_has_is_none(time: float) -> None:
    text = orjson.Fragment(json.dumps(time))
    token = urlsafe_b64encode(orjson.dumps([text, f"3-{'0' * 32}"])).decode()
    with pytest.raises(InvalidName):
        decode_cursor(token)


@given(st.text(min_size=1, max_size=60))
def test_any_other_text_is_no_page_token(text: str) -> None:
    with pytest.raises(InvalidName):
        decode_cursor(text)


def test_without_a_token_it_is_the_first_page() -> None:
    assert decode_cursor("") is None


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:01.5Z", 1_500_000_000),
        ("2026-11-20T12:47:48.204022694Z", 1795178868204022694),
    ],
)
def test_times_are_read_to_the_nanosecond(time: str, expected: int) -> None:
    assert nanoseconds(time) == expected
