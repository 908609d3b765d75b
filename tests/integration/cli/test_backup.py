"""What a backup refuses, and that nothing is changed then."""

import asyncio
import gzip
import io
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from headrace.backup import MANIFEST
from headrace.jetstream.api import request, store, stream_info
from headrace.jetstream.connection import Bus
from headrace.jetstream.permissions import GATEWAY, OPERATOR
from headrace.jetstream.streams import create, declarations
from headrace.processes import ProcessAnswers
from headrace.settings import BusSettings
from headrace_cli.main import main
from tests.support.roles import NatsOfRoles
from tests.support.servers import NatsProcess

LETTERS = 30


@pytest.fixture
async def fleet(nats_server: NatsProcess) -> AsyncIterator[Bus]:
    name = f"own{secrets.token_hex(4)}"
    bus = Bus(BusSettings(nats_url=nats_server.url, prefix=name, stream_prefix=name))
    await bus.connect("test")
    for number in range(LETTERS):
        await store(bus, f"{name}.dead.t.agent", b"%d" % number, 10)
    yield bus
    for one in (await request(bus, "STREAM.NAMES"))["streams"] or ():
        if name in one:
            await request(bus, f"STREAM.DELETE.{one}")
    await bus.close()


async def run(bus: Bus, *args: str, stdin: bytes = b"", **changes: str) -> Result:
    prefix = bus.settings.prefix
    environment = {"HEADRACE_PREFIX": prefix, "HEADRACE_STREAM_PREFIX": prefix, **changes}
    words = [*args, "--nats-url", bus.settings.nats_url]
    return await asyncio.to_thread(CliRunner().invoke, main, words, stdin, env=environment)


async def letters(bus: Bus) -> int:
    return int((await stream_info(bus, bus.streams.dead))["state"]["messages"])


async def taken(bus: Bus, folder: Path) -> Path:
    done = await run(bus, "backup", str(folder))
    assert done.exit_code == 0, done.output
    return folder


