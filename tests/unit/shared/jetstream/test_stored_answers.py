"""Answers to publications that are not JetStream's."""

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from headrace.jetstream.api import sequence_in
from headrace.jetstream.errors import Refused
from headrace.model.errors import BusUnavailable


def _answer(data: bytes) -> Msg:
    return Msg(_client=Client(), data=data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"null",
        b'"stored"',
        b"{}",
        b'{"seq":"x"}',
        b'{"seq":null}',
        b'{"error":"full"}',
        b'{"error":{"code":"x"}}',
    ],
)
def test_anyones_json_leaves_open_whether_a_message_is_stored(data: bytes) -> None:
    with pytest.raises(BusUnavailable, match="is not JetStream's") as raised:
        sequence_in("log", _answer(data))
    assert not isinstance(raised.value, Refused)


def test_a_refusal_is_passed_on() -> None:
    with pytest.raises(Refused) as raised:
        sequence_in("log", _answer(b'{"error":{"code":400,"err_code":10071}}'))
    assert raised.value.number == 10071
