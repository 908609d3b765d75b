"""``headrace doctor``: check the fleet and report problems."""

import os
import sys
from collections.abc import AsyncIterator
from dataclasses import asdict

import click

from headrace.jetstream.connection import Bus
from headrace.jetstream.durables import contract_differences
from headrace.secret_settings import SecretUnreadable
from headrace.settings import BusSettings
from headrace_cli.doctor.diagnosis import Diagnosis, Level, ok, problem
from headrace_cli.doctor.fleet import check_fleet
from headrace_cli.doctor.nats import NATS, check_login, check_streams
from headrace_cli.doctor.redis import REDIS, check_redis
from headrace_cli.doctor.rights import SERVICES
from headrace_cli.doctor.settings import check_files, check_settings, errors_in
from headrace_cli.failures import CommandFailed
from headrace_cli.interrupts import run
from headrace_cli.on_bus import on_bus, with_nats
from headrace_cli.printer import Printer, with_json
from headrace_cli.settings_table import settings_classes

_REST = ok(NATS, "streams, agents and task state are checked with an operator's login only")

_COLORS: dict[Level, str] = {"ok": "green", "warning": "yellow", "problem": "red"}


@click.command()
@with_nats
@with_json
def doctor(nats_url: str | None, printer: Printer) -> None:
    """Check settings, NATS, Redis and services, and report problems and remedies.

    Changes nothing. Exit code 0: no problem; 1: at least one.
    """
    found = [*check_settings(os.environ), *check_files()]
    # The invalid ones may be those of other services.
    if not errors_in(BusSettings):
        found += _on_nats(nats_url)
    if not errors_in(settings_classes()["task-state"]):
        found += _in_redis()
    for finding in found:
        label = click.style(f"{finding.level:<8}", fg=_COLORS[finding.level])
        printer.record(asdict(finding), _text(finding), label=label)
    if any(finding.level == "problem" for finding in found):
        sys.exit(1)


def _on_nats(nats_url: str | None) -> list[Diagnosis]:
    async def look(bus: Bus) -> list[Diagnosis]:
        found = await _all(check_login(bus))
        if bus.settings.role in SERVICES:
            return [*found, _REST]
        different = await contract_differences(bus)
        found += await _all(check_streams(bus, different))
        missing = {one.stream for one in different if one.is_missing}
        # A fleet with fewer event streams than the settings name works.
        if missing.issubset(map(bus.streams.events, range(1, bus.settings.event_streams))):
            found += await _all(check_fleet(bus, missing))
        return found

    try:
        return on_bus(nats_url, look, SERVICES.get(user_in_settings(nats_url), BusSettings))
    except CommandFailed as failed:
        return [problem(NATS, failed.message, "check HEADRACE_NATS_URL and its login")]


def user_in_settings(nats_url: str | None) -> str:
    """Return the user of the login in the settings and the URL; empty: it is of another kind."""
    settings = BusSettings()
    if nats_url:
        settings = settings.model_copy(update={"nats_url": nats_url})
    try:
        login = settings.nats_login()
    except SecretUnreadable:  # The connection says so.
        return ""
    return login[0] if login is not None else ""


def _in_redis() -> list[Diagnosis]:
    try:
        return run(_all(check_redis()))
    except SecretUnreadable as error:
        return [problem(REDIS, str(error), "correct the file")]


async def _all(findings: AsyncIterator[Diagnosis]) -> list[Diagnosis]:
    return [finding async for finding in findings]


def _text(finding: Diagnosis) -> str:
    remedy = f" ({finding.remedy})" if finding.remedy else ""
    return f"{finding.subject}: {finding.text}{remedy}"
