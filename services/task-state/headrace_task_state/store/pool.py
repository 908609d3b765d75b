"""Connections to the server that settings name, or that Sentinel says is the master now."""

from collections.abc import Callable, Mapping
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection, parse_url
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import (
    Sentinel,
    SentinelConnectionPool,
    SentinelManagedConnection,
    SentinelManagedSSLConnection,
)
from redis.backoff import NoBackoff
from redis.credentials import CredentialProvider

from headrace.tls import tls_context
from headrace_task_state.store.packing import packed_in_c
from headrace_task_state.store.settings import Login, RedisSettings

ANSWER_TIMEOUT = 3.0
"""Seconds for one answer; a batch takes milliseconds."""

_CONNECT_TIMEOUT = 2.0
_CONNECTIONS = 32

_MANAGED = {Connection: SentinelManagedConnection, SSLConnection: SentinelManagedSSLConnection}


class Server:
    """A client of one server, and what it asks for its address."""

    def __init__(self, settings: RedisSettings) -> None:
        """Connect where `settings` say when it is needed."""
        options = _options(settings, settings.redis_url, settings.redis_login)
        self._sentinel: Sentinel | None = None
        if not settings.sentinel_urls:
            self.client = Redis(connection_pool=BlockingConnectionPool(**options))
            return
        self._sentinel = Sentinel([])  # type: ignore[no-untyped-call]
        self._sentinel.sentinels = [
            Redis(
                connection_pool=BlockingConnectionPool(
                    **_options(settings, url, settings.sentinel_login)
                )
            )
            for url in settings.sentinel_urls
        ]
        self.client = Redis(
            connection_pool=_SentinelPool(
                service_name=settings.redis_master, sentinel_manager=self._sentinel, **options
            )
        )

    async def close(self) -> None:
        """Hang up."""
        await self.client.aclose()
        await self.client.connection_pool.disconnect()
        if self._sentinel is not None:
            for one in self._sentinel.sentinels:
                await one.aclose()
                await one.connection_pool.disconnect()


class _SentinelPool(BlockingConnectionPool, SentinelConnectionPool):
    """Connections to a master, whichever that is: who wants one waits until one is free."""


class _Credentials(CredentialProvider):
    """Reads its login anew for each connection."""

    def __init__(self, login: Callable[[], Login]) -> None:
        self._login = login

    def get_credentials(self) -> Any:  # noqa: ANN401 - redis-py takes none too
        return self._login()

    async def get_credentials_async(self) -> Any:  # noqa: ANN401 - as above
        return self._login()


def _options(settings: RedisSettings, url: str, login: Callable[[], Login]) -> dict[str, Any]:
    """Return the arguments of a pool of connections to `url`."""
    options: dict[str, Any] = dict(parse_url(url))
    user, password = options.pop("username", ""), options.pop("password", "")
    of_url: Login = ((user, password) if user else (password,)) if password else None
    kind = options.pop("connection_class", Connection)
    if settings.sentinel_urls and url == settings.redis_url:
        kind = _MANAGED.get(kind, kind)
        for name in ("host", "port", "path"):
            options.pop(name, None)
    if issubclass(kind, SSLConnection):
        kind = _encrypted(kind, settings)
    return options | {
        "connection_class": packed_in_c(kind),
        "credential_provider": _Credentials(lambda: login() or of_url),
        "max_connections": _CONNECTIONS,
        "timeout": ANSWER_TIMEOUT,
        "socket_timeout": ANSWER_TIMEOUT,
        "socket_connect_timeout": _CONNECT_TIMEOUT,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
    }


def _encrypted(kind: type[AbstractConnection], settings: RedisSettings) -> type[AbstractConnection]:
    """Return `kind` with the certificates of `settings`, as they are when it connects."""

    class Encrypted(kind):  # type: ignore[valid-type,misc]
        def _connection_arguments(self) -> Mapping[str, Any]:
            return {**super()._connection_arguments(), "ssl": tls_context(settings, "redis")}

    return Encrypted
