"""Messages of the most frequent shape are read without the schema, with the same result."""

import copy
from typing import Any

import pytest

from headrace_gateway.protocols.a2a.parameters import SendMessageParams, plain_message
from headrace_gateway.refusals import Malformed

type Json = dict[str, Any]

PLAIN: Json = {
    "message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "a"}, {"text": ""}]}
}


def changed(**message: object) -> Json:
    return {"message": PLAIN["message"] | message}


def test_a_plain_message_is_read_as_by_the_schema() -> None:
    assert plain_message(PLAIN) == PLAIN["message"]
    by_schema = SendMessageParams.read_by_schema(copy.deepcopy(PLAIN))
    assert SendMessageParams.read(copy.deepcopy(PLAIN)) == by_schema


@pytest.mark.parametrize(
    "params",
    [
        changed(contextId="c"),
        changed(taskId="t"),
        changed(metadata={"a": 1}),
        changed(parts=[{"text": "a", "mediaType": "text/html"}]),
        changed(parts=[{"data": 1}]),
        changed(role=1),
        changed(extensions=[]),
        PLAIN | {"configuration": {"historyLength": 0}},
        PLAIN | {"metadata": {"a": 1}},
        PLAIN | {"unknown": 1},
        {"message": {"message_id": "m", "role": "ROLE_USER", "parts": [{"text": "a"}]}},
    ],
)
def test_any_other_message_is_read_by_the_schema(params: Json) -> None:
    assert plain_message(params) is None
    by_schema = SendMessageParams.read_by_schema(copy.deepcopy(params))
    assert SendMessageParams.read(copy.deepcopy(params)) == by_schema


@pytest.mark.parametrize(
    "params",
    [
        None,
        [],
        {},
        {"message": None},
        {"message": {}},
        changed(messageId=""),
        changed(messageId=1),
        changed(role="ROLE_AGENT"),
        changed(parts=[]),
        changed(parts={"text": "a"}),
        changed(parts=[{}]),
        changed(parts=[{"text": 1}]),
        changed(parts=["a"]),
    ],
)
def test_an_invalid_message_is_refused_by_the_schema(params: object) -> None:
    assert plain_message(params) is None
    with pytest.raises(Malformed):
        SendMessageParams.read(params)
