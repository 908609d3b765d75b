"""Of a train of messages only the unbroken beginning counts."""

import asyncio

import pytest
from nats.aio.msg import Msg

from headrace.jetstream.client import ReceivedMessage
from headrace.jetstream.direct_get import DirectAnswer, _ReplyBatch, direct_get
from headrace.model.errors import BusUnavailable
from tests.support.fake_bus import message
from tests.support.memory_bus import memory_bus
from tests.support.task_log import TaskLog


def stored(sequence: int, previous: int, **more: str) -> Msg:
    headers = {"Nats-Sequence": str(sequence), "Nats-Last-Sequence": str(previous)}
    return message("inbox", b"", headers | more)


def end(status: str = "204", last: int = 0, pending: int = 0, up_to: int = 0) -> Msg:
    headers = {"Status": status, "Nats-Num-Pending": str(pending)}
    if last:
        headers["Nats-Last-Sequence"] = str(last)
    return message("inbox", b"", headers | {"Nats-UpTo-Sequence": str(up_to)})


async def arrived(*train: Msg) -> DirectAnswer[int]:
    received = _ReplyBatch(lambda msg: int((msg.headers or {})["Nats-Sequence"]))
    for msg in train:
        received.receive(msg)
    await asyncio.wait_for(received.arrival(silence=0.02), 60)
    return received.answer


async def test_a_whole_train_is_taken_as_complete() -> None:
    answer = await arrived(stored(4, 0), stored(9, 4), end(last=9, pending=3, up_to=20))
    assert answer == DirectAnswer([4, 9], complete=True, pending=3, up_to=20)


async def test_what_comes_behind_a_hole_is_left() -> None:
    answer = await arrived(stored(4, 0), stored(12, 9), stored(13, 12), end(last=13))
    assert answer == DirectAnswer([4])


async def test_a_train_without_its_first_message_is_empty() -> None:
    assert await arrived(stored(9, 4), end(last=9)) == DirectAnswer([])


async def test_a_train_without_its_last_message_is_not_complete() -> None:
    answer = await arrived(stored(4, 0), end(last=9))
    assert (answer.messages, answer.complete) == ([4], False)


async def test_a_train_without_an_end_is_taken_as_far_as_it_came() -> None:
    assert await arrived(stored(4, 0), stored(9, 4)) == DirectAnswer([4, 9])


async def test_a_copy_that_does_not_answer_is_no_empty_log() -> None:
    assert await arrived() == DirectAnswer([], complete=False)


@pytest.mark.parametrize(("status", "complete"), [("404", True), ("413", False), ("503", False)])
async def test_an_empty_answer_and_a_refusal_are_two_things(status: str, *, complete: bool) -> None:
    assert await arrived(end(status)) == DirectAnswer([], complete=complete)


async def test_a_stored_message_with_a_status_of_its_own_is_no_end() -> None:
    answer = await arrived(stored(4, 0, Status="404"), stored(9, 4), end(last=9))
    assert answer == DirectAnswer([4, 9], complete=True)


async def test_concurrent_requests_get_their_own_answers() -> None:
    async with memory_bus() as bus:
        logs = [TaskLog(bus), TaskLog(bus)]
        for count, log in enumerate(logs, 2):
            await log.begin()
            await log.grow(count)
        answers = await asyncio.gather(*map(whole, logs))
        assert [len(answer.messages) for answer in answers] == [2, 3]
        assert all(answer.complete for answer in answers)
        assert not bus.connection._series


async def whole(log: TaskLog, *, alone: bool = False) -> DirectAnswer[Msg]:
    query = {"batch": 10, "seq": 1, "next_by_subj": log.subject}
    return await direct_get(log.bus, log.stream, query, lambda msg: msg, alone=alone)


async def test_what_comes_after_a_request_was_given_up_is_dropped() -> None:
    async with memory_bus() as bus:
        log = TaskLog(bus)
        await log.begin()
        reading = asyncio.Task(whole(log), loop=asyncio.get_running_loop(), eager_start=True)
        assert bus.connection._series
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert not bus.connection._series
        assert (await whole(log)).complete


async def test_a_stream_that_is_not_there_has_not_answered() -> None:
    async with memory_bus() as bus:
        answer = await direct_get(bus, "NO_SUCH_STREAM", {"batch": 1}, lambda msg: msg)
        assert (answer.messages, answer.complete) == ([], False)


@pytest.mark.parametrize("alone", [False, True])
async def test_a_mirror_that_is_asked_alone_has_not_answered_completely(
    monkeypatch: pytest.MonkeyPatch, *, alone: bool
) -> None:
    received = _ReplyBatch.receive

    def from_mirror(batch: _ReplyBatch[Msg], msg: ReceivedMessage) -> None:
        msg.block = msg.block.replace(b"\r\nNats-Stream: ", b"\r\nNats-Stream: COPY-OF-")
        received(batch, msg)

    async with memory_bus() as bus:
        log = TaskLog(bus)
        await log.begin()
        assert bus.has_only_copies
        assert (await whole(log, alone=alone)).complete
        monkeypatch.setattr(_ReplyBatch, "receive", from_mirror)
        answer = await whole(log, alone=alone)
        assert (len(answer.messages), answer.complete) == (1, not alone)
        assert not bus.has_only_copies


async def test_a_request_without_a_connection_raises() -> None:
    async with memory_bus() as bus:
        log = TaskLog(bus)
        await log.begin()
        await bus.close()
        with pytest.raises(BusUnavailable):
            await whole(log)
