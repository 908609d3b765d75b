"""Connections to Redis, and the translation of its errors."""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.connection import AbstractConnection, SSLConnection, parse_url
from redis.asyncio.connection import Connection as PlainConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import (
    Sentinel,
    SentinelConnectionPool,
    SentinelManagedConnection,
    SentinelManagedSSLConnection,
)
from redis.backoff import NoBackoff
from redis.connection import HiredisRespSerializer
from redis.credentials import CredentialProvider
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoPermissionError, NoScriptError, RedisError, ResponseError

from headrace.model.errors import StateUnavailable
from headrace.server_versions import REDIS_MINIMUM, check_server_version
from headrace.tls import tls_context
from headrace_task_state.store import LARGEST_NUMBER, StoreSize
from headrace_task_state.store_redis.encoding import constants
from headrace_task_state.store_redis.settings import Login, RedisSettings

ANSWER_TIMEOUT = 3.0
"""Seconds for one answer; a batch takes milliseconds."""

_CONNECT_TIMEOUT = 2.0

_CONNECTIONS = 32

_MANAGED = {PlainConnection: SentinelManagedConnection, SSLConnection: SentinelManagedSSLConnection}


class Server:
    """A client of one server, and how it finds the server's address."""

    def __init__(self, settings: RedisSettings, answer_timeout: float = ANSWER_TIMEOUT) -> None:
        """Prepare to connect with `settings`, on first use."""
        options = _options(settings, settings.redis_url, settings.redis_login)
        options |= {"timeout": answer_timeout, "socket_timeout": answer_timeout}
        if not settings.sentinel_urls:
            self._pools = [_Pool(**options)]
            self.client = Redis(connection_pool=self._pools[0])
            return
        login = settings.sentinel_login
        self._pools = [_Pool(**_options(settings, url, login)) for url in settings.sentinel_urls]
        sentinel = Sentinel([])  # type: ignore[no-untyped-call]
        sentinel.sentinels = [Redis(connection_pool=pool) for pool in self._pools]
        master = _SentinelPool(
            service_name=settings.redis_master, sentinel_manager=sentinel, **options
        )
        self._pools.append(master)
        self.client = Redis(connection_pool=master)

    async def close(self) -> None:
        """Disconnect."""
        for pool in self._pools:
            await pool.hang_up()


class _Pool(BlockingConnectionPool):
    """A pool that leaves no connection open after `hang_up`.

    After `disconnect`, redis-py's own pool connects again on request and keeps connections that
    were being opened meanwhile; those are never closed.
    """

    _has_hung_up = False

    async def hang_up(self) -> None:
        """Close all connections permanently."""
        self._has_hung_up = True
        await self.disconnect()

    async def get_connection(self, *args: Any, **options: Any) -> AbstractConnection:  # noqa: ANN401 - redis-py's own
        """Return a free connection.

        Raises:
            ConnectionError: the pool is closed, or the server does not answer.
        """
        if self._has_hung_up:
            raise RedisConnectionError("the connection is closed")
        free: AbstractConnection = await super().get_connection(*args, **options)  # type: ignore[no-untyped-call]
        return free

    async def release(self, connection: AbstractConnection) -> None:
        """Return the connection to the pool."""
        if self._has_hung_up:
            await connection.disconnect(nowait=True)
        await super().release(connection)


class _SentinelPool(_Pool, SentinelConnectionPool):
    """A pool of connections to the current master; callers wait until one is free."""


class _RedisCredentials(CredentialProvider):
    """Reads the login again for each connection."""

    def __init__(self, login: Callable[[], Login]) -> None:
        self._login = login

    def get_credentials(self) -> Any:  # noqa: ANN401 - redis-py takes none too
        return self._login()

    async def get_credentials_async(self) -> Any:  # noqa: ANN401 - as above
        return self._login()


def _options(settings: RedisSettings, url: str, login: Callable[[], Login]) -> dict[str, Any]:
    """Return the arguments of a pool of connections to `url`.

    Raises:
        SecretUnreadable: A certificate in the settings is unusable.
    """
    options: dict[str, Any] = dict(parse_url(url))
    user, password = options.pop("username", ""), options.pop("password", "")
    of_url: Login = ((user, password) if user else (password,)) if password else None
    kind = options.pop("connection_class", PlainConnection)
    if settings.sentinel_urls and url == settings.redis_url:
        kind = _MANAGED.get(kind, kind)
        for name in ("host", "port", "path"):
            options.pop(name, None)
    if issubclass(kind, SSLConnection):
        # Each connection creates its own; this call reports unusable certificates at the start.
        tls_context(settings, "redis")
        kind = _encrypted(kind, settings)
    return options | {
        "connection_class": packed_in_c(kind),
        "credential_provider": _RedisCredentials(lambda: login() or of_url),
        "max_connections": _CONNECTIONS,
        "timeout": ANSWER_TIMEOUT,
        "socket_timeout": ANSWER_TIMEOUT,
        "socket_connect_timeout": _CONNECT_TIMEOUT,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
    }


def _encrypted(kind: type[AbstractConnection], settings: RedisSettings) -> type[AbstractConnection]:
    """Return `kind` with the certificates of `settings`, read at each connect."""

    class Encrypted(kind):  # type: ignore[valid-type,misc]
        def _connection_arguments(self) -> Mapping[str, Any]:
            return {**super()._connection_arguments(), "ssl": tls_context(settings, "redis")}

    return Encrypted


_serializer = HiredisRespSerializer()


class PackedInC:
    """Packs commands in C.

    A batch of 100 tasks has some 1,500 arguments, which redis-py packs in 2.2 ms and C in 1.0, and
    one of a single task in 85 and 22 µs (medians of seven rounds that alternated).
    """

    def pack_command(self, *args: Any) -> list[bytes]:  # noqa: ANN401 - redis-py's own
        """Return the bytes of one command."""
        packed: list[bytes] = _serializer.pack(*args)
        return packed


