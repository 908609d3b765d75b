"""The store of large files when JetStream refuses."""

from base64 import b64encode
from typing import Any

import orjson
import pytest

from headrace.jetstream.objects import CHUNK, FileOwner, FileStore
from headrace.model.errors import FileUnknown, LogFull
from headrace.model.task import TaskKey
from tests.support.fake_bus import FakeBus

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
