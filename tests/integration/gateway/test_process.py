"""The gateway as a process: starting, waiting, failing, stopping."""

import asyncio
import os
import secrets
import signal
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from headrace import service
from headrace.model.errors import StreamsDiffer
from headrace_gateway import main
from headrace_gateway.protocols.a2a.errors import RETRY_INFO_TYPE
from headrace_gateway.protocols.a2a.grpc.server import GrpcServer
from headrace_gateway.server.listeners import Unprotected, check_exposure
from headrace_gateway.settings import GatewaySettings
from tests.support.clients.bindings import message
from tests.support.forked_process import HEADRACE, start_service
from tests.support.plain_http import NO_TLS
from tests.support.resuming_sizes import sized
from tests.support.running_gateway import until_ready
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.servers import ports
from tests.support.waiting import eventually, until

NOWHERE = "nats://127.0.0.1:1"
WITHIN = float(sized(20, 5))
"""Seconds: what is promised to a machine of its own; others are given time."""


class Gateway:
    """`headrace gateway` with an environment of its own."""

    def __init__(self, folder: Path, **settings: object) -> None:
        """Start it; what it says goes to a file in `folder`."""
        self._port = settings.setdefault("http_port", ports.pick())
        settings.setdefault("grpc_port", 0)
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("HEADRACE_")}
        given = {f"HEADRACE_{name.upper()}": str(value) for name, value in settings.items()}
        self._log = folder / f"gateway-{secrets.token_hex(2)}.log"
        self.process = start_service(
            [str(HEADRACE), "gateway"], self._log, environment=inherited | given
        )

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._port}"

    def log(self) -> str:
        """Return what it said."""
        return self._log.read_text()

    def status(self, path: str) -> int:
        """Return the status of a page; 0: nobody listens."""
        try:
            return httpx.get(self.url + path, timeout=60, verify=NO_TLS).status_code
        except httpx.TransportError:
            return 0

    def ends(self, timeout: float = 60.0) -> int:
        """Return its exit code."""
        return self.process.wait(timeout)


@contextmanager
def started(folder: Path, **settings: object) -> Iterator[Gateway]:
    gateway = Gateway(folder, **settings)
    try:
        yield gateway
    finally:
        if gateway.process.poll() is None:
            gateway.process.kill()
            gateway.process.wait(60)


def bus_of(settings: GatewaySettings) -> dict[str, object]:
    return {
        "nats_url": settings.nats_url,
        "prefix": settings.prefix,
        "stream_prefix": settings.stream_prefix,
    }


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_within_seconds_although_streams_are_open(
    tmp_path: Path, settings: GatewaySettings, fleet: ScriptedFleet, number: int
) -> None:
    with started(tmp_path, **bus_of(settings)) as gateway:
        async with httpx.AsyncClient(base_url=gateway.url, timeout=60, verify=NO_TLS) as http:
            await until_ready(http)
            async with http.stream(
                "POST", "/v1/agents/patient/message:stream", json=message()
            ) as response:
                lines = response.aiter_lines()
                assert (await anext(lines)).startswith("id: ")
                blocked = asyncio.create_task(
                    http.post("/v1/agents/patient/message:send", json=message())
                )

                async def both_work() -> bool:
                    return len(fleet.runs) == 2

                await eventually(both_work, "the agent works on both")
                request = time.monotonic()
                gateway.process.send_signal(number)
                rest = [line async for line in lines]
                assert any(line.startswith("retry: ") for line in rest)
                answer = await blocked
                assert answer.status_code == 503
                (detail,) = answer.json()["error"]["details"]
                run = fleet.runs[1]
                assert detail["reason"] == "UNAVAILABLE"
                assert detail["metadata"] == {"taskId": run.key.task, "contextId": run.context}
                assert "continues" in answer.json()["error"]["message"]
                assert "retry-after" not in answer.headers
        assert await asyncio.to_thread(gateway.ends) == 0
        assert time.monotonic() - request < WITHIN
        assert "Traceback" not in gateway.log()


async def test_a_start_that_fails_is_no_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The HTTP server ends before gRPC's does."""
    stop = service.Stop()

    @asynccontextmanager
    async def refused(*_: object) -> AsyncIterator[None]:
        if not stop.is_set():
            raise StreamsDiffer("the streams differ")
        yield

    ends = GrpcServer.stop

    async def ends_last(server: GrpcServer) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), 0.5)
        await ends(server)

    monkeypatch.setattr(main, "composed", refused)
    monkeypatch.setattr(GrpcServer, "stop", ends_last)
    settings = GatewaySettings(http_port=0, grpc_port=0)
    with pytest.raises(StreamsDiffer):
        await service.serve(lambda stopping: main.serving(settings, stopping), stop)


