"""Backups of a fleet: a snapshot of each of its streams in a folder, and what they are of.

Redis has nothing that the streams do not have, but the usage of erased tasks: task state builds its
view from the logs.
"""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

from nats.js import api
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from headrace.environment import variable
from headrace.jetstream.api import request
from headrace.jetstream.connection import Bus
from headrace.jetstream.errors import translated
from headrace.jetstream.snapshots import CHUNK, restore_snapshot, take_snapshot
from headrace.jetstream.streams import Streams, declarations, find
from headrace.model.entry import RANGE, READABLE
from headrace.model.errors import HeadraceError
from headrace.model.events import timestamp
from headrace.model.field_rule import first_problem
from headrace.model.messages import ProcessQuery
from headrace.processes import ask_processes
from headrace.settings import BusSettings

FORMAT = 1
"""Version of the folder's form that this release writes, and the only one that it reads."""

MANIFEST = "backup.json"
"""The file that says what the others are. It is written last: without it a folder is no backup."""

_PRIVATE_FOLDER, _PRIVATE_FILE = 0o700, 0o600
"""A backup has users' messages and the signing keys."""

_SERVICES = ("gateway", "task-state", "triggers")
"""The services whose processes answer without a directory of workers."""

type Json = dict[str, Any]


class BackupRefused(HeadraceError):
    """The backup can't be taken or restored so; the message names the reason and the remedy."""

    code = "backup_refused"


class SavedStream(BaseModel):
    """A stream in a backup."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    name: str
    file: str = Field(pattern=r"^[^/]+$")
    """In the folder."""
    bytes: int
    """Size of the file."""
    sha256: str
    """Of the file."""
    config: Json
    state: Json
    """As the server stated them with the snapshot."""

    @property
    def messages(self) -> int:
        """Number of its messages."""
        return int(self.state["messages"])


class BackupManifest(BaseModel):
    """What a backup is of."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    format: int
    release: str
    """The release that took it."""
    taken: str
    """When it was complete: RFC 3339."""
    log_version: str
    """The version of the bus contract that the fleet wrote."""
    prefix: str
    stream_prefix: str
    event_streams: int
    streams: list[SavedStream]

    @classmethod
    def read(cls, folder: Path) -> "BackupManifest":
        """Read the manifest of a folder.

        Raises:
            BackupRefused: There is none, or this release can't restore it.
        """
        path = folder / MANIFEST
        try:
            text = path.read_bytes()
        except OSError as error:
            why = error.strerror or str(error)
            raise BackupRefused(f"{path}: {why}: {folder} is no complete backup") from None
        try:
            _BackupForm.model_validate_json(text).check(path)
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise BackupRefused(f"{path}: {first_problem(error, 'the file')}") from None


class _BackupForm(BaseModel):
    """What tells whether this release can read the rest."""

    format: int
    release: str = "another"
    log_version: str = READABLE[0]

    def check(self, path: Path) -> None:
        if self.format != FORMAT:
            raise BackupRefused(
                f"{path}: format is {self.format}, and this release reads {FORMAT}; "
                f"restore with release {self.release}"
            )
        if self.log_version not in READABLE:
            raise BackupRefused(
                f"{path}: log_version is {self.log_version}, and this release reads {RANGE}; "
                f"restore with release {self.release}"
            )


async def back_up(bus: Bus, folder: Path) -> AsyncIterator[SavedStream]:
    """Write a backup of the fleet into `folder`, which is new or empty; yield each stream.

    The fleet may be at work. Each stream is of one moment, and the order of the streams has it that
    what refers to something in another stream finds it there.

    Raises:
        BackupRefused: The folder has files or can't be written to, or the streams are not those of
            the settings.
        BusUnavailable: JetStream does not answer.
    """
    await asyncio.to_thread(_make, folder)
    names = [str(one.name) for one in _in_order(bus.settings)]
    await _check_streams(bus, names)
    saved = list[SavedStream]()
    for name in names:
        saved.append(await _save(bus, name, folder))
        yield saved[-1]
    settings = bus.settings
    manifest = BackupManifest(
        format=FORMAT,
        release=version("headrace"),
        taken=timestamp(datetime.now(UTC)),
        log_version=settings.log_version,
        prefix=settings.prefix,
        stream_prefix=settings.stream_prefix,
        event_streams=settings.event_streams,
        streams=saved,
    )
    await asyncio.to_thread(_finish, folder, manifest)


def _in_order(settings: BusSettings) -> list[api.StreamConfig]:
    """Return the fleet's streams in the order of a backup.

    Queues, schedules and webhooks come before the logs: what was done in between is in the logs,
    and is not done again. Files and idempotency keys come after them: those that a log names are
    there. Steps read what agents remember, so that comes before, too.
    """
    streams = Streams(settings.stream_prefix)
    logs = {streams.events(number) for number in range(settings.event_streams)}
    behind = {f"OBJ_{streams.files}", f"KV_{streams.idempotency}", streams.dead}

    def rank(one: api.StreamConfig) -> int:
        return 1 if one.name in logs else 2 if one.name in behind else 0

    return sorted(declarations(settings), key=rank)


