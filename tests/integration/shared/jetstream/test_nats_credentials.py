"""Every kind of credentials for NATS, on clusters that clients are told one server of."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from headrace.jetstream.connection import Bus
from headrace.jetstream.credentials import KeyPair
from headrace.model.errors import BusUnavailable
from headrace.settings import BusSettings
from tests.support.certificates import Authority
from tests.support.nats_accounts import Accounts
from tests.support.nats_seeds import seed_of
from tests.support.secured_nats import SecuredCluster, SecuredNats, quoted
from tests.support.waiting import eventually

PASSWORD = """a:b@c/d#e?f%41 "g" 'h',ü\\$1"""
TOKEN = "t:o@k/e n"


@asynccontextmanager
async def connected(**settings: object) -> AsyncIterator[Bus]:
    """Yield a connected bus; streams are left alone."""
    bus = Bus(BusSettings.model_validate({"startup_timeout": 30.0, **settings}))
    try:
        await bus.dial("credentials test")
        yield bus
    finally:
        await bus.close()


async def works(bus: Bus, timeout: float = 30.0) -> bool:
    """Whether JetStream answers on this connection."""
    try:
        return b'"memory"' in (await bus.request("$JS.API.INFO", b"", timeout)).data
    except BusUnavailable:
        return False


async def survive_the_seed(cluster: SecuredCluster, kinds: list[dict[str, object]]) -> None:
    """Connect by each of `kinds` to the first node, end it, and see that all go on elsewhere."""
    seed, *others = cluster.nodes
    refused = [node.refused() for node in others]
    async with AsyncExitStack() as stack:
        buses = [
            await stack.enter_async_context(connected(**{"nats_url": seed.url} | kind))
            for kind in kinds
        ]
        for bus in buses:
            await eventually(partial(works, bus), "JetStream answers")
        await asyncio.to_thread(seed.kill)
        for kind, bus in zip(kinds, buses, strict=True):
            await eventually(partial(_has_left, seed, bus), f"{list(kind)} goes on elsewhere")
    assert [node.refused() for node in others] == refused
    await asyncio.to_thread(cluster.heal)


async def _has_left(seed: SecuredNats, bus: Bus) -> bool:
    url = bus.connection.connected_url
    # What is asked while the nodes elect a leader is never answered.
    return url is not None and url.port != seed.port and await works(bus, 2.0)


@pytest.fixture(scope="module")
def user() -> tuple[str, str]:
    """An NKey's seed and public half."""
    raw = secrets.token_bytes(32)
    return seed_of(raw), KeyPair(raw).public


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, user: tuple[str, str]
) -> Iterator[SecuredCluster]:
    named = f"{{ user: {quoted('the fleet')}, password: {quoted(PASSWORD)} }}"
    security = (
        f"accounts {{ FLEET {{ jetstream: enabled, users: [ {named}, {{ nkey: {user[1]} }} ] }} }}"
    )
    with SecuredCluster(tmp_path_factory.mktemp("secured"), security) as running:
        yield running


def in_file(path: Path, text: str) -> Path:
    path.write_text(f"{text}\n", encoding="utf-8")
    return path


async def test_passwords_and_nkeys_are_shown_to_servers_learned_by_gossip(
    cluster: SecuredCluster, user: tuple[str, str], tmp_path: Path
) -> None:
    await survive_the_seed(
        cluster,
        [
            {"nats_user": "the fleet", "nats_password": PASSWORD},
            {
                "nats_user": "the fleet",
                "nats_password_file": in_file(tmp_path / "password", PASSWORD),
            },
            {"nats_nkey": user[0]},
            {"nats_nkey_file": in_file(tmp_path / "seed", user[0])},
        ],
    )


async def test_credentials_of_a_url_count_for_all_servers(cluster: SecuredCluster) -> None:
    login = "the%20fleet:" + "".join(f"%{byte:02x}" for byte in PASSWORD.encode())
    url = f"nats://{login}@127.0.0.1:{cluster.nodes[0].port}"
    await survive_the_seed(cluster, [{"nats_url": url}])


