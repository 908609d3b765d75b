"""The processes of `headrace dev`, which its gateways list and kill through its supervisor."""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from headrace_gateway.settings import GatewaySettings
from tests.integration.gateway.protocols.fleet.conftest import ONCALL, OPERATOR, OpenRoleGateway
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import running
from tests.support.servers import ports

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATH = "/v1/dev/processes"
KILL = f"{PATH}/worker/1:kill"
LISTED = {"processes": [{"role": "worker", "index": 1}]}


@pytest.fixture(scope="module")
def socket() -> Iterator[Path]:
    """Where the supervisor listens: a socket's path must be short."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "control"


@pytest.fixture(scope="module")
def options(socket: Path) -> dict[str, Any]:
    """What `headrace dev` sets."""
    return {"dev_control": socket, "cors_origins": "loopback"}


class Supervisor:
    """Stands in for the supervisor, and kills nothing."""

    def __init__(self) -> None:
        """Be asked nothing."""
        self.asked = list[dict[str, Any]]()
        self.answer: dict[str, Any] = LISTED

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        self.asked.append(json.loads(await reader.readline()))
        writer.write(json.dumps(self.answer).encode() + b"\n")
        await writer.drain()
        writer.close()


@pytest_asyncio.fixture(loop_scope="module")
async def supervisor(socket: Path) -> AsyncIterator[Supervisor]:
    """The supervisor at the gateway's socket."""
    supervisor = Supervisor()
    server = await asyncio.start_unix_server(supervisor.serve, socket)
    yield supervisor
    server.close()
    await server.wait_closed()


async def test_processes_are_listed_and_killed(
    http: httpx.AsyncClient, supervisor: Supervisor
) -> None:
    assert (await http.get(PATH)).json() == LISTED
    assert (await http.post(KILL)).json() == LISTED
    assert supervisor.asked == [{}, {"kill": {"role": "worker", "index": 1}}]


async def test_the_fleets_state_states_that_this_is_development(http: httpx.AsyncClient) -> None:
    assert (await http.get("/v1/fleet")).json()["development"] is True


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("init/1", "role: must be one of gateway, worker, task-state, triggers, nats, redis"),
        ("%2e%2e/1", "role: must be one of"),
        ("worker/-1", "index: must be a whole number from 0 to 63"),
        ("worker/64", "index: must be a whole number"),
        ("worker/1%0A", "index: must be a whole number"),
        ("worker/٣", "index: must be a whole number"),
    ],
)
async def test_what_can_be_no_process_is_refused_with_its_rule(
    http: httpx.AsyncClient, supervisor: Supervisor, path: str, rule: str
) -> None:
    answer = await http.post(f"{PATH}/{path}:kill")
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(rule)
    assert supervisor.asked == []


async def test_what_the_supervisor_refuses_is_not_found(
    http: httpx.AsyncClient, supervisor: Supervisor
) -> None:
    supervisor.answer = {"error": "worker-1 is not running"}
    answer = await http.post(KILL)
    error = {"code": "process_unknown", "message": "worker-1 is not running"}
    assert (answer.status_code, answer.json()["error"]) == (404, error)


async def test_a_supervisor_that_is_gone_is_unavailable(http: httpx.AsyncClient) -> None:
    answer = await http.post(KILL)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "supervisor_unavailable")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1", "Sec-Fetch-Mode": "navigate"},
        {"Origin": "http://127.0.0.1:1", "Sec-Fetch-Mode": "cors"},
        {"Origin": "http://localhost:1", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Host": "evil.example"},
    ],
)
async def test_no_page_of_another_origin_lists_or_kills_processes(
    http: httpx.AsyncClient, supervisor: Supervisor, headers: dict[str, str]
) -> None:
    assert (await http.post(KILL, headers=headers)).status_code == 403
    assert (await http.get(PATH, headers=headers)).status_code == 403
    assert supervisor.asked == []


async def test_the_gateways_own_pages_kill_a_process(
    http: httpx.AsyncClient, supervisor: Supervisor
) -> None:
    origin = str(http.base_url).rstrip("/")
    headers = {"Origin": origin, "Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-origin"}
    assert (await http.post(KILL, headers=headers)).json() == LISTED
    assert len(supervisor.asked) == 1


async def test_only_an_operator_kills_a_process(
    open_role_gateway: OpenRoleGateway, supervisor: Supervisor
) -> None:
    async with open_role_gateway(ONCALL, OPERATOR) as gateway:
        refused = await gateway.http.post(KILL, headers=ONCALL.bearer)
        assert refused.status_code == 403
        assert supervisor.asked == []
        assert (await gateway.http.post(KILL, headers=OPERATOR.bearer)).json() == LISTED


async def test_a_gateway_in_production_can_kill_nothing(
    settings: GatewaySettings, supervisor: Supervisor
) -> None:
    changed = {"http_port": ports.pick(), "grpc_port": 0, "dev_control": None}
    async with (
        running(settings.model_copy(update=changed)) as url,
        httpx.AsyncClient(base_url=url, timeout=60, verify=NO_TLS) as http,
    ):
        answers = [await http.get(PATH), await http.post(KILL), await http.get("/v1/fleet")]
        policy = (await http.get("/console/")).headers["Content-Security-Policy"]
    assert [answer.status_code for answer in answers] == [404, 404, 200]
    assert "development" not in answers[2].json()
    assert "connect-src 'self';" in policy
    assert supervisor.asked == []
