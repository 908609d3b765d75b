"""NATS's disk is full: clients are told what to do, the operator too, and a restart ends it."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.gateway.own_nats import OwnNats, own_nats
from tests.support.clients.bindings import Rest, message
from tests.support.waiting import eventually

_SIZE = 64 * 1024 * 1024


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own; only root may mount one, and not in every container."""
    place, mount = tmp_path / "disk", shutil.which("mount")
    place.mkdir()
    if os.geteuid() != 0 or mount is None:
        pytest.skip("only root can mount a small disk")
    options = ["-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(place)]
    if subprocess.run([mount, *options], check=False, capture_output=True).returncode:
        pytest.skip("this container mounts nothing")
    yield place
    subprocess.run([mount.replace("mount", "umount"), "-l", str(place)], check=True)


def fill(file: Path) -> None:
    """Write until the disk has no room left, as something else on it might."""
    with file.open("wb", buffering=0) as other:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    other.write(b"x" * size)
            except OSError:
                continue


async def is_noted(own: OwnNats) -> bool:
    return "answers no append" in (await own.http.get("/readyz")).text


async def test_after_a_full_disk_and_a_restart_of_nats_each_message_is_answered_once(
    disk: Path,
) -> None:
    async with own_nats(disk, append_timeout=0.5) as own:
        rest, other = Rest(own.http), disk / "other"
        assert (await rest.call("SendMessage", message("before")))["task"]
        await asyncio.to_thread(fill, other)
        in_doubt = await rest.send("SendMessage", message("doubt" * 20_000))
        assert (in_doubt.status_code, "do not resend" in in_doubt.text) == (503, True)
        assert "Retry-After" not in in_doubt.headers
        await eventually(lambda: is_noted(own), "readiness names the stream")
        assert (await own.http.get("/readyz")).json()["status"] == "degraded"
        refused = await rest.send("SendMessage", message("later"))
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
        other.unlink()
        await asyncio.to_thread(own.server.stop)
        await asyncio.to_thread(own.server.start)

        async def is_taken() -> bool:
            return (await rest.send("SendMessage", message("after"))).is_success

        async def is_answered() -> bool:
            return "doubt" * 20_000 in own.worked_on

        await eventually(is_taken, "messages are taken again")
        await eventually(is_answered, "the message in doubt is worked on")
        assert not await is_noted(own)
        assert own.worked_on.count("doubt" * 20_000) == 1
        assert "later" not in own.worked_on
