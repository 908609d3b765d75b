"""Services report that they have started, and are asked when they do."""

import asyncio
import socket
import sys
import tempfile
from pathlib import Path

import pytest

from headrace_cli.dev.ready_reports import ReadyReports, ready_reports


def report(path: str, message: bytes = b"READY=1") -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as service:
        service.sendto(message, f"\0{path[1:]}" if path.startswith("@") else path)


async def test_a_pause_ends_with_the_next_report() -> None:
    async with ready_reports(2) as reports:
        pausing = asyncio.create_task(reports.pause())
        report(reports.path)
        report(reports.path)
        await asyncio.wait_for(pausing, 60)
        await asyncio.wait_for(reports.next(), 60)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has addresses without a path")
async def test_reports_come_although_the_temporary_folder_has_a_long_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    async with ready_reports() as reports:
        report(reports.path)
        await asyncio.wait_for(reports.next(), 60)


async def test_other_messages_are_no_reports() -> None:
    async with ready_reports() as reports:
        report(reports.path, b"STATUS=connecting")
        report(reports.path, b"STATUS=ready\nREADY=1")
        await asyncio.wait_for(reports.next(), 60)
        following = asyncio.create_task(reports.next())
        await asyncio.sleep(0.05)
        assert not following.done()
        following.cancel()


async def test_a_service_that_reports_nothing_is_queried_too() -> None:
    reports = ReadyReports("", 1)
    for _ in range(2):
        await asyncio.wait_for(reports.pause(), 60)
    reports.add()
    await asyncio.wait_for(reports.pause(), 60)
    following = asyncio.create_task(reports.next())
    await asyncio.sleep(0)
    assert not following.done()
    following.cancel()


async def test_reports_that_were_not_waited_for_are_kept() -> None:
    reports = ReadyReports("", 3)
    reports.add()
    reports.add()
    await asyncio.gather(reports.pause(), reports.pause())
    last = asyncio.create_task(reports.next())
    await asyncio.sleep(0)
    assert not last.done()
    reports.add()
    await asyncio.wait_for(last, 60)
