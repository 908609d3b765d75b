"""The gateway's ports."""

import logging
import socket

from headrace.model.errors import HeadraceError, SettingInvalid
from headrace_gateway.server.origin import is_loopback
from headrace_gateway.settings import GatewaySettings

_log = logging.getLogger(__name__)

_UNSENT = 64 * 1024
"""Limit of unsent bytes per connection in the kernel; without it, megabytes for slow readers."""


class CannotListen(HeadraceError):
    """The address is not available; the message names the cause and the setting."""

    code = "cannot_listen"


class Unprotected(SettingInvalid):
    """The gateway would be open to anyone who can reach it; the message names the settings."""

    code = "unprotected"


def check_exposure(settings: GatewaySettings) -> None:
    """Warn if the gateway is open to other machines and a setting allows that.

    Raises:
        Unprotected: the gateway is open, and no setting allows it.
    """
    if settings.credentials is not None or is_loopback(settings.http_host):
        return
    where = f"HEADRACE_HTTP_HOST={settings.http_host} is not loopback"
    if not settings.allow_anonymous:
        raise Unprotected(
            f"{where} and HEADRACE_CREDENTIALS is not set, so any client that reaches it could "
            "call agents and "
            "see every task: set HEADRACE_CREDENTIALS to a file (headrace credential), or listen "
            "on 127.0.0.1, or set HEADRACE_ALLOW_ANONYMOUS=true"
        )
    _log.warning("%s: any client that reaches it may call agents (HEADRACE_ALLOW_ANONYMOUS)", where)


def listen(host: str, port: int, setting: str = "HEADRACE_HTTP_PORT") -> socket.socket:
    """Return a socket bound to `host` and `port`, where `setting` names the port's setting.

    Port 0 selects a free port.

    Raises:
        CannotListen: the port is in use, or the address is not this machine's.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise CannotListen(f"cannot listen on {host} (HEADRACE_HTTP_HOST): {error}") from None
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _bound_unsent(listener)
    try:
        listener.bind(address)
    except OSError as error:
        listener.close()
        where = f"{host}:{port} (HEADRACE_HTTP_HOST, {setting})"
        raise CannotListen(f"cannot listen on {where}: {error.strerror}") from None
    return listener


def _bound_unsent(listener: socket.socket) -> None:
    """Limit unsent bytes in the kernel for every accepted connection, where supported."""
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT)
