"""An attempt's appends repeat the bytes of their headers; readers find the same headers in each."""

from collections.abc import AsyncIterator

import pytest
from nats.aio.msg import Msg

from headrace.jetstream.connection import Bus
from headrace.jetstream.headers import EXPECTED, without_nats
from headrace.log import LogWriter
from headrace.log.append import _size
from headrace.model.entry import Stamp
from headrace.model.events import TextChunks
from headrace.model.task import COMPLETED, INPUT_REQUIRED, WORKING, TaskKey, mint_task_id
from tests.support.memory_bus import memory_bus

STAMPS = [
    Stamp("abcd1234", 1, "first", WORKING, 1, 1),
    Stamp("abcd1234", 2, "first", WORKING, 1, 1),
    Stamp("abcd1234", 3, "first", WORKING, 1, 1),
    Stamp("abcd1234", 4, "first", WORKING, 1, 1, checkpoint='{"a": 1}'),
    Stamp("abcd1234", 5, "first", WORKING, 1, 1),
    Stamp("abcd1234", 6, "first", INPUT_REQUIRED, 1, 1, owner="somebody"),
    Stamp("abcd1234", 7, "second", WORKING, 7, 1),
    Stamp("abcd1234", 8, "second", WORKING, 7, 2),
    Stamp("abcd1234", 9, "second", WORKING, 7, 2),
    Stamp("abcd1234", 10, "second", WORKING, 7, 2),
    Stamp("other123", 11, "second", WORKING, 7, 2),
    Stamp("other123", 12, "second", COMPLETED, 7, 2, owner="somebody"),
]


@pytest.fixture
async def bus() -> AsyncIterator[Bus]:
    async with memory_bus() as bus:
        yield bus


def test_the_size_of_headers_is_that_of_their_bytes() -> None:
    headers = {"Headrace-Owner": "söme", "Headrace-Run": "1"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    assert _size(headers) == len(lines.encode())


async def test_each_append_has_the_headers_of_its_stamp(bus: Bus) -> None:
    key = TaskKey("default", "agent", mint_task_id(3))
    text, writer = TextChunks(key.task, "context", "text-1", {}), LogWriter(bus, key)
    live, expected = list[Msg](), list[str]()
    await bus.listen(bus.subjects.live(key), live.append)
    for stamp in STAMPS:
        expected.append(str(writer.sequence))
        await writer.append([text.draft("token")], stamp)
    assert [without_nats(msg.headers or {}) for msg in live] == [one.headers() for one in STAMPS]
    assert [(msg.headers or {})[EXPECTED] for msg in live] == expected
