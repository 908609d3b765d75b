"""A bucket that changes while it is read: a list has each key once, with what it has last."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from nats.aio.msg import Msg

from headrace.jetstream import kv
from headrace.jetstream.connection import Bus
from headrace.jetstream.direct_get import DirectAnswer, direct_get
from headrace.jetstream.kv import Bucket, KeyChanged, Value
from headrace.model.events import Json
from tests.support.waiting import eventually

type Change = Callable[[Bucket], Awaitable[object]]


@pytest.fixture
def bucket(own: Bus) -> Bucket:
    return Bucket(own, own.streams.push)


@pytest.fixture
def between(own: Bus, monkeypatch: pytest.MonkeyPatch) -> Callable[[Change], None]:
    """Has a change happen when a list's first key has been read, and before its second."""

    def arrange(change: Change) -> None:
        request, read = Bus.request, list[bytes]()

        async def interrupted(
            bus: Bus,
            subject: str,
            payload: bytes,
            timeout: float,
            headers: dict[str, str] | None = None,
        ) -> Msg:
            if b"next_by_subj" in payload:
                read.append(payload)
                if len(read) == 2:
                    await change(Bucket(own, own.streams.push))
            return await request(bus, subject, payload, timeout, headers)

        monkeypatch.setattr(Bus, "request", interrupted)

    return arrange


async def fill(bucket: Bucket) -> dict[str, int]:
    """Put three keys; return where they are."""
    return {key: await bucket.put(f"t.{key}", key.encode(), 0) for key in "abc"}


def listed(found: list[tuple[str, Value]]) -> list[tuple[str, bytes | None]]:
    return [(key, value.data) for key, value in found]


async def test_a_key_changed_behind_the_reader_comes_once_with_its_new_value(
    bucket: Bucket, between: Callable[[Change], None]
) -> None:
    places = await fill(bucket)
    between(lambda other: other.put("t.a", b"anew", places["a"]))
    found = await bucket.under("t.*")
    assert listed(found) == [("t.b", b"b"), ("t.c", b"c"), ("t.a", b"anew")]


async def test_a_key_changed_before_the_reader_comes_once_with_its_new_value(
    bucket: Bucket, between: Callable[[Change], None]
) -> None:
    places = await fill(bucket)
    between(lambda other: other.put("t.b", b"anew", places["b"]))
    found = await bucket.under("t.*")
    assert listed(found) == [("t.a", b"a"), ("t.c", b"c"), ("t.b", b"anew")]


@pytest.mark.parametrize("gone", ["t.a", "t.b"])
async def test_a_key_deleted_meanwhile_is_not_listed(
    bucket: Bucket, between: Callable[[Change], None], gone: str
) -> None:
    await fill(bucket)
    between(lambda other: other.delete(gone))
    assert gone not in dict(await bucket.under("t.*"))


async def test_where_a_listed_key_is_is_where_it_can_be_changed(
    bucket: Bucket, between: Callable[[Change], None]
) -> None:
    places = await fill(bucket)
    between(lambda other: other.put("t.a", b"anew", places["a"]))
    listed = list(await bucket.under("t.*"))
    assert len(listed) == len(places)
    for key, value in listed:
        assert await bucket.put(key, b"last", value.sequence) > value.sequence
        with pytest.raises(KeyChanged):
            await bucket.put(key, b"too late", value.sequence)


async def test_what_was_put_for_some_seconds_is_forgotten_then(bucket: Bucket) -> None:
    place = await bucket.put("t.a", b"a", 0, seconds=1)

    async def is_gone() -> bool:
        return (await bucket.get("t.a")).data is None

    await eventually(is_gone, "the key is forgotten")
    now = await bucket.get("t.a")
    assert await bucket.put("t.a", b"again", now.sequence) > place


async def test_a_copy_since_a_time_has_what_was_written_since(bucket: Bucket) -> None:
    places = await fill(bucket)
    middle = (await bucket.get("t.b")).written

    async def is_copied(*keys: str) -> bool:
        # Replicas hear of a change a moment later.
        return [*await bucket.copy(since=middle)] == list(keys)

    await eventually(lambda: is_copied("t.b", "t.c"), "the last two keys are copied")
    await bucket.put("t.a", b"anew", places["a"])
    await bucket.delete("t.b")
    await eventually(lambda: is_copied("t.c", "t.a"), "what is left of them and the change are")
    assert (await bucket.copy()).keys() >= {"t.a", "t.c"}


async def test_a_copy_goes_on_where_an_answer_ended(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(bucket)
    requests = list[Json]()

    async def lossy[Read](
        bus: Bus, stream: str, query: Json, read: Callable[[Msg], Read]
    ) -> DirectAnswer[Read]:
        requests.append(query)
        answer = DirectAnswer[Read]()
        while (
            len(answer.messages) < len("abc") + 1 - query["seq"]
        ):  # A replica that lags has fewer.
            answer = await direct_get(bus, stream, query, read)
        if len(requests) % 2:
            return DirectAnswer()
        return answer if len(answer.messages) == 1 else DirectAnswer(answer.messages[:1])

    monkeypatch.setattr(kv, "direct_get", lossy)
    assert [*await bucket.copy()] == ["t.a", "t.b", "t.c"]
    assert [one["seq"] for one in requests] == [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("is_since", [False, True], ids=["all", "since"])
async def test_the_latest_copy_waits_for_a_replica_that_lags_behind_the_leader(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch, *, is_since: bool
) -> None:
    await fill(bucket)
    since = (await bucket.get("t.b")).written if is_since else None
    requests = list[Json]()

    async def lagging[Read](
        bus: Bus, stream: str, query: Json, read: Callable[[Msg], Read]
    ) -> DirectAnswer[Read]:
        requests.append(query)
        if len(requests) == 1:
            return DirectAnswer(complete=True)
        answer = await direct_get(bus, stream, query, read)
        # One more of the keys in each answer, as one that hears of them one by one.
        return DirectAnswer(answer.messages[:1], complete=answer.complete)

    monkeypatch.setattr(kv, "direct_get", lagging)
    keys = ["t.b", "t.c"] if is_since else ["t.a", "t.b", "t.c"]
    assert [*await bucket.copy(since=since, is_latest=True)] == keys
    assert len(requests) > len(keys)


async def test_the_latest_copy_of_what_is_gone_or_older_is_empty(bucket: Bucket) -> None:
    assert not await bucket.copy(is_latest=True)
    await fill(bucket)
    later = (await bucket.get("t.c")).written
    assert later is not None
    assert not await bucket.copy(since=later + timedelta(seconds=1), is_latest=True)
    await bucket.forget("t.c")

    async def is_forgotten() -> bool:
        # Replicas hear of it a moment later.
        return [*await bucket.copy(is_latest=True)] == ["t.a", "t.b"]

    await eventually(is_forgotten, "the copy ends before the key that is gone")


async def test_keys_that_are_written_together_are_all_there_once_they_are_acknowledged(
    bucket: Bucket,
) -> None:
    await bucket.put("b", b"before", 0)
    values = {key: key.encode() for key in "abc"}
    await bucket.overwrite_all(values, seconds=3600)
    copied = await bucket.copy(is_latest=True)
    assert {key: value.data for key, value in copied.items()} == values


async def test_keys_that_are_written_together_expire(bucket: Bucket) -> None:
    await bucket.overwrite_all({"a": b"a", "b": b"b"}, seconds=1)

    async def is_empty() -> bool:
        return not await bucket.entries()

    await eventually(is_empty, "both have expired")
