"""Names inside subjects: encoded reversibly, or refused with the rule they break."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.errors import InvalidName
from headrace.model.names import MAX_TOKEN, check_agent_name, decode_token, encode_token, is_token

# Four bytes of three characters each fit for every character.
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=MAX_TOKEN // 12)


@settings(deadline=None, max_examples=50)
@given(NAMES)
def test_any_name_is_a_token_once_encoded_and_comes_back(name: str) -> None:
    assert is_token(encode_token(name))
    assert decode_token(encode_token(name)) == name


@settings(deadline=None, max_examples=50)
@given(NAMES, NAMES)
def test_different_names_never_share_a_token(one: str, other: str) -> None:
    assert (encode_token(one) == encode_token(other)) == (one == other)


def test_plain_names_stay_readable() -> None:
    assert encode_token("Team-7") == "Team-7"
    assert encode_token("a_b") == "a_5fb"
    assert encode_token("a.b>*") == "a_2eb_3e_2a"


@pytest.mark.parametrize("name", ["", "x" * (MAX_TOKEN + 1), "." * 70, "\ud800"])
def test_a_name_that_makes_no_token_is_refused(name: str) -> None:
    with pytest.raises(InvalidName):
        encode_token(name)


def test_tokens_that_were_made_of_no_name_are_readable() -> None:
    assert decode_token("a_ff_zz") == "a\ufffd_zz"


@pytest.mark.parametrize("name", ["echo", "a", "0", "A_b-C9", "x" * 64])
def test_agents_may_be_named(name: str) -> None:
    assert check_agent_name(name) == name


@pytest.mark.parametrize("name", ["", "-a", "_a", "a.b", "a b", "ä", "a\n", "x" * 65])
def test_agents_may_not_be_named(name: str) -> None:
    with pytest.raises(InvalidName) as refusal:
        check_agent_name(name)
    assert refusal.value.field == "agent"
    assert refusal.value.value == name


@pytest.mark.parametrize("text", ["", "a.b", "*", ">", "a b", "é", "a\n", "x" * (MAX_TOKEN + 1)])
def test_what_could_reach_beyond_its_place_in_a_subject_is_no_token(text: str) -> None:
    assert not is_token(text)
