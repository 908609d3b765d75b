"""ACL, TLS and Sentinel, on real servers: task state's view is written and read with each."""

import asyncio
import re
import secrets
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Self

import pytest

from headrace.model.errors import StateUnavailable
from headrace.server_versions import ServerTooOld
from headrace_cli.dev.valkey_server import program_path
from headrace_task_state.store_redis import connection as connections
from headrace_task_state.store_redis.connection import Connection
from headrace_task_state.store_redis.settings import RedisSettings
from tests.support.certificates import Authority
from tests.support.server_process import ServerProcess
from tests.support.servers import ports
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import eventually

PASSWORD = """a:b@c/d#e?f%41 "g" 'h',ü$1"""
SENTINELS = "s3ntinels"


class OwnValkey(ServerProcess):
    """Valkey, or a sentinel of it, on lines of configuration of the test's own."""

    def __init__(self, folder: Path, name: str, *lines: str, is_sentinel: bool = False) -> None:
        super().__init__(name, folder / name)
        self.port = ports.pick()
        self._lines, self._is_sentinel = lines, is_sentinel

    def command(self) -> list[str]:
        file = self.folder / "valkey.conf"
        if not file.exists():  # a sentinel rewrites its own
            own = ["bind 127.0.0.1", f"port {self.port}", f'dir "{self.folder}"', *self._lines]
            file.write_text("\n".join(own) + "\n", encoding="utf-8")
        return [str(program_path()), str(file), *(["--sentinel"] if self._is_sentinel else [])]

    def answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False


class TlsEdge(TcpProxy):
    """Ends TLS before a server: the wheel's Valkey is built without."""

    def __init__(self, target: int, context: ssl.SSLContext) -> None:
        super().__init__(target)
        self._context = context

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context)
        return self

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await self._connect()
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_copy(reader, to_server))
                both.create_task(_copy(from_server, writer))
        except* OSError:
            pass
        finally:
            to_server.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    raise ConnectionResetError


@asynccontextmanager
async def connected(**settings: object) -> AsyncIterator[Connection]:
    connection = Connection(RedisSettings.model_validate(settings))
    try:
        yield connection
    finally:
        await connection.close()


async def works(connection: Connection) -> bool:
    """Whether a script writes and is read back."""
    key = secrets.token_hex(4)
    try:
        await connection.ask(["SET", key, "1", "EX", 60])
        return await connection.ask(["GET", key]) == [b"1"]
    except StateUnavailable:
        return False


def in_file(path: Path, text: str) -> Path:
    path.write_text(f"{text}\n", encoding="utf-8")
    return path


def acl(user: str = "fleet") -> str:
    escaped = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    return f'user {user} on ">{escaped}" ~* &* +@all'


async def test_a_server_that_is_too_old_is_refused_if_its_version_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "REDIS_MINIMUM", (99, 0))
    lines = (f"{acl()} -info", "user default on nopass ~* &* +@all")
    with OwnValkey(tmp_path, "valkey", *lines) as valkey:
        url = f"redis://127.0.0.1:{valkey.port}/0"
        async with connected(redis_url=url) as connection:
            with pytest.raises(ServerTooOld, match=r"Redis .* is too old: use 99\.0 or later"):
                await connection.check()
        login = {"redis_user": "fleet", "redis_password": PASSWORD}
        async with connected(redis_url=url, **login) as connection:
            await connection.check()


async def test_a_user_of_an_acl_and_a_password_of_any_characters(tmp_path: Path) -> None:
    lines = (acl(), 'user default on ">only default" ~* &* +@all')
    with OwnValkey(tmp_path, "valkey", *lines) as valkey:
        url = f"redis://127.0.0.1:{valkey.port}/0"
        file = in_file(tmp_path / "password", PASSWORD)
        async with AsyncExitStack() as stack:
            for settings in (
                {"redis_user": "fleet", "redis_password": PASSWORD},
                {"redis_user": "fleet", "redis_password_file": file},
                {"redis_password": "only default"},
            ):
                connection = await stack.enter_async_context(connected(redis_url=url, **settings))
                await eventually(partial(works, connection), str(settings))
        quoted = "".join(f"%{byte:02x}" for byte in PASSWORD.encode())
        old = f"redis://fleet:{quoted}@127.0.0.1:{valkey.port}/0"
        async with connected(redis_url=old) as connection:
            await eventually(lambda: works(connection), "it works")
        async with connected(redis_url=url) as connection:
            assert not await works(connection)


