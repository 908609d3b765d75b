"""Reading by schema accepts what the SDK's parser accepts, and keeps what that would blur."""

from typing import Any

import pytest
from a2a.types import a2a_pb2
from a2a.utils.errors import InvalidParamsError
from a2a.utils.proto_utils import validate_proto_required_fields
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.model.nesting import MAX_DEPTH
from headrace_gateway.protocols.a2a.protojson import read
from headrace_gateway.refusals import Malformed

NAMES = st.text(max_size=3)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | NAMES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=4,
)
ODD = st.sampled_from([None, 0, 1, 1.0, 1.5, -1, 2**40, True, "1", "-2", "x", {"a": 1}, ["a"]])
BASE64 = st.sampled_from(["", "AAAA", "AA==", "AA", "_-8=", "+/8"])


def sometimes_odd(usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(usual, usual, usual, ODD)


def fields(**usual: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    optional = {name: sometimes_odd(strategy) for name, strategy in usual.items()}
    return st.fixed_dictionaries({}, optional=optional)


PARTS = fields(
    text=NAMES,
    raw=BASE64,
    url=NAMES,
    data=JSON,
    mediaType=st.just("text/plain"),
    file_name=st.just("unknown"),
    metadata=st.dictionaries(NAMES, JSON, max_size=2),
)
MESSAGES = fields(
    messageId=NAMES,
    task_id=NAMES,
    role=st.sampled_from(["ROLE_USER", "ROLE_AGENT", "ROLE_UNSPECIFIED", 1, 2, "2"]),
    parts=st.lists(sometimes_odd(PARTS), max_size=2),
    extensions=st.lists(sometimes_odd(NAMES), max_size=2),
)
CONFIGURATIONS = fields(
    historyLength=st.integers(-5, 5),
    returnImmediately=st.booleans(),
    return_immediately=st.booleans(),
)
REQUESTS = fields(message=MESSAGES, configuration=CONFIGURATIONS, tenant=st.text(max_size=2))
LISTS = fields(
    status=st.sampled_from(["TASK_STATE_WORKING", 3, "TASK_STATE_UNSPECIFIED"]),
    statusTimestampAfter=st.sampled_from(
        ["2026-01-31T12:00:00Z", "2026-01-31T12:00:00.5+02:00", "2026-01-31", "now"]
    ),
    pageSize=st.integers(-(2**33), 2**33),
)


STRICTER = ("must be one of", "must have one of", "must be an object")
"""Where we are stricter than the parser: it drops values of enums that it does not know, does not
see that a part needs content, and takes a string for an object without known fields."""


def parsed(kind: type[Message], request: Any) -> Message | None:  # noqa: ANN401 - any JSON
    """Return what the SDK makes of it; None: it refuses it."""
    try:
        message = ParseDict(request, kind(), ignore_unknown_fields=True)
        validate_proto_required_fields(message)
    except (ParseError, InvalidParamsError, AttributeError, TypeError):
        return None
    return message


def agrees(kind: type[Message], request: Any) -> None:  # noqa: ANN401 - any JSON
    theirs, ours, rules = parsed(kind, request), None, list[str]()
    try:
        ours = read(kind, request)
    except Malformed as malformed:
        rules = [violation.rule for violation in malformed.violations]
    if ours is not None:
        assert theirs is not None
        assert parsed(kind, ours) == theirs
    elif theirs is not None:
        assert all(rule.startswith(STRICTER) for rule in rules), rules


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sometimes_odd(REQUESTS))
def test_messages_are_accepted_as_the_sdk_accepts_them(request: Any) -> None:  # noqa: ANN401
    agrees(a2a_pb2.SendMessageRequest, request)


@settings(deadline=None)
@given(sometimes_odd(LISTS))
def test_lists_are_accepted_as_the_sdk_accepts_them(request: Any) -> None:  # noqa: ANN401
    agrees(a2a_pb2.ListTasksRequest, request)


def sent(**message: object) -> dict[str, Any]:
    return {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "a"}]} | message}


@given(JSON)
def test_free_json_stays_as_it_came(free: Any) -> None:  # noqa: ANN401
    request = sent(parts=[{"data": free}], metadata={"m": free})
    result = read(a2a_pb2.SendMessageRequest, request)["message"]
    assert repr(result["parts"]) == repr([{"data": free}])
    assert repr(result["metadata"]) == repr({"m": free})


def test_all_faults_are_reported_at_once() -> None:
    with pytest.raises(Malformed) as malformed:
        read(a2a_pb2.SendMessageRequest, sent(messageId=1, role="R", parts=[{"raw": "!"}, {}]))
    assert [violation.field for violation in malformed.value.violations] == [
        "message.messageId",
        "message.role",
        "message.parts[0].raw",
        "message.parts[1]",
    ]


def test_items_without_content_are_left_out() -> None:
    request = sent(taskId="", contextId=None, referenceTaskIds=[]) | {"metadata": {}}
    assert read(a2a_pb2.SendMessageRequest, request) == sent() | {"metadata": {}}


def test_nesting_that_no_parser_follows_is_refused() -> None:
    deep: Any = 1
    for _ in range(MAX_DEPTH + 1):
        deep = [deep]
    with pytest.raises(Malformed, match="nested"):
        read(a2a_pb2.SendMessageRequest, sent(parts=[{"data": deep}]))
    assert read(a2a_pb2.SendMessageRequest, sent(parts=[{"data": deep[0][0]}]))


@pytest.mark.parametrize(
    ("sent_as", "number"),
    [(2**31 - 1, 2**31 - 1), (-(2**31), -(2**31)), ("-1", -1), (float(-(2**31)), -(2**31))],
)
def test_an_integer_at_the_edge_of_its_type_is_taken(sent_as: object, number: int) -> None:
    agrees(a2a_pb2.ListTasksRequest, {"pageSize": sent_as})
    assert read(a2a_pb2.ListTasksRequest, {"pageSize": sent_as}) == {"pageSize": number}


@pytest.mark.parametrize(
    "beyond",
    [2**31, -(2**31) - 1, float(2**31), True, False, 1.5, "2147483649", "9" * 5000],
    ids=repr,
)
def test_what_is_no_integer_of_its_type_is_refused_by_its_name(beyond: object) -> None:
    with pytest.raises(Malformed, match="32-bit integer") as refusal:
        read(a2a_pb2.ListTasksRequest, {"pageSize": beyond})
    assert "pageSize" in str(refusal.value.violations)