def packed_in_c(kind: type[AbstractConnection]) -> type[AbstractConnection]:
    """Return `kind` of connection (TCP, TLS, Unix) that packs commands in C."""
    return type(kind.__name__, (PackedInC, kind), {})


_log = logging.getLogger(__name__)

type Argument = bytes | str | int | float


def _for_script(value: Argument) -> Argument:
    """Return an argument of a script as it is.

    Raises:
        ValueError: it is a number that the script would take for another one.
    """
    if isinstance(value, int | float) and not -LARGEST_NUMBER <= value <= LARGEST_NUMBER:
        raise ValueError(f"{value} is no number for a script: Lua's are doubles")
    return value


class Connection:
    """A connection to Redis that runs one script or transaction at a time.

    It does not retry: a script that was sent may have been carried out.

    All but `check` raise StateUnavailable if Redis does not answer.
    """

    def __init__(self, settings: RedisSettings, answer_timeout: float = ANSWER_TIMEOUT) -> None:
        """Prepare to connect with `settings`, on first use. Answers may take `answer_timeout` s."""
        self._server = Server(settings, answer_timeout)
        self._redis = self._server.client
        self.name = f"Redis at {settings.shown}"
        """Display name and address, for logs."""

    async def check(self) -> None:
        """Return if Redis answers.

        Its version is not checked if the login may not ask for it.

        Raises:
            ConnectionError: it does not.
            ServerTooOld: it is of an earlier version than the fleet works with.
        """
        try:
            await self._redis.ping()
            version = await self._version()
        except RedisError as error:
            raise ConnectionError(str(error)) from error
        check_server_version("Redis", version, REDIS_MINIMUM)

    async def _version(self) -> str:
        """Return the server's version; empty: the login may not ask for it.

        Raises:
            RedisError: it does not answer.
        """
        try:
            info = await self._redis.info("server")
        except NoPermissionError:
            return ""
        return str(info.get("redis_version", ""))

    async def run(self, name: str, keys: Sequence[str], arguments: Sequence[Argument]) -> Any:  # noqa: ANN401 - whatever the script returns
        """Run ``lua/<name>.lua`` and return its answer.

        Raises:
            StateUnavailable: Redis does not answer or refuses; the script may have run.
            ValueError: a number is none for a script.
        """
        chosen = script(name)
        words = list(map(_for_script, arguments))
        try:
            try:
                return await self._redis.evalsha(chosen.digest, len(keys), *keys, *words)
            except NoScriptError:
                return await self._redis.eval(chosen.text, len(keys), *keys, *words)
        except (RedisError, OSError) as error:
            raise unavailable(error) from error

    async def ask(self, *commands: Sequence[Argument]) -> list[Any]:
        """Run read commands atomically and return their answers."""
        try:
            if len(commands) == 1:
                # It is atomic by itself. MULTI and EXEC would make it three commands.
                [command] = commands
                return [await self._redis.execute_command(*command)]  # type: ignore[no-untyped-call]
            async with self._redis.pipeline(transaction=True) as pipeline:
                for command in commands:
                    pipeline.execute_command(*command)
                return await pipeline.execute()
        except (RedisError, OSError) as error:
            raise unavailable(error) from error

    async def time(self) -> float:
        """Return the time by Redis' clock, seconds since 1970."""
        [[seconds, micros]] = await self.ask(["TIME"])
        return int(seconds) + int(micros) / 1_000_000

    async def memory(self) -> StoreSize:
        """Return Redis's memory."""
        [found] = await self.ask(["INFO", "memory"])  # which redis-py parses
        return StoreSize(int(found["used_memory"]), int(found["maxmemory"]))

    async def unlink_all(self, start: str, but: Sequence[str] = ()) -> None:
        """Delete every key that starts with `start`, in small batches; keep those in `but`.

        Raises:
            StateUnavailable: Redis does not answer; some keys may be left.
        """
        try:
            cursor, kept = 0, {key.encode() for key in but}
            while True:
                cursor, found = await self._redis.scan(cursor, match=f"{start}*", count=500)
                if gone := {*found} - kept:
                    await self._redis.unlink(*gone)
                if cursor == 0:
                    return
        except (RedisError, OSError) as error:
            raise unavailable(error) from error

    async def close(self) -> None:
        """Disconnect."""
        await self._server.close()


def unavailable(error: Exception) -> StateUnavailable:
    """Translate an `error` of Redis for callers."""
    if isinstance(error, ResponseError):
        _log.error("Redis reported an error: %s", error)
    return StateUnavailable(f"Redis: {error or type(error).__name__}")


_SHARED = {
    "apply": ("packed", "members", "usage", "threads", "listings"),
    "complete": ("packed", "members", "usage", "threads", "listings"),
    "fields": ("packed",),
    "page": ("packed", "members", "history"),
    "task": ("packed", "history"),
    "thread_page": ("packed",),
}
"""The scripts with functions that a script needs, by its name."""


class Script:
    """One script and the digest under which Redis has it."""

    def __init__(self, name: str) -> None:
        """Read ``lua/<name>.lua``, with the scripts that it needs before it."""
        folder = files(__package__) / "lua"
        shared = _SHARED.get(name, ())
        texts = [(folder / f"{one}.lua").read_text() for one in (*shared, name)]
        self.name = name
        self.text = "".join([constants(), *texts] if shared else texts)
        self.digest = sha1(self.text.encode(), usedforsecurity=False).hexdigest()


@cache
def script(name: str) -> Script:
    """Return the script of that name."""
    return Script(name)