async def test_a_password_that_was_replaced_counts_from_the_next_connection_on(
    tmp_path: Path,
) -> None:
    with OwnValkey(tmp_path, "valkey", acl(), "requirepass operator") as valkey:
        file = in_file(tmp_path / "password", PASSWORD)
        url = f"redis://127.0.0.1:{valkey.port}/0"
        mine = {"redis_user": "fleet", "redis_password_file": file}
        async with (
            connected(redis_url=url, **mine) as connection,
            connected(redis_url=url, redis_password="operator") as operator,
        ):
            await eventually(lambda: works(connection), "it works")
            await operator.ask(["ACL", "SETUSER", "fleet", "resetpass", ">n3w"])
            await asyncio.to_thread(in_file, file, "n3w")
            await operator.ask(["CLIENT", "KILL", "USER", "fleet"])
            await eventually(lambda: works(connection), "it works with the new password")


async def test_tls_with_a_client_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("client")
    with OwnValkey(tmp_path, "valkey", "requirepass secret") as valkey:
        async with TlsEdge(valkey.port, authority.server_context()) as edge:
            url = f"rediss://127.0.0.1:{edge.port}/0"
            mine = {"redis_cert_file": certificate, "redis_key": key.read_text()}
            login = {"redis_password": "secret", "redis_ca_file": authority.file}
            async with connected(redis_url=url, **login, **mine) as connection:
                await eventually(lambda: works(connection), "it connects with its certificate")
            async with connected(redis_url=url, **login) as connection:
                assert not await works(connection)
            login["redis_ca_file"] = Authority(tmp_path, "other").file
            async with connected(redis_url=url, **login, **mine) as connection:
                assert not await works(connection)


async def test_sentinel_leads_to_the_next_master(tmp_path: Path) -> None:
    lines = (
        acl(),
        "repl-diskless-sync-delay 0",
        f'masteruser fleet\nmasterauth "{PASSWORD.replace('"', '\\"')}"',
    )
    master = OwnValkey(tmp_path, "master", *lines)
    replica = OwnValkey(tmp_path, "replica", *lines, f"replicaof 127.0.0.1 {master.port}")
    watched = [
        f"requirepass {SENTINELS}",
        f"sentinel monitor fleet 127.0.0.1 {master.port} 2",
        "sentinel auth-user fleet fleet",
        f'sentinel auth-pass fleet "{PASSWORD.replace('"', '\\"')}"',
        "sentinel down-after-milliseconds fleet 1000",
        "sentinel failover-timeout fleet 3000",
    ]
    sentinels = [OwnValkey(tmp_path, f"sentinel-{n}", *watched, is_sentinel=True) for n in range(3)]
    async with AsyncExitStack() as stack:
        for server in (master, replica, *sentinels):
            await asyncio.to_thread(server.start)
            stack.callback(server.kill)
        connection = await stack.enter_async_context(
            connected(
                redis_sentinels=",".join(f"redis://127.0.0.1:{s.port}" for s in sentinels),
                redis_master="fleet",
                redis_sentinel_password=SENTINELS,
                redis_user="fleet",
                redis_password_file=in_file(tmp_path / "password", PASSWORD),
            )
        )
        await eventually(lambda: works(connection), "the master is found")

        async def is_followed() -> bool:
            # On a busy machine sentinels may change the master before the test does.
            with suppress(StateUnavailable):
                [info] = await connection.ask(["INFO", "replication"])
                return bool(info.get("slave0", {}).get("state") == "online")
            return False

        await eventually(is_followed, "the replica follows")
        for sentinel in sentinels:
            await eventually(partial(_knows_all, sentinel), f"{sentinel.name} knows all")
        await asyncio.to_thread(master.kill)
        await asyncio.to_thread(sentinels[0].kill)

        async def has_moved() -> bool:
            return await works(connection) and await _port_of(connection) == replica.port

        await eventually(has_moved, "the replica is the master")


async def _port_of(connection: Connection) -> int:
    with suppress(StateUnavailable):
        [info] = await connection.ask(["INFO", "server"])
        return int(info["tcp_port"])
    return 0


async def _knows_all(sentinel: OwnValkey) -> bool:
    """Whether a sentinel knows the two others and the replica."""
    reader, writer = await asyncio.open_connection("127.0.0.1", sentinel.port)
    writer.write(f"AUTH {SENTINELS}\r\nSENTINEL MASTER fleet\r\n".encode())
    answer = await reader.readuntil(b"parallel-syncs")
    writer.close()
    others = re.search(rb"num-other-sentinels\r\n\$\d\r\n(\d)", answer)
    replicas = re.search(rb"num-slaves\r\n\$\d\r\n(\d)", answer)
    return (others and others[1], replicas and replicas[1]) == (b"2", b"1")