async def test_creds_and_client_certificates_are_shown_to_servers_learned_by_gossip(
    tmp_path: Path,
) -> None:
    authority, accounts = Authority(tmp_path), Accounts()
    server, key = authority.issue("server")
    mine, secret = authority.issue("client")
    tls = (
        f"tls {{ cert_file: {quoted(str(server))}, key_file: {quoted(str(key))}, "
        f"ca_file: {quoted(str(authority.file))}, verify: true }}"
    )
    by_files = {"nats_ca_file": authority.file, "nats_cert_file": mine, "nats_key_file": secret}
    as_text = {
        "nats_ca": authority.file.read_text(),
        "nats_cert": mine.read_text(),
        "nats_key": secret.read_text(),
    }
    with SecuredCluster(tmp_path / "cluster", f"{accounts.security}\n{tls}") as cluster:
        await survive_the_seed(
            cluster,
            [
                {"nats_creds_file": in_file(tmp_path / "a.creds", accounts.creds()), **by_files},
                {"nats_creds": accounts.creds(), **as_text},
            ],
        )


async def test_a_token_and_tls_from_the_first_byte(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server, key = authority.issue("server")
    security = (
        f"authorization {{ token: {quoted(TOKEN)} }}\n"
        f"tls {{ cert_file: {quoted(str(server))}, key_file: {quoted(str(key))}, "
        "handshake_first: true }"
    )
    with SecuredNats(tmp_path / "nats", security) as nats:
        tls = {"nats_ca_file": authority.file, "nats_tls_first": True}
        async with connected(nats_url=nats.url, nats_token=TOKEN, **tls) as bus:
            assert await works(bus)


async def test_credentials_are_never_sent_in_the_clear_with_a_certificate_authority(
    cluster: SecuredCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"nats_user": "the fleet", "nats_password": PASSWORD, "startup_timeout": 3.0}
    with pytest.raises(BusUnavailable, match="require TLS"):
        async with connected(
            nats_url=cluster.nodes[0].url, nats_ca_file=Authority(tmp_path).file, **settings
        ):
            pass
    assert PASSWORD not in caplog.text


async def test_a_server_of_another_authority_is_refused(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    server, key = other.issue("server")
    security = f"tls {{ cert_file: {quoted(str(server))}, key_file: {quoted(str(key))} }}"
    trusting = {"nats_ca_file": authority.file, "startup_timeout": 3.0}
    with (
        SecuredNats(tmp_path / "nats", security) as nats,
        pytest.raises(BusUnavailable, match="certificate verify failed"),
    ):
        async with connected(nats_url=nats.url, **trusting):
            pass


async def test_a_wrong_password_is_reported_once_and_never_shown(
    cluster: SecuredCluster, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"nats_user": "the fleet", "nats_password": "wr0ng-s3cret", "startup_timeout": 4.0}
    with pytest.raises(BusUnavailable, match="Authorization Violation") as refused:
        async with connected(nats_url=cluster.nodes[0].url, **settings):
            pass
    warnings = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert len([one for one in warnings if "NATS reported an error" in one]) == 1
    assert "wr0ng" not in f"{caplog.text}{refused.value!r}"


async def test_credentials_that_expire_are_read_anew(tmp_path: Path) -> None:
    accounts = Accounts()
    with SecuredNats(tmp_path / "nats", accounts.security) as nats:
        # As soon as the server runs, and so long that nobody connects too late.
        file = in_file(tmp_path / "user.creds", accounts.creds(lifetime=8))
        async with connected(nats_url=nats.url, nats_creds_file=file) as bus:
            await asyncio.to_thread(in_file, file, accounts.creds())

            async def is_back() -> bool:
                return bus.connection.stats["reconnects"] > 0 and await works(bus)

            await eventually(is_back, "it is connected with the new credentials")
