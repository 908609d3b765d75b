"""The store of large files when JetStream refuses."""

from base64 import b64encode
from typing import Any

import orjson
import pytest
from nats.aio.msg import Msg

from headrace.jetstream.objects import CHUNK, FileOwner, FileStore, offloaded_part, with_parts
from headrace.model.errors import BusUnavailable, FileUnknown, LogFull
from headrace.model.events import Json
from headrace.model.task import TaskKey
from tests.support.fake_bus import FakeBus
from tests.support.memory_bus import memory_bus

KEY = TaskKey("default", "a", f"0-{'0' * 32}")
NAME = "0123456789abcdef"
NO_LEADER = {"error": {"code": 503, "err_code": 10008, "description": "no leader"}}
NO_MESSAGE = {"error": {"code": 404, "err_code": 10037, "description": "no message found"}}
FULL = {"error": {"code": 503, "err_code": 10077, "description": "maximum bytes exceeded"}}


def store(answer: dict[str, Any]) -> FileStore:
    return FileStore(FakeBus(lambda _subject, _payload: answer))


async def test_a_file_that_is_not_there_is_unknown() -> None:
    with pytest.raises(FileUnknown):
        await store(NO_MESSAGE).info(KEY, NAME)


async def test_a_store_that_elects_its_leader_is_queried_again() -> None:
    bus = FakeBus(lambda _subject, _payload: NO_LEADER if len(bus.asked) < 3 else NO_MESSAGE)
    with pytest.raises(FileUnknown):
        await FileStore(bus).info(KEY, NAME)
    assert len(bus.asked) == 3


async def test_what_a_full_store_took_of_a_file_is_dropped() -> None:
    held, subject_of_meta = set[str](), "$O.FILES.M."

    def answer(subject: str, payload: bytes) -> dict[str, Any]:
        if subject.startswith("$JS.API.STREAM.INFO"):
            return {"state": {"subjects": dict.fromkeys(held, 1)}}
        if subject.startswith("$JS.API.STREAM.PURGE"):
            held.difference_update([one for one in held if one.encode() in payload])
            return {"success": True}
        assert not subject.startswith(subject_of_meta)
        if held:
            return FULL
        held.add(subject)
        return {"seq": 1}

    with pytest.raises(LogFull):
        await FileStore(FakeBus(answer)).put(KEY, FileOwner("ann", "c"), b"x" * (CHUNK + 1))
    assert not held


async def test_the_tasks_of_all_files_are_read_page_by_page() -> None:
    tasks = [TaskKey("default", "a", f"0-{number:032x}") for number in range(3)]
    chunks = [f"$O.FILES.C.{'.'.join(key)}.{NAME}" for key in tasks]

    def answer(_: str, payload: bytes) -> dict[str, Any]:
        query = orjson.loads(payload)
        assert query["subjects_filter"] == "$O.FILES.C.>"
        page = chunks[query["offset"] :][:2]
        return {"state": {"subjects": dict.fromkeys(page, 9)}, "total": len(chunks)}

    bus = FakeBus(answer)
    pages = [found async for found in FileStore(bus).tasks()]
    assert pages == [set(tasks[:2]), set(tasks[2:])]
    assert len(bus.asked) == 2


LINK = f"headrace-file:{KEY.agent}/tasks/{KEY.task}/files/{NAME}"


@pytest.mark.parametrize(
    "reader", [FileOwner("bob", "c"), FileOwner("ann", "another"), FileOwner("", "")]
)
async def test_a_file_of_another_owner_or_context_is_as_unknown_as_none(reader: FileOwner) -> None:
    meta = {"size": 0, "chunks": 0, "digest": "SHA-256=x", "headers": {}}
    meta["headers"] = {"owner": ["ann"], "context": ["c"]}
    found = {"message": {"data": b64encode(orjson.dumps(meta)).decode()}}
    assert await store(found).read(LINK, KEY.tenant, FileOwner("ann", "c")) == b""
    with pytest.raises(FileUnknown) as refused:
        await store(found).read(LINK, KEY.tenant, reader)
    with pytest.raises(FileUnknown) as missing:
        await store(NO_MESSAGE).read(LINK, KEY.tenant, reader)
    assert str(refused.value) == str(missing.value)


async def test_a_task_with_files_tells_the_time_of_its_newest_part() -> None:
    message = {"subject": "s", "seq": 1, "time": "2026-11-29T13:00:00.5Z", "data": ""}
    assert await store({"message": message}).newest(KEY) == 1_795_957_200.5
    assert await store(NO_MESSAGE).newest(KEY) is None


ANN = FileOwner("ann", "c")


async def test_a_file_of_many_chunks_is_described_and_read_whole() -> None:
    content = bytes(range(256)) * (9 * CHUNK // 256) + b"end"
    async with memory_bus() as bus:
        files = FileStore(bus)
        link = await files.put(KEY, ANN, content, "n", "text/plain")
        info = await files.info(KEY, link.rpartition("/")[2])
        assert (info.size, info.chunks) == (len(content), 10)
        assert await files.read(link, KEY.tenant, ANN) == content


async def test_chunks_that_do_not_come_are_asked_for_again_until_the_file_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with memory_bus() as bus:
        files = FileStore(bus)
        link = await files.put(KEY, ANN, b"x")
        name = link.rpartition("/")[2]
        info, asked = await files.info(KEY, name), list[int]()

        async def nothing(*_: object) -> list[Msg]:
            asked.append(len(asked))
            if len(asked) == 2:
                await files.drop(KEY, name)
            return []

        monkeypatch.setattr(files, "_next_chunks", nothing)
        # It is looked up when nothing comes for the first time only: it is there then.
        with pytest.raises(BusUnavailable, match="did not return"):
            [_ async for _ in files.chunks(KEY, info)]
        assert len(asked) == 11
        with pytest.raises(FileUnknown):
            [_ async for _ in files.chunks(KEY, info)]
        assert len(asked) == 12


async def test_a_part_is_stored_if_it_is_larger_than_may_be_inline() -> None:
    part = {"raw": b64encode(b"x" * 6).decode(), "filename": "n", "mediaType": "a/b"}
    async with memory_bus() as bus:
        files = FileStore(bus)
        assert await offloaded_part(files, KEY, ANN, part, 6) is part
        made = await offloaded_part(files, KEY, ANN, part, 5)
        assert (made["filename"], made["mediaType"]) == ("n", "a/b")
        assert await files.read(made["url"], KEY.tenant, ANN) == b"x" * 6


async def test_a_message_whose_parts_stay_is_itself() -> None:
    message = {"messageId": "m", "parts": [{"text": "a"}]}

    async def same(part: Json) -> Json:
        return part

    assert await with_parts(message, same) is message


async def test_a_store_without_files_has_no_tasks() -> None:
    files = store({"state": {}, "total": 0})
    assert [keys async for keys in files.tasks()] == [set()]
