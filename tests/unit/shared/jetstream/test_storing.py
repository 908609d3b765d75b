"""Storing a message once while nobody knows what came of it."""

from base64 import b64encode
from typing import Any

import pytest

from headrace.jetstream.api import store_after
from headrace.jetstream.errors import Refused
from headrace.model.errors import BusUnavailable, NobodyListens
from tests.support.fake_bus import FakeBus

MOVED = {"error": {"code": 400, "err_code": 10071, "description": "wrong last sequence: 8"}}
NO_LEADER = {"error": {"code": 503, "err_code": 10008, "description": "no leader"}}
NOTHING = {"error": {"code": 404, "err_code": 10037, "description": "no message found"}}
SILENT, UNHEARD = BusUnavailable("silence"), NobodyListens("nobody")
STORED = {"seq": 8}


def stands(data: bytes, sequence: int = 8) -> dict[str, Any]:
    return {"message": {"seq": sequence, "data": b64encode(data).decode()}}


async def stored(*answers: dict[str, Any] | BusUnavailable) -> int:
    """Return where ``mine`` is stored behind sequence 7 by a stream that gives these answers."""
    left = list(answers)
    bus = FakeBus(lambda _subject, _payload: left.pop(0))
    sequence = await store_after(bus, "S", "s.a", b"mine", 7)
    assert not left
    return sequence


@pytest.mark.parametrize("error", [SILENT, UNHEARD, NO_LEADER])
async def test_it_is_queried_again_until_a_leader_answers(
    error: dict[str, Any] | BusUnavailable,
) -> None:
    assert await stored(error, error, STORED) == 8


async def test_what_was_stored_without_an_ack_is_not_stored_again() -> None:
    assert await stored(SILENT, MOVED, stands(b"mine")) == 8


async def test_what_is_on_its_way_is_waited_for() -> None:
    on_its_way = stands(b"former", 7)
    assert await stored(SILENT, MOVED, on_its_way, MOVED, NOTHING, MOVED, stands(b"mine")) == 8


async def test_another_message_there_is_not_taken_for_it() -> None:
    with pytest.raises(Refused) as raised:
        await stored(SILENT, MOVED, stands(b"theirs"))
    assert raised.value.has_other_sequence


async def test_a_permanent_refusal_is_reported_at_once() -> None:
    for answers in ([MOVED], [UNHEARD, MOVED]):
        with pytest.raises(Refused) as raised:
            await stored(*answers)
        assert raised.value.has_other_sequence
