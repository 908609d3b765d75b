"""The operator's access to the fleet: directly over NATS, even if no gateway answers."""

import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from headrace.jetstream.connection import Bus
from headrace.model.errors import DeniedByNats, HeadraceError
from headrace.secret_settings import SecretUnreadable, setting_errors
from headrace.settings import BusSettings
from headrace_cli.dev import dev_file
from headrace_cli.dev.embedded_bus import without_login
from headrace_cli.failures import CommandFailed
from headrace_cli.interrupts import run

_TIMEOUT = 5.0
"""Seconds to wait for NATS; HEADRACE_STARTUP_TIMEOUT overrides it."""

with_nats = click.option(
    "--nats-url",
    metavar="URL",
    help="NATS server; default: HEADRACE_NATS_URL, or the `headrace dev` in HEADRACE_DATA_DIR.",
)


class CommandRefused(CommandFailed):
    """The requested operation is impossible; the message contains the reason."""


def on_bus[Result](
    nats_url: str | None,
    work: Callable[[Bus], Coroutine[Any, Any, Result]],
    settings_class: type[BusSettings] = BusSettings,
) -> Result:
    """Return the result of `work`, run on its own connection with settings of the class.

    Raises:
        CommandRefused: it is impossible, or NATS is not available.
    """
    settings = _settings(nats_url, settings_class)
    try:
        with _only_errors():
            return run(_connected(settings, work))
    except (HeadraceError, SecretUnreadable) as error:
        raise CommandRefused(str(error)) from error


@contextmanager
def _only_errors() -> Iterator[None]:
    """Log no warnings: a command reports its failure once, and not that it is waiting."""
    log = logging.getLogger("headrace")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)


async def _connected[Result](
    settings: BusSettings, work: Callable[[Bus], Coroutine[Any, Any, Result]]
) -> Result:
    bus = Bus(settings)
    try:
        await bus.dial("headrace-cli")
        await _check_login(bus)
        return await work(bus)
    finally:
        await bus.close()


async def _check_login(bus: Bus) -> None:
    # With the login of a service, each of the command's requests would time out.
    try:
        await bus.check_answers()
    except DeniedByNats as denied:
        raise CommandRefused(
            f"NATS does not take this login for that of role {bus.settings.role}: "
            "set HEADRACE_NATS_USER and HEADRACE_NATS_PASSWORD to an operator's"
        ) from denied


def _settings(nats_url: str | None, settings_class: type[BusSettings]) -> BusSettings:
    try:
        settings = settings_class()
    except ValidationError as invalid:
        raise CommandRefused("\n".join(setting_errors(invalid))) from None
    changes: dict[str, object] = {}
    if "startup_timeout" not in settings.model_fields_set:
        changes["startup_timeout"] = _TIMEOUT
    if nats_url:
        changes["nats_url"] = nats_url
    elif "nats_url" not in settings.model_fields_set:
        settings = _of_development_stack(settings)
    return settings.model_copy(update=changes)


def _of_development_stack(settings: BusSettings) -> BusSettings:
    found = dev_file.read(Path(settings.data_dir).expanduser())
    if found is None:
        return settings
    if any(process["role"] == "nats" for process in found["processes"]):
        return without_login(settings, found["nats_url"])
    return settings.model_copy(update={"nats_url": found["nats_url"]})
