import uuid

import orjson

from headrace.directory import AgentCard, Announcer, Directory
from headrace.jetstream.connection import Bus
from headrace.settings import BusSettings
from headrace_cli.dev.embedded_bus import forget_workers
from tests.support.delete_stream import delete_stream
from tests.support.servers import NatsProcess


async def test_agents_stay_registered_without_counting_as_served(
    nats_server: NatsProcess,
) -> None:
    name = f"forget-{uuid.uuid4().hex[:8]}"
    settings = BusSettings(nats_url=nats_server.url, prefix=name, stream_prefix=f"{name}-")
    bus = Bus(settings)
    await bus.connect("test")
    await Announcer(bus, "worker-of-a-killed-stack").announce(AgentCard(name="echo"))
    await forget_workers(settings)
    directory = Directory(bus)
    await directory.start()
    assert [card.name for card in directory.cards()] == ["echo"]
    assert not directory.available("echo")
    await directory.stop()
    streams = orjson.loads((await bus.request("$JS.API.STREAM.NAMES", b"", 30.0)).data)["streams"]
    for stream in streams:
        if name in stream:
            await delete_stream(bus.js, stream)
    await bus.close()