@pytest.mark.parametrize("setting", ["http_port", "grpc_port"])
def test_a_taken_port_is_one_clear_line(tmp_path: Path, setting: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with started(tmp_path, **{setting: port}, nats_url=NOWHERE) as gateway:
            assert gateway.ends() == 1
    (line,) = gateway.log().splitlines()
    assert f"127.0.0.1:{port}" in line
    assert "in use" in line
    assert f"HEADRACE_{setting.upper()}" in line


def test_a_setting_that_does_not_fit_is_one_clear_line(tmp_path: Path) -> None:
    for name, value in (("http_port", "http"), ("keepalive", "-1"), ("log_level", "loud")):
        with started(tmp_path, **{"http_port": 0, "nats_url": NOWHERE, name: value}) as gateway:
            assert gateway.ends() == os.EX_CONFIG
        (line,) = gateway.log().splitlines()
        assert f"HEADRACE_{name.upper()}" in line


@pytest.mark.parametrize(
    ("setting", "value", "reason"),
    [
        ("nats_nkey", "SUGARBAGE", "not an NKey seed"),
        ("nats_creds", "SUGARBAGE", "no JWT with an NKey seed"),
        ("nats_ca", "-----BEGIN CERTIFICATE-----", "no PEM certificate"),
    ],
)
def test_an_unusable_key_or_certificate_is_one_clear_line(
    tmp_path: Path, setting: str, value: str, reason: str
) -> None:
    with started(tmp_path, nats_url=NOWHERE, **{setting: value}) as gateway:
        assert gateway.ends() == os.EX_CONFIG
    (line,) = gateway.log().splitlines()
    assert f"HEADRACE_{setting.upper()}" in line
    assert reason in line
    assert "SUGARBAGE" not in line


def test_all_invalid_and_misspelt_settings_are_named(tmp_path: Path) -> None:
    wrong = {"http_port": "many", "keepalive": "-", "retenton": "secret"}
    with started(tmp_path, nats_url=NOWHERE, **wrong) as gateway:
        assert gateway.ends() == os.EX_CONFIG
    misspelt, *invalid = gateway.log().splitlines()
    assert misspelt == "HEADRACE_RETENTON is not a setting; did you mean HEADRACE_RETENTION?"
    assert {line.split(":")[0] for line in invalid} == {"HEADRACE_HTTP_PORT", "HEADRACE_KEEPALIVE"}


def test_while_it_waits_for_nats_it_lives_and_refuses(tmp_path: Path) -> None:
    with started(tmp_path, nats_url=NOWHERE) as gateway:
        until(lambda: gateway.status("/healthz") == 200, "it says that it lives")
        assert gateway.status("/readyz") == 503
        refused = httpx.post(
            f"{gateway.url}/message:send", json=message(), timeout=60, verify=NO_TLS
        )
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        *_, retry_info = refused.json()["error"]["details"]
        assert retry_info == {"@type": RETRY_INFO_TYPE, "retryDelay": "1s"}


def test_it_waits_for_nats_aloud_and_not_for_ever(tmp_path: Path) -> None:
    with started(tmp_path, nats_url=NOWHERE, startup_timeout=8) as gateway:
        assert gateway.ends() == 1
    first, *_, last = gateway.log().splitlines()
    assert f"waiting for NATS at {NOWHERE}" in first
    assert "did not answer within 8 s" in last
    assert "Traceback" not in gateway.log()


def test_a_signal_ends_the_waiting_too(tmp_path: Path) -> None:
    with started(tmp_path, nats_url=NOWHERE) as gateway:
        until(lambda: "waiting for NATS" in gateway.log(), "it waits")
        gateway.process.send_signal(signal.SIGTERM)
        assert gateway.ends() == 0


def test_without_credentials_a_gateway_listens_on_loopback_only(tmp_path: Path) -> None:
    with started(tmp_path, nats_url=NOWHERE, http_host="0.0.0.0") as gateway:  # noqa: S104 - refused
        assert gateway.ends() == os.EX_CONFIG
        assert "HEADRACE_CREDENTIALS is not set" in gateway.log()
        assert "HEADRACE_ALLOW_ANONYMOUS=true" in gateway.log()
        assert gateway.status("/healthz") == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_on_loopback_a_gateway_needs_no_credentials(host: str) -> None:
    check_exposure(GatewaySettings(http_host=host))


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "::", "", "10.0.0.1", "agents.test"],  # noqa: S104 - not listened on
)
def test_elsewhere_it_needs_them_or_a_word(
    host: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(Unprotected):
        check_exposure(GatewaySettings(http_host=host))
    check_exposure(GatewaySettings(http_host=host, credentials=tmp_path / "credentials.toml"))
    assert caplog.text == ""
    check_exposure(GatewaySettings(http_host=host, allow_anonymous=True))
    [warning] = caplog.records
    assert warning.levelname == "WARNING"
    assert "any client that reaches it may call" in warning.getMessage()
