"""JSON stays exact, whole and on one line, whoever wrote it."""

import json
import math
from dataclasses import dataclass
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model import json_text

LARGEST = int(1.7976931348623157e308)
BIG = [2**64, 2**64 + 1, -(2**63) - 1, 10**21, -(10**300), LARGEST]
ANY_CHARACTER = st.characters(codec=None, exclude_categories=())
ANY_TEXT = st.text(ANY_CHARACTER, max_size=8)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-LARGEST, LARGEST) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=8,
)


def whole(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return `value` with its text as readers in other languages would have it."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {whole(name): whole(one) for name, one in value.items()}
    return [whole(one) for one in value] if isinstance(value, list) else value


@given(ANY_JSON)
def test_what_is_written_reads_the_same_and_is_one_line_for_every_reader(value: object) -> None:
    text = json_text.encode(value)
    assert json_text.decode(text) == json_text.decode_foreign(text) == whole(value)
    assert json.loads(text) == whole(value)
    assert len(text.decode().splitlines()) == len(text.splitlines()) == 1


@given(ANY_JSON)
def test_what_others_write_is_read_whole_and_exact(value: object) -> None:
    assert json_text.decode_foreign(json.dumps(value).encode()) == whole(value)
    assert json_text.decode_foreign(json.dumps(value)) == whole(value)


@given(ANY_JSON | st.sampled_from(BIG))
def test_json_within_text_has_no_mark_and_reads_the_same(value: object) -> None:
    text = json_text.text(value)
    assert "\t" not in text
    assert json_text.decode_foreign(text) == json.loads(text) == whole(value)


def test_text_stays_as_it_is_and_other_values_become_json() -> None:
    assert json_text.as_text('"a"') == '"a"'
    assert json_text.as_text({"a": 2**70}) == f'{{"a":{2**70}}}'
    assert json_text.as_text(None) == "null"


@pytest.mark.parametrize("number", BIG)
def test_an_integer_beyond_64_bits_stays_exact_wherever_it_stands(number: int) -> None:
    value = {"a": [number, {"b": number}], "c": (number,)}
    read = json_text.decode(json_text.encode(value))
    assert read == {"a": [number, {"b": number}], "c": [number]}
    assert [type(one) for one in read["c"]] == [int]


@pytest.mark.parametrize("number", [2**64 - 1, -(2**63), 0, 2**53 + 1])
def test_integers_of_64_bits_are_written_without_a_mark(number: int) -> None:
    assert json_text.encode([number]) == b"[%d]" % number


def test_an_integer_that_no_double_is_near_is_refused_with_its_field() -> None:
    with pytest.raises(TypeError, match=r"^a\.b\[1\] must be an integer of at most 1\.8e308"):
        json_text.encode({"a": {"b": [1, 10**400]}})


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b'{"a": {"b": [0, NaN]}}', "a.b[1] is NaN"),
        (b'{"a": -Infinity}', "a is not from -1.8e308 to 1.8e308"),
        (b'{"a": 1e999}', "a is not from -1.8e308 to 1.8e308"),
        (b"[1, %b]" % (b"9" * 400), "[1] is not from -1.8e308 to 1.8e308"),
        (rb'{"t": "\ud83d", "a": NaN}', "a is NaN"),
    ],
)
def test_a_number_that_json_does_not_have_is_refused_with_its_field(
    text: bytes, fault: str
) -> None:
    with pytest.raises(orjson.JSONDecodeError) as refused:
        json_text.decode_foreign(text)
    assert str(refused.value).startswith(fault)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (rb'"\ud83d"', "\ufffd"),
        (rb'"\ude00"', "\ufffd"),
        (rb'"\ud83d\ude00"', "\U0001f600"),
        (rb'"\uD83D\uDE00"', "\U0001f600"),
        (rb'"\ud83d\ud83d\ude00\ude00"', "\ufffd\U0001f600\ufffd"),
        (rb'"\\ud83d \ud83d"', "\\ud83d \ufffd"),
        (rb'"\\\ud83d"', "\\\ufffd"),
        (rb'"\\\\\ud83d\\\\\ude00"', "\\\\\ufffd\\\\\ufffd"),
        (rb'"\n\ud83d\n\ude00"', "\n\ufffd\n\ufffd"),
    ],
)
def test_halves_of_a_character_are_joined_or_replaced(text: bytes, expected: str) -> None:
    assert json_text.decode_foreign(text) == expected


def test_halves_may_stay_for_text_that_continues_elsewhere() -> None:
    pieces = [rb'{"delta":"a \ud83d"}', rb'{"delta":"\ude00 b"}']
    deltas = [json_text.decode_foreign(one, keep_halves=True)["delta"] for one in pieces]
    assert deltas == ["a \ud83d", "\ude00 b"]
    assert json_text.mended("".join(deltas)) == "a \U0001f600 b"


@pytest.mark.parametrize(
    "text", [b"", b"{", b'"\xff\\ud83d"', b'"\xff"', rb'["\ud83d", tru]', b'"\xed\xa0\xbd"']
)
def test_what_is_not_json_stays_refused(text: bytes) -> None:
    with pytest.raises(orjson.JSONDecodeError):
        json_text.decode_foreign(text)


@pytest.mark.parametrize("depth", [1025, 100_000])
def test_json_with_half_a_character_may_not_be_deeper_than_other_json(depth: int) -> None:
    with pytest.raises(orjson.JSONDecodeError):
        json_text.decode_foreign(b"[" * depth + rb'"\ud83d"' + b"]" * depth)


def test_values_that_are_not_json_stay_refused() -> None:
    for value in (object(), {1: "x"}, b"x", ["\ud83d", object()], {2: "\ud83d"}):
        with pytest.raises(TypeError):
            json_text.encode(value)


@dataclass
class Row:
    name: str
    size: int
    _own: str = "hidden"


def test_dataclasses_are_written_as_ever_around_text_that_is_not_whole() -> None:
    assert json_text.encode(Row("a\udce9", 2**70)) == '{"name":"a\ufffd","size":\t%d}'.encode() % (
        2**70
    )
    assert json_text.encode(Row("a", 1)) == b'{"name":"a","size":1}'


def test_the_first_number_that_is_not_finite_is_found_with_its_path() -> None:
    value = {"a": [1.0, {"b": math.inf}], "c": math.nan}
    assert json_text.not_finite(value, "Data.data") == ("Data.data.a[1].b", math.inf)
    assert json_text.not_finite({"a": [1e308, None, "nan"]}) is None
    assert json_text.encode(value) == b'{"a":[1.0,{"b":null}],"c":null}'
