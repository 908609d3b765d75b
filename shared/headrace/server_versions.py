"""The earliest servers that a fleet works with: the only place that states them."""

from typing import Final

from headrace.model.errors import HeadraceError

NATS_MINIMUM: Final = (2, 14)
"""Since it, JetStream's message schedules repeat, by cron expressions in time zones."""

REDIS_MINIMUM: Final = (7, 0)
"""Also of Valkey, which states the version of Redis that it is compatible with (7.2 and later)."""


class ServerTooOld(HeadraceError):
    """A server is of an earlier version than the fleet works with."""

    code = "server_too_old"


def check_server_version(server: str, version: str, minimum: tuple[int, int]) -> None:
    """Return if `version` of the `server` is at least `minimum`, or can't be compared.

    Raises:
        ServerTooOld: it is earlier; the message names both.
    """
    major, _, rest = version.partition(".")
    minor = rest.partition(".")[0]
    if not (major.isdecimal() and minor.isdecimal()):
        return
    if (int(major), int(minor)) < minimum:
        stated = ".".join(map(str, minimum))
        raise ServerTooOld(f"{server} {version} is too old: use {stated} or later")
