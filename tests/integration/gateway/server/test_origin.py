"""Pages of other sites may not call; listed ones and our own may."""

from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from headrace_gateway.settings import GatewaySettings
from tests.support.clients.bindings import message
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import running
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.servers import ports

LISTED = "https://app.example"


@pytest_asyncio.fixture(loop_scope="module")
async def listing(
    settings: GatewaySettings, one_fleet: ScriptedFleet
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a gateway that lets the pages of LISTED call."""
    assert one_fleet.working
    changed = {"cors_origins": [LISTED], "http_port": ports.pick(), "grpc_port": 0}
    async with (
        running(settings.model_copy(update=changed)) as url,
        httpx.AsyncClient(base_url=url, timeout=60, verify=NO_TLS) as http,
    ):
        yield http


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", "x"])
@pytest.mark.parametrize("path", ["/", "/message:send", "/v1/agents/ask/message:stream"])
async def test_a_foreign_page_cannot_post_to_loopback(
    http: httpx.AsyncClient, fleet: ScriptedFleet, path: str, origin: str
) -> None:
    # What a page can send without being asked for permission first.
    headers = {"Origin": origin, "Content-Type": "text/plain"}
    response = await http.post(path, json=message(), headers=headers)
    assert response.status_code == 403
    assert response.json()["error"]["status"] == "PERMISSION_DENIED"
    assert "access-control-allow-origin" not in response.headers
    assert fleet.runs == []


async def test_a_foreign_page_cannot_read_nor_ask_whether_it_may(http: httpx.AsyncClient) -> None:
    foreign = {"Origin": "https://evil.example"}
    assert (await http.get("/v1/agents", headers=foreign)).status_code == 403
    asking = foreign | {"Access-Control-Request-Method": "POST"}
    assert (await http.options("/message:send", headers=asking)).status_code == 403
    plain = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    assert (await http.get("/v1/agents", headers=plain)).status_code == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none"])
@pytest.mark.parametrize("mode", ["navigate", "no-cors"])
async def test_a_page_starts_no_work_by_a_plain_get(
    http: httpx.AsyncClient, fleet: ScriptedFleet, site: str, mode: str
) -> None:
    headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}
    response = await http.get("/message:stream?message=hello", headers=headers)
    assert response.status_code == 403
    assert response.json()["error"]["status"] == "PERMISSION_DENIED"
    assert fleet.runs == []
    own = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}
    assert (await http.get("/message:stream?message=hello", headers=own)).is_success
    assert (await http.get("/message:stream?message=hello")).is_success


async def test_our_own_pages_and_programs_may(http: httpx.AsyncClient, gateway: str) -> None:
    own = {"Origin": gateway, "Sec-Fetch-Site": "same-origin"}
    assert (await http.post("/message:send", json=message(), headers=own)).is_success
    typed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert (await http.get("/", headers=typed)).is_success
    assert (await http.post("/message:send", json=message())).is_success


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", ""]
)
async def test_a_name_that_was_turned_to_loopback_is_not_ours(
    http: httpx.AsyncClient, host: str
) -> None:
    response = await http.get("/v1/agents", headers={"Host": host, "Origin": f"http://{host}"})
    assert response.status_code == 403
    assert "HEADRACE_ALLOWED_HOSTS" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:80", "127.0.0.1", "[::1]:9", "a.localhost"]
)
async def test_loopbacks_own_names_are_ours(http: httpx.AsyncClient, host: str) -> None:
    assert (await http.get("/v1/agents", headers={"Host": host})).is_success


async def test_named_hosts_are_ours(settings: GatewaySettings) -> None:
    changed = {
        "allowed_hosts": ["gateway.lan"],
        "public_url": "https://agents.example",
        "http_port": ports.pick(),
        "grpc_port": 0,
    }
    async with (
        running(settings.model_copy(update=changed)) as url,
        httpx.AsyncClient(base_url=url, timeout=60, verify=NO_TLS) as http,
    ):
        for host in ("gateway.lan:8080", "agents.example"):
            assert (await http.get("/v1/agents", headers={"Host": host})).is_success
        public = {"Host": "127.0.0.1", "Origin": "https://agents.example"}
        assert (await http.get("/v1/agents", headers=public)).is_success


async def test_a_listed_page_may_call_and_see_what_it_needs(listing: httpx.AsyncClient) -> None:
    asking = {
        "Origin": LISTED,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "a2a-version, content-type, last-event-id",
    }
    permission = await listing.options("/message:send", headers=asking)
    assert permission.is_success
    assert permission.headers["access-control-allow-origin"] == LISTED
    assert "last-event-id" in permission.headers["access-control-allow-headers"]
    answer = await listing.post("/message:send", json=message(), headers={"Origin": LISTED})
    assert answer.is_success
    assert answer.headers["access-control-allow-origin"] == LISTED
    assert "Headrace-Recovered" in answer.headers["access-control-expose-headers"]
    refused = await listing.get("/tasks/none", headers={"Origin": LISTED})
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (404, LISTED)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/agents"),
        ("POST", "/message:send"),
        ("PUT", "/v1/schedules/daily"),
        ("PUT", "/v1/triggers/orders"),
        ("DELETE", "/v1/triggers/orders"),
    ],
)
async def test_a_listed_page_may_use_every_method(
    listing: httpx.AsyncClient, method: str, path: str
) -> None:
    asking = {"Origin": LISTED, "Access-Control-Request-Method": method}
    permission = await listing.options(path, headers=asking)
    assert permission.is_success
    assert method in permission.headers["access-control-allow-methods"].split(", ")
    answer = await listing.request(method, path, headers={"Origin": LISTED})
    assert answer.status_code != 405
    assert answer.headers["access-control-allow-origin"] == LISTED


async def test_a_listed_page_may_read_a_stream(listing: httpx.AsyncClient) -> None:
    origin = {"Origin": LISTED}
    async with listing.stream("POST", "/message:stream", json=message(), headers=origin) as answer:
        assert answer.headers["access-control-allow-origin"] == LISTED
        exposed = answer.headers["access-control-expose-headers"]
        assert {"Headrace-Recovered", "Headrace-Task"} <= set(exposed.split(", "))
        assert "COMPLETED" in (await answer.aread()).decode()


async def test_caches_learn_that_responses_differ_by_origin(listing: httpx.AsyncClient) -> None:
    assert (await listing.get("/v1/agents")).headers["vary"].endswith("Origin")
    # A cache keeps no response to a POST.
    posted = await listing.post("/message:send", json=message())
    assert posted.is_success
    assert "vary" not in posted.headers


async def test_other_pages_may_not_where_some_are_listed(listing: httpx.AsyncClient) -> None:
    foreign = {"Origin": "https://app.example.evil.example"}
    assert (await listing.get("/v1/agents", headers=foreign)).status_code == 403
