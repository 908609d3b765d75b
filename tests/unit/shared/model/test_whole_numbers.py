"""Numbers that pass through protobuf's doubles."""

import json

from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Struct
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.whole_numbers import carried, whole

_NUMBERS = st.integers(-(2**80), 2**80) | st.floats(allow_nan=False, allow_infinity=False)
_JSON = st.recursive(
    _NUMBERS | st.text() | st.booleans() | st.none(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(value=_JSON)
def test_numbers_that_are_carried_come_back_as_they_were(value: object) -> None:
    struct = ParseDict(carried({"metadata": value}), Struct())
    # As text, because 1 and 1.0 are equal as values.
    found = json.dumps(whole(MessageToDict(struct)), sort_keys=True)
    assert found == json.dumps({"metadata": value}, sort_keys=True)


def test_typed_fields_are_left_to_protobuf() -> None:
    assert carried({"historyLength": 1.0, "generation": 2**60}) == {
        "historyLength": 1.0,
        "generation": 2**60,
    }


def test_what_is_nested_deeper_than_protobuf_takes_is_left_to_it() -> None:
    deep: object = 1.0
    for _ in range(5_000):
        deep = [deep]
    assert carried({"data": deep})["data"][0][0] == deep[0][0]  # type: ignore[index]


def test_a_double_is_no_longer_integer_than_it_knows() -> None:
    assert repr(whole([2.0**53, 2.0**60, 0.0, 1e300])) == repr([2**53, 2.0**60, 0, 1e300])