def manifest(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
    return found


def names_in(folder: Path) -> list[str]:
    return [one.name for one in folder.iterdir()]


def changed(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    whole = manifest(folder)
    change(whole)
    (folder / MANIFEST).write_text(json.dumps(whole))


async def test_a_fleet_s_streams_come_back_as_they_were(fleet: Bus, tmp_path: Path) -> None:
    folder = await taken(fleet, tmp_path / "backup")
    before = {one["name"]: one["state"] for one in manifest(folder)["streams"]}
    await store(fleet, f"{fleet.settings.prefix}.dead.t.agent", b"later", 10)
    refused = await run(fleet, "restore", str(folder))
    assert "--replace deletes all streams of the fleet first" in refused.output
    assert await letters(fleet) == LETTERS + 1
    restored = await run(fleet, "restore", str(folder), "--replace", "--json")
    assert restored.exit_code == 0, restored.output
    lines = [json.loads(line) for line in restored.stdout.splitlines()]
    assert {one["stream"] for one in lines} == set(before)
    for name, state in before.items():
        found = (await stream_info(fleet, name))["state"]
        assert (found["messages"], found["last_seq"]) == (state["messages"], state["last_seq"])
    assert await letters(fleet) == LETTERS
    differing = await run(fleet, "streams", "plan")
    assert differing.exit_code == 0, differing.output


async def test_event_streams_that_the_backup_does_not_have_are_deleted_too(
    fleet: Bus, tmp_path: Path
) -> None:
    folder = await taken(fleet, tmp_path / "backup")
    assert (await run(fleet, "restore", str(folder), "--replace")).exit_code == 0
    for number in range(fleet.settings.event_streams):
        await request(fleet, f"STREAM.DELETE.{fleet.streams.events(number)}")
    more = fleet.settings.model_copy(update={"event_streams": 3})
    for one in declarations(more):
        if str(one.name) in map(fleet.streams.events, range(3)):
            await create(fleet.js, one)
    refused = await run(fleet, "restore", str(folder))
    assert (fleet.streams.events(2) in refused.output, refused.exit_code) == (True, 1)
    few = await run(fleet, "backup", str(tmp_path / "few"))
    assert "there are more event streams" in few.output
    many = await run(fleet, "backup", str(tmp_path / "many"), HEADRACE_EVENT_STREAMS="4")
    assert "HEADRACE_EVENT_STREAMS=4 is too high" in many.output
    restored = await run(fleet, "restore", str(folder), "--replace")
    assert restored.exit_code == 0, restored.output
    differing = await run(fleet, "streams", "plan")
    assert differing.exit_code == 0, differing.output


async def test_only_its_owner_can_read_a_backup(fleet: Bus, tmp_path: Path) -> None:
    folder = await taken(fleet, tmp_path / "backup")
    files = list(folder.iterdir())
    assert len(files) > 10
    assert {one.stat().st_mode & 0o777 for one in files} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700


async def test_a_folder_with_files_gets_no_backup(fleet: Bus, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("of somebody")
    refused = await run(fleet, "backup", str(tmp_path))
    assert (refused.exit_code, "name a new or an empty folder" in refused.output) == (1, True)
    assert names_in(tmp_path) == ["mine"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda whole: whole.update(format=2, release="0.9.0"), "restore with release 0.9.0"),
        (lambda whole: whole.update(log_version="9"), "log_version is 9, and this release reads"),
        (lambda whole: whole.update(prefix="other"), "set HEADRACE_PREFIX=other"),
        (lambda whole: whole.update(event_streams=2), "set HEADRACE_EVENT_STREAMS=2"),
        (lambda whole: whole["streams"].pop(), "has other streams than this release"),
        (lambda whole: whole["streams"][0].update(sha256="0"), "is damaged"),
        (lambda whole: whole.pop("streams"), "streams: Field required"),
    ],
)
async def test_what_cannot_be_restored_is_refused_before_anything_changes(
    fleet: Bus, tmp_path: Path, change: Callable[[dict[str, Any]], object], why: str
) -> None:
    folder = await taken(fleet, tmp_path / "backup")
    changed(folder, change)
    refused = await run(fleet, "restore", str(folder), "--replace")
    assert (refused.exit_code, why in refused.output) == (1, True), refused.output
    assert await letters(fleet) == LETTERS


async def test_an_unfinished_backup_is_none(fleet: Bus, tmp_path: Path) -> None:
    folder = await taken(fleet, tmp_path / "backup")
    (folder / MANIFEST).unlink()
    refused = await run(fleet, "restore", str(folder), "--replace")
    assert "is no complete backup" in refused.output
    assert await letters(fleet) == LETTERS


async def test_a_backup_goes_through_a_pipe_unless_it_is_cut(fleet: Bus) -> None:
    piped = await run(fleet, "backup", "-")
    assert piped.exit_code == 0, piped.stderr
    await store(fleet, f"{fleet.settings.prefix}.dead.t.agent", b"later", 10)
    archive = piped.stdout_bytes
    zipped, without = gzip.compress(archive), without_manifest(archive)
    halves = archive[: len(archive) // 2], archive[: len(without) + 600], zipped[:3], zipped[:-600]
    odd = with_member(without, MANIFEST, tarfile.LNKTYPE), with_member(archive, "../evil")
    for cut in (*halves, *odd, b"", b"no archive", without):
        refused = await run(fleet, "restore", "-", "--replace", stdin=cut)
        assert (refused.exit_code, "no complete backup" in refused.output) == (1, True), refused
        assert await letters(fleet) == LETTERS + 1
    long = await run(fleet, "restore", "-", "--replace", stdin=with_member(archive, "n" * 300))
    assert (long.exit_code, "File name too long" in long.output) == (1, True)
    restored = await run(fleet, "restore", "-", "--replace", stdin=zipped)
    assert restored.exit_code == 0, restored.output
    assert await letters(fleet) == LETTERS


def without_manifest(archive: bytes) -> bytes:
    """Return what an archive has before its last member."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as found:
        assert found.getnames()[-1] == MANIFEST
        return archive[: found.getmembers()[-1].offset]


def with_member(archive: bytes, name: str, kind: bytes = tarfile.REGTYPE) -> bytes:
    """Return an archive with one more member before the others."""
    member, added = tarfile.TarInfo(name), io.BytesIO()
    member.type, member.linkname = kind, "elsewhere"
    with tarfile.open(fileobj=added, mode="w", format=tarfile.GNU_FORMAT) as more:
        more.addfile(member)
        return added.getvalue()[: more.offset] + archive


async def test_a_command_that_ends_on_the_way_says_why_and_leaves_no_file(
    fleet: Bus, tmp_path: Path
) -> None:
    for _ in range(2):
        await store(fleet, f"{fleet.settings.prefix}.dead.t.agent", os.urandom(900_000), 10)
    for command, why in (
        ("backup - > /dev/full", "Error: stdout: No space left on device"),
        ("ulimit -f 100; backup -", "snapshot: File too large"),
        ("backup - | head -c 1 > /dev/null", ""),
    ):
        failed = in_shell(fleet, command, tmp_path)
        errors = (await asyncio.to_thread(failed.communicate, timeout=60))[1].decode()
        assert (failed.returncode, why in errors, "Traceback" in errors) == (1, True, False), errors
        assert names_in(tmp_path) == []
    for number in (signal.SIGTERM, signal.SIGHUP):
        ended = in_shell(fleet, "backup -", tmp_path)
        assert ended.stdout is not None
        # Nobody reads the rest of the archive, so the command waits.
        await asyncio.to_thread(ended.stdout.read, 1)
        ended.send_signal(number)
        await asyncio.to_thread(ended.communicate, timeout=60)
        assert (ended.returncode, names_in(tmp_path)) == (128 + number, [])


def in_shell(fleet: Bus, command: str, folder: Path) -> "subprocess.Popen[bytes]":
    """Run `command`, in which `backup` is Headrace's, with temporary files in `folder`."""
    prefix, url = fleet.settings.prefix, fleet.settings.nats_url
    program = f"exec {sys.executable} -m headrace_cli backup --nats-url {url}"
    own = {"HEADRACE_PREFIX": prefix, "HEADRACE_STREAM_PREFIX": prefix, "TMPDIR": str(folder)}
    return subprocess.Popen(
        [str(shutil.which("bash")), "-c", f"set -o pipefail; {command.replace('backup', program)}"],
        env={**os.environ, **own},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )


async def test_nothing_is_restored_under_a_running_service(fleet: Bus, tmp_path: Path) -> None:
    folder = await taken(fleet, tmp_path / "backup")
    answering = await ProcessAnswers(fleet, "gateway", "gateway-1").start()
    refused = await run(fleet, "restore", str(folder), "--replace")
    await fleet.unsubscribe(answering)
    assert "services of the fleet run: stop gateway gateway-1" in refused.output
    assert await letters(fleet) == LETTERS


async def test_the_operator_s_login_is_enough(tmp_path: Path) -> None:
    with NatsOfRoles(tmp_path / "nats", []) as server:
        operator = Bus(BusSettings(nats_url=server.url_of(OPERATOR)))
        await operator.connect("makes the streams")
        await operator.close()
        for words in (["backup"], ["restore", "--replace"]):
            done = await asyncio.to_thread(
                CliRunner().invoke,
                main,
                [words[0], str(tmp_path / "backup"), *words[1:]],
                env=server.login(OPERATOR),
            )
            assert done.exit_code == 0, done.output
        assert server.violations() == []

        refused = await asyncio.to_thread(
            CliRunner().invoke, main, ["dead", "list"], env=server.login(GATEWAY)
        )
        assert refused.exit_code == 1
        assert "NATS does not take this login for that of role operator" in refused.output
