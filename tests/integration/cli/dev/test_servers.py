"""The embedded servers keep what the bus relies on them for."""

import asyncio
import signal
import sys
from pathlib import Path

import nats
import pytest
from nats.errors import TimeoutError as NatsTimeoutError
from nats.js.api import RePublish, StreamConfig

from tests.support.cluster import NatsCluster
from tests.support.jetstream_api import answered, until_settled
from tests.support.pids import freeze, is_still
from tests.support.servers import NatsProcess, ValkeyProcess
from tests.support.starting import start_process
from tests.support.waiting import TIMEOUT, eventually, until


async def test_only_jetstream_publishes_on_the_live_subjects(nats_server: NatsProcess) -> None:
    refused = list[Exception]()

    async def note(error: Exception) -> None:
        refused.append(error)

    async with await nats.connect(nats_server.url, error_cb=note) as client:
        jetstream = client.jetstream(timeout=TIMEOUT)
        republish = RePublish(src="live-test.event.>", dest="live-test.live.>")
        await jetstream.add_stream(
            StreamConfig(name="LIVE-TEST", subjects=["live-test.event.>"], republish=republish)
        )
        live = await client.subscribe("live-test.live.>")
        await jetstream.publish("live-test.event.1", b"stored")
        assert (await live.next_msg(timeout=60)).data == b"stored"
        await client.publish("live-test.live.1", b"forged")
        with pytest.raises(NatsTimeoutError):
            await live.next_msg(timeout=0.5)

        async def is_told() -> bool:
            return bool(refused)

        await eventually(is_told, "it is refused")
        assert "permissions violation" in str(refused[0]).lower()
        await jetstream.delete_stream("LIVE-TEST")


async def test_a_killed_server_comes_back_with_its_streams(tmp_path: Path) -> None:
    with NatsProcess(tmp_path) as server:
        async with await nats.connect(server.url) as client:
            jetstream = client.jetstream(timeout=TIMEOUT)
            await jetstream.add_stream(StreamConfig(name="KEPT", subjects=["kept"]))
            await jetstream.publish("kept", b"1")
        await asyncio.to_thread(server.restart)
        async with await nats.connect(server.url) as client:
            jetstream = client.jetstream(timeout=TIMEOUT)
            assert (await jetstream.stream_info("KEPT")).state.messages == 1


def test_a_frozen_server_does_not_answer_until_it_is_thawed(tmp_path: Path) -> None:
    with NatsProcess(tmp_path) as server:
        server.freeze()
        assert not server.answers()
        server.thaw()
        until(server.answers, "the server answers again")


def test_a_frozen_process_stands_still_when_freeze_returns(tmp_path: Path) -> None:
    work = "while True: os.stat('.')"
    threads = "[threading.Thread(target=work, daemon=True).start() for _ in range(8)]; work()"
    program = f"import os, threading\ndef work():\n  {work}\n{threads}"
    process = start_process([sys.executable, "-c", program], tmp_path / "log")
    try:
        for _ in range(20):
            freeze(process.pid)
            assert is_still(process.pid)
            process.send_signal(signal.SIGCONT)
            until(lambda: not is_still(process.pid), "it goes on")
    finally:
        process.kill()
        process.wait()


def test_another_server_on_the_port_is_not_taken_for_this_one(
    nats_server: NatsProcess, tmp_path: Path
) -> None:
    stranger = NatsProcess(tmp_path, name="another")
    stranger._server = type(stranger._server)(
        nats_server.port, tmp_path, tmp_path / "data", name="another"
    )
    assert not stranger.answers()
    assert nats_server.answers()


def test_valkey_answers_and_listens_on_loopback_only(valkey: ValkeyProcess) -> None:
    assert valkey.answers()
    assert "bind 127.0.0.1\n" in Path(valkey.command()[1]).read_text()


async def test_a_cluster_survives_the_loss_of_its_leader(nats_cluster: NatsCluster) -> None:
    async with await nats.connect(nats_cluster.urls) as client:
        jetstream = client.jetstream()
        config = StreamConfig(name="THREE", subjects=["three"], num_replicas=3)
        await answered(lambda: jetstream.add_stream(config))
        await until_settled(client, "THREE")
        await jetstream.publish("three", b"1")
    leader = nats_cluster.meta_leader()
    assert leader is not None
    leader.kill()
    await asyncio.to_thread(
        until, lambda: nats_cluster.meta_leader() not in (None, leader), "a leader"
    )
    await asyncio.to_thread(nats_cluster.heal)
    async with await nats.connect(nats_cluster.urls) as client:
        jetstream = client.jetstream(timeout=TIMEOUT)
        await until_settled(client, "THREE")
        assert (await jetstream.stream_info("THREE")).state.messages == 1
        await jetstream.delete_stream("THREE")
