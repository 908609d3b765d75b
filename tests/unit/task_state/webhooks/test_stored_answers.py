"""Looking for answers in users' streams: each message is read once for all of them."""

import asyncio
from datetime import datetime
from typing import Any

import pytest

from headrace.model.errors import BusUnavailable
from headrace_task_state.webhooks.stored_answers import AnswerPlace, SearchedMessage, StoredAnswers

PLACE = AnswerPlace("ORDERS", "orders.done")


class UserStream:
    """A stream, whose reads are counted; message 1 was stored at 1000, each next a second later."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self.reads = 0
        self.is_away = False

    async def read(self, stream: str, query: dict[str, Any]) -> list[SearchedMessage]:
        assert (stream, query["next_by_subj"]) == PLACE
        self.reads += 1
        await asyncio.sleep(0)
        if self.is_away:
            raise BusUnavailable("no leader")
        number = query.get("seq") or _first_at(query["start_time"])
        if number > len(self.names):
            return []
        return [SearchedMessage(number, 999.0 + number, self.names[number - 1])]


def _first_at(start: str) -> int:
    return max(round(datetime.fromisoformat(start).timestamp()) - 999, 1)


async def test_what_was_read_for_one_answer_is_not_read_for_another() -> None:
    stream = UserStream("a", "b", "c")
    stored = StoredAnswers(stream.read)
    assert [await stored.has(PLACE, name, 1000.0) for name in "abcab"] == [True] * 5
    assert stream.reads == 4


async def test_a_later_answer_is_read_from_where_the_last_reading_ended() -> None:
    stream = UserStream("a", "b", "c")
    stored = StoredAnswers(stream.read)
    assert not await stored.has(PLACE, "d", 1000.0)
    stream.names.append("d")
    assert await stored.has(PLACE, "d", 1000.0)
    assert stream.reads == 4 + 2


async def test_answers_that_are_looked_for_together_are_read_once() -> None:
    stream = UserStream("a", "b", "c")
    stored = StoredAnswers(stream.read)
    found = await asyncio.gather(*(stored.has(PLACE, name, 1000.0) for name in "abcd"))
    assert found == [True, True, True, False]
    assert stream.reads == 4


async def test_an_earlier_answer_has_the_stream_read_from_its_time() -> None:
    stream = UserStream("a", "b")
    stored = StoredAnswers(stream.read)
    assert await stored.has(PLACE, "a", 1000.0)
    assert not await stored.has(PLACE, "x", 900.0)
    assert stream.reads == 3 + 3


async def test_an_answer_is_found_behind_those_that_fill_a_reading_from_an_earlier_time() -> None:
    stream = UserStream(*map(str, range(99)))
    stored = StoredAnswers(stream.read, most_read=100)
    assert await stored.has(PLACE, "0", 1000.0)
    stream.names += ["x", "y"]
    assert await stored.has(PLACE, "y", 1099.0)
    assert not await stored.has(PLACE, "z", 1000.0)


async def test_any_number_of_late_answers_has_each_message_read_once() -> None:
    stream = UserStream(*map(str, range(2000)))
    stored = StoredAnswers(stream.read, most_read=100)
    late = [stored.has(PLACE, f"late {number}", 1000.0 + number) for number in range(2000)]
    assert sum(await asyncio.gather(*late)) == 0
    assert stream.reads == 2000 + 1
    early = [stored.has(PLACE, str(number), 1000.0 + number) for number in range(1980, 2000)]
    assert sum(await asyncio.gather(*early)) == 20
    assert stream.reads == 2000 + 1


async def test_a_stream_that_was_made_anew_is_read_from_its_beginning() -> None:
    stream = UserStream("a", "b", "c")
    stored = StoredAnswers(stream.read, remembered=0.0)
    assert await stored.has(PLACE, "c", 1000.0)
    stream.names = ["d"]
    assert await stored.has(PLACE, "d", 1000.0)
    assert not await stored.has(PLACE, "c", 1000.0)


async def test_a_stream_that_could_not_be_read_is_read_again() -> None:
    stream = UserStream("a")
    stored = StoredAnswers(stream.read)
    stream.is_away = True
    with pytest.raises(BusUnavailable):
        await stored.has(PLACE, "a", 1000.0)
    stream.is_away = False
    assert await stored.has(PLACE, "a", 1000.0)


async def test_a_reading_that_is_interrupted_goes_on_however_long_it_has_taken() -> None:
    stream = UserStream("a", "b", "c")
    read = stream.read

    async def slow(name: str, query: dict[str, Any]) -> list[SearchedMessage]:
        await asyncio.sleep(0.06)
        stream.is_away = stream.reads % 2 == 1
        return await read(name, query)

    stored = StoredAnswers(slow, remembered=0.1)
    for _ in "abc":
        with pytest.raises(BusUnavailable):
            await stored.has(PLACE, "d", 1000.0)
    assert await stored.has(PLACE, "c", 1000.0)
    assert stream.reads == 6


async def test_an_answer_that_was_read_is_found_before_a_reading_that_fails() -> None:
    stream = UserStream("a", "b")
    read = stream.read

    async def failing(name: str, query: dict[str, Any]) -> list[SearchedMessage]:
        stream.is_away = stream.reads == 1
        return await read(name, query)

    stored = StoredAnswers(failing)
    assert await stored.has(PLACE, "a", 1000.0)


async def test_answers_that_wait_for_a_reading_that_fails_do_not_read_again() -> None:
    stream = UserStream("a")
    stored = StoredAnswers(stream.read)
    stream.is_away = True
    looking = (stored.has(PLACE, name, 1000.0) for name in "abc")
    outcomes = await asyncio.gather(*looking, return_exceptions=True)
    assert [type(one) for one in outcomes] == [BusUnavailable] * 3
    assert stream.reads == 1


async def test_answers_of_many_subjects_are_found() -> None:
    subjects = [AnswerPlace("ORDERS", f"orders.{number}") for number in range(20)]

    async def read(_: str, query: dict[str, Any]) -> list[SearchedMessage]:
        return [] if "seq" in query else [SearchedMessage(1, 1.0, query["next_by_subj"])]

    stored = StoredAnswers(read)
    found = [await stored.has(place, place.subject, 1.0) for place in subjects]
    assert found == [True] * 20