async def _check_streams(bus: Bus, names: list[str]) -> None:
    """Check that the fleet has these streams, and no further event stream."""
    found = {name: await _config(bus, name) for name in names}
    if missing := [name for name, config in found.items() if config is None]:
        stated = f"{variable('event_streams')}={bus.settings.event_streams}"
        why = f"this is no fleet's NATS, or {stated} is too high"
        raise BackupRefused(f"stream {missing[0]} does not exist: {why}")
    if mirrors := [name for name, config in found.items() if config and config.get("mirror")]:
        raise BackupRefused(f"{mirrors[0]} is a mirror: back up the region that serves")
    if await _further_logs(bus):
        name, number = variable("event_streams"), bus.settings.event_streams
        raise BackupRefused(f"there are more event streams than {name}={number}: set it higher")


async def _further_logs(bus: Bus) -> list[str]:
    """Return the event streams that there are beyond those of the settings."""
    further, number = list[str](), bus.settings.event_streams
    while await _config(bus, name := bus.streams.events(number + len(further))) is not None:
        further.append(name)
    return further


async def _config(bus: Bus, stream: str) -> Json | None:
    with translated():
        return await find(bus.js, stream)


async def _save(bus: Bus, name: str, folder: Path) -> SavedStream:
    with _SnapshotFile.created(folder / f"{name}.snapshot") as file:
        found = await take_snapshot(bus, name, file.write)
    return SavedStream(
        name=name,
        file=file.path.name,
        bytes=file.size,
        sha256=file.digest.hexdigest(),
        config=found["config"],
        state=found["state"],
    )


@dataclass(slots=True)
class _SnapshotFile:
    path: Path
    _file: IO[bytes]
    size: int = 0
    digest: "hashlib._Hash" = field(default_factory=hashlib.sha256)

    @classmethod
    @contextmanager
    def created(cls, path: Path) -> Iterator["_SnapshotFile"]:
        with _accessing(path):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE_FILE)
            with os.fdopen(descriptor, "wb") as file:
                yield cls(path, file)
                file.flush()
                os.fsync(file.fileno())

    def write(self, chunk: bytes) -> None:
        self._file.write(chunk)
        self.digest.update(chunk)
        self.size += len(chunk)


@contextmanager
def _accessing(path: Path) -> Iterator[None]:
    """Raise BackupRefused where the disk is full, or refuses otherwise."""
    try:
        yield
    except OSError as error:
        raise BackupRefused(f"{path}: {error.strerror}") from None


def _make(folder: Path) -> None:
    with _accessing(folder):
        folder.mkdir(_PRIVATE_FOLDER, parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise BackupRefused(f"{folder} has files: name a new or an empty folder")


def _finish(folder: Path, manifest: BackupManifest) -> None:
    part = folder / f"{MANIFEST}.part"
    with _accessing(part):
        part.touch(_PRIVATE_FILE)
        part.write_text(manifest.model_dump_json(indent=2) + "\n")
        part.rename(folder / MANIFEST)


async def restore(bus: Bus, folder: Path, *, replace: bool = False) -> AsyncIterator[SavedStream]:
    """Create the fleet's streams from a backup; yield each one.

    No service of the fleet may run. `replace`: the fleet's streams are deleted first.

    Raises:
        BackupRefused: The backup is damaged, of another fleet or of a later release, a service
            runs, or there are streams and `replace` is off. Nothing was changed.
        Refused: The server can't have such a stream. Those before it are restored.
        BusUnavailable: JetStream does not answer.
    """
    manifest = BackupManifest.read(folder)
    _check_settings(manifest, bus.settings)
    await asyncio.to_thread(_check_files, manifest, folder)
    await _check_stopped(bus)
    await _make_room(bus, manifest, replace=replace)
    declared = {str(one.name): one for one in declarations(bus.settings)}
    for one in manifest.streams:
        config = one.config | {"num_replicas": declared[one.name].num_replicas or 1}
        config.pop("placement", None)
        await restore_snapshot(bus, one.name, config, one.state, _chunks(folder / one.file))
        yield one


def _check_settings(manifest: BackupManifest, settings: BusSettings) -> None:
    for name in ("prefix", "stream_prefix", "event_streams"):
        theirs, ours = getattr(manifest, name), getattr(settings, name)
        if theirs != ours:
            raise BackupRefused(
                f"{variable(name)} is {ours!r}, and the backup's fleet has {theirs!r}: "
                f"set {variable(name)}={theirs}"
            )
    expected = {str(one.name) for one in declarations(settings)}
    if unknown := {one.name for one in manifest.streams} ^ expected:
        named = ", ".join(sorted(unknown))
        raise BackupRefused(f"{MANIFEST}: has other streams than this release: {named}")


def _check_files(manifest: BackupManifest, folder: Path) -> None:
    for one in manifest.streams:
        digest, path = hashlib.sha256(), folder / one.file
        with _accessing(path):
            for chunk in _chunks(path):
                digest.update(chunk)
        if digest.hexdigest() != one.sha256:
            raise BackupRefused(f"{path}: is damaged: it has another sha256 than {MANIFEST} states")


async def _check_stopped(bus: Bus) -> None:
    if found := await ask_processes(bus, ProcessQuery(), {}, _SERVICES):
        running = ", ".join(f"{one.service} {one.process}" for one in found)
        raise BackupRefused(f"services of the fleet run: stop {running}")


async def _make_room(bus: Bus, manifest: BackupManifest, *, replace: bool) -> None:
    names = [one.name for one in manifest.streams]
    there = [name for name in names if await _config(bus, name) is not None]
    there += await _further_logs(bus)
    if there and not replace:
        named = ", ".join(there)
        raise BackupRefused(
            f"{named}: exist here; --replace deletes all streams of the fleet first"
        )
    for name in there:
        await request(bus, f"STREAM.DELETE.{name}")


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk
