"""Ids that agents give, made unique for clients and read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.events import Json
from headrace.model.run_ids import (
    in_order_of_calls,
    is_minted,
    minted_id,
    own_id,
    run_digest,
    unique_id,
    with_own_calls,
)

DIGEST = run_digest("0-abc", 1)


@given(own=st.text(min_size=1), number=st.integers(1, 999_999))
def test_a_unique_id_gives_the_agents_id_back(own: str, number: int) -> None:
    given_id = unique_id(own, DIGEST, number)
    assert given_id != own
    assert own_id(given_id) == own


@given(own=st.text(min_size=1), run=st.integers(1, 9))
def test_an_id_recurs_neither_in_another_run_nor_for_another_call_of_the_run(
    own: str, run: int
) -> None:
    digests = {run_digest(task, number) for task in ("a", "b") for number in (run, run + 1)}
    names = {unique_id(own, digest, number) for digest in digests for number in (1, 2, 3)}
    assert len(names) == 12


def test_an_id_that_the_runs_worker_minted_stays() -> None:
    minted = minted_id("call", DIGEST, 0)
    assert is_minted(minted)
    assert unique_id(minted, DIGEST) == minted
    assert own_id(unique_id(minted, DIGEST, 2)) == minted
    assert unique_id(minted, run_digest("other", 1)) != minted


@pytest.mark.parametrize(
    "foreign", ["", "call_1", "call_1700000000", "call_0123456789abcd", "call-0123456789-0", "a_b"]
)
def test_an_id_of_others_stays_as_it_is(foreign: str) -> None:
    assert own_id(foreign) == foreign


def test_half_a_character_in_an_id_does_not_matter() -> None:
    assert own_id(unique_id("c\ud83d", DIGEST)) == "c\ud83d"


def test_ids_of_calls_that_the_agent_does_not_tell_apart_are_put_in_their_order() -> None:
    other = run_digest("other", 1)
    given_ids = [
        unique_id("call_1", DIGEST, 3),
        "call_9",
        unique_id("call_2", DIGEST),
        unique_id("call_1", DIGEST),
        unique_id("call_1", other),
        unique_id("call_1", DIGEST, 2),
    ]
    assert in_order_of_calls(given_ids) == [3, 1, 2, 5, 4, 0]


def test_calls_in_a_clients_messages_get_the_agents_ids() -> None:
    name = unique_id("terminal:0", DIGEST)
    messages: list[Json] = [
        {"id": "u", "role": "user", "content": "x"},
        {"id": "a", "role": "assistant", "toolCalls": [{"id": name, "type": "function"}]},
        {"id": "t", "role": "tool", "toolCallId": name, "content": "y"},
    ]
    user, called, result = with_own_calls(messages)
    assert user == messages[0]
    assert called["toolCalls"] == [{"id": "terminal:0", "type": "function"}]
    assert result["toolCallId"] == "terminal:0"
