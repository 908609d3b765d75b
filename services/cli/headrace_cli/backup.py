"""``headrace backup`` and ``headrace restore``: the fleet in a folder or through a pipe, and back.

In a pipe the folder is a tar archive, which an object store's own program takes and gives.
"""

import sys
import tarfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from headrace.backup import MANIFEST, SavedStream, back_up
from headrace.backup import restore as restored
from headrace.jetstream.connection import Bus
from headrace_cli.failures import CommandFailed
from headrace_cli.interrupts import ended_by_exceptions
from headrace_cli.on_bus import on_bus, with_nats
from headrace_cli.printer import Printer, with_json

_MEGABYTE = 1_000_000

_FOLDER = click.argument(
    "folder", type=click.Path(file_okay=False, path_type=Path, allow_dash=True)
)
_PIPE = Path("-")


@click.command()
@_FOLDER
@with_nats
@with_json
def backup(folder: Path, nats_url: str | None, printer: Printer) -> None:
    """Write the fleet's streams into FOLDER while the fleet works.

    FOLDER is new or empty. It gets users' messages and the fleet's signing keys: only its owner can
    read it. With `-`, the folder is temporary (TMPDIR), and a tar archive of it goes to stdout.
    """
    if folder != _PIPE:
        _each(nats_url, printer, lambda bus: back_up(bus, folder))
        printer.remark(f"the backup is complete: {folder}")
        return
    with ended_by_exceptions(), TemporaryDirectory() as made:
        errors = Printer(as_json=printer.as_json, err=True)
        _each(nats_url, errors, lambda bus: back_up(bus, Path(made)))
        _send(Path(made))


def _send(folder: Path) -> None:
    """Write the archive of a backup to stdout, its manifest last."""
    try:
        with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as archive:
            for path in sorted(folder.iterdir(), key=lambda one: one.name == MANIFEST):
                archive.add(path, path.name)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise  # The reader has gone and says why; click ends the command.
    except OSError as error:
        raise CommandFailed(f"stdout: {error.strerror}") from None


@click.command()
@_FOLDER
@click.option("--replace", is_flag=True, help="Delete the streams that exist first.")
@with_nats
@with_json
def restore(folder: Path, nats_url: str | None, *, replace: bool, printer: Printer) -> None:
    """Create the fleet's streams from the backup in FOLDER, on a NATS without them.

    Stop all services of the fleet first, and start them with an empty Redis afterwards. With `-`,
    the backup's tar archive is read from stdin, into a temporary folder (TMPDIR).
    """
    with _unpacked(folder) as found:
        _each(nats_url, printer, lambda bus: restored(bus, found, replace=replace))
    printer.remark("the fleet is restored: start its services with an empty Redis")


@contextmanager
def _unpacked(folder: Path) -> Iterator[Path]:
    """Yield the folder, or one with what comes from stdin."""
    if folder != _PIPE:
        yield folder
        return
    with ended_by_exceptions(), TemporaryDirectory() as made:
        try:
            with tarfile.open(fileobj=sys.stdin.buffer, mode="r|*") as archive:
                for member in archive:
                    archive.extract(member, made, filter=_of_backup)
        except (tarfile.TarError, TypeError) as error:  # TypeError: three bytes of gzip
            raise CommandFailed(f"stdin is no complete backup: {error}") from None
        except OSError as error:
            raise CommandFailed(f"{error.filename or made}: {error.strerror}") from None
        yield Path(made)


def _of_backup(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo:
    """Return a member as it is extracted; raise what tarfile does if a backup has none like it."""
    if member.islnk() or member.issym():
        raise tarfile.SpecialFileError(member)
    return tarfile.data_filter(member, folder)


def _each(
    nats_url: str | None, printer: Printer, work: Callable[[Bus], AsyncIterator[SavedStream]]
) -> None:
    """Print a line for each stream as it is done."""

    async def done(bus: Bus) -> None:
        async for one in work(bus):
            record = {"stream": one.name, "messages": one.messages, "bytes": one.bytes}
            size = f"{one.messages} messages, {one.bytes / _MEGABYTE:.1f} MB"
            printer.record(record, f"{one.name}: {size}")

    on_bus(nats_url, done)
