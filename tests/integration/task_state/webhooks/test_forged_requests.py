"""Webhooks that lead where they must not: into our own network, by whatever name."""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpcore
import pytest

from headrace.tasks.dead_letters import LetterFilter, Letters
from headrace_task_state.webhooks import network
from headrace_task_state.webhooks.network import AllowedDestinations
from tests.integration.task_state.webhooks.conftest import Hooked, Opening
from tests.support import certificates
from tests.support.receiver import HANG_UP, Receiver, receiving
from tests.support.waiting import eventually

type LookUp = Callable[..., Any]


async def refused(hooked: Hooked, url: str) -> str:
    """Return the dead letter's reason for a notification to `url`."""
    await hooked.hook(url)
    hooked.log.submit("hello")
    await hooked.store()
    found = Letters(hooked.fleet.bus)

    async def is_there() -> bool:
        return bool([letter async for letter in found.find(LetterFilter(task=hooked.log.key.task))])

    await eventually(is_there, "the notification is given up")
    [letter] = [letter async for letter in found.find(LetterFilter(task=hooked.log.key.task))]
    return letter.content.reason


def stand_in_for(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Have `names` stand for this machine."""
    usual: LookUp = socket.getaddrinfo

    def look_up(host: str, *args: Any, **more: Any) -> Any:  # noqa: ANN401
        return usual("127.0.0.1" if host in names else host, *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


@pytest.fixture
async def strict(open_fleet: Opening) -> Hooked:
    """A task of a fleet that reaches nothing but the public internet."""
    fleet = await open_fleet(push_allow="hooks.test")
    await fleet.start()
    return Hooked(fleet)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "0"],
)
@pytest.mark.parametrize("scheme", ["https", "http"])
async def test_our_own_machine_is_not_called_by_any_name(
    strict: Hooked, receiver: Receiver, scheme: str, host: str
) -> None:
    reason = await refused(strict, f"{scheme}://{host}:{receiver.port}/hook")
    assert "no address that webhooks may use" in reason
    assert not receiver.came


async def test_a_name_that_changes_what_it_stands_for_gains_nothing(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS rebinding: public when it is checked, loopback when it is connected to."""
    requests: list[str] = []
    connected: list[str] = []

    async def look_up(_: object, host: str, port: int) -> list[str]:
        assert port == receiver.port
        requests.append(host)
        return ["203.0.113.7"] if len(requests) > 1 else ["198.51.100.7", "127.0.0.1"]

    class Recording(httpcore.AnyIOBackend):
        async def connect_tcp(self, host: str, *_: Any, **__: Any) -> Any:  # noqa: ANN401
            connected.append(host)
            raise httpcore.ConnectError("nobody there")

    monkeypatch.setattr(network.GuardedNetwork, "_look_up", look_up)
    monkeypatch.setattr(network, "is_public", lambda address: address == "198.51.100.7")
    guarded = network.GuardedNetwork(AllowedDestinations(), public=True)
    guarded._network = Recording()
    with pytest.raises(httpcore.ConnectError):
        await guarded.connect_tcp("rebinding.test", receiver.port)
    # Asked once, and connected to the very address that was checked; never to the name.
    assert requests == ["rebinding.test"]
    assert connected == ["198.51.100.7"]
    with pytest.raises(network.AddressRefused):
        await guarded.connect_tcp("rebinding.test", receiver.port)
    assert connected == ["198.51.100.7"]


async def test_a_name_that_leads_to_us_on_its_second_look_up_is_not_connected_to(
    open_fleet: Opening, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As above, on the wire: whoever looked the name up again would come to `receiver`."""
    usual: LookUp = socket.getaddrinfo
    answers = ["127.0.0.2"]

    def look_up(host: str, *args: Any, **more: Any) -> Any:  # noqa: ANN401
        if host == "rebinding.test":
            host = answers.pop() if answers else "127.0.0.1"
        return usual(host, *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    fleet = await open_fleet(push_allow="127.0.0.2/32")
    await fleet.start()
    async with receiving(receiver.port, host="127.0.0.2") as allowed:
        # So that the second attempt needs a connection, and a look-up, of its own.
        allowed.plan["/hook"] = [HANG_UP]
        reason = await refused(Hooked(fleet), allowed.url("/hook", "rebinding.test"))
    assert "no address that webhooks may use" in reason
    assert [one.headers["host"] for one in allowed.came] == [f"rebinding.test:{receiver.port}"]
    assert not receiver.connections


async def test_what_is_checked_is_what_is_connected_to_with_the_name_in_the_request(
    strict: Hooked, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in_for(monkeypatch, "hooks.test")
    await strict.hook(receiver.url("/hook?a=1", "hooks.test"))
    strict.log.submit("hello")
    await strict.store()
    await receiver.until(lambda: receiver.came, "it is told")
    assert receiver.came[0].headers["host"] == f"hooks.test:{receiver.port}"
    assert receiver.came[0].path == "/hook?a=1"


async def test_tls_verifies_the_name_though_the_address_is_connected_to(
    open_fleet: Opening, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    certificate, tls = certificates.make(tmp_path, "hooks.test")
    requests: list[str | None] = []
    tls.sni_callback = lambda _, name, __: requests.append(name)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    stand_in_for(monkeypatch, "hooks.test", "other.test")
    fleet = await open_fleet(push_allow="127.0.0.0/8", push_attempts=1)
    await fleet.start()
    async with receiving(tls=tls) as receiver:
        trusted = Hooked(fleet)
        await trusted.hook(f"https://hooks.test:{receiver.port}/hook")
        trusted.log.submit("hello")
        await trusted.store()
        await receiver.until(lambda: receiver.came, "it is told")
        reason = await refused(Hooked(fleet), f"https://other.test:{receiver.port}/hook")
    assert requests == ["hooks.test", "other.test"]
    assert "certificate verify failed" in reason
    assert len(receiver.came) == 1


async def test_a_redirect_into_our_network_is_not_followed(
    open_fleet: Opening, receiver: Receiver
) -> None:
    fleet = await open_fleet(push_attempts=1)
    await fleet.start()
    receiver.plan["/hook"] = [307]
    receiver.headers["Location"] = f"http://127.0.0.1:{receiver.port}/secret"
    reason = await refused(Hooked(fleet), receiver.url())
    assert "redirects are not followed" in reason
    assert not receiver.on("/secret")


async def test_proxies_of_the_environment_are_not_used(
    open_fleet: Opening, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, receiver.url("/proxy"))
    fleet = await open_fleet(push_allow="10.0.0.0/8")
    await fleet.start()
    assert "no address" in await refused(Hooked(fleet), f"https://127.0.0.1:{receiver.port}/hook")
    assert not receiver.came
