"""Usage: an owner's own, and for operators their tenant's."""

from pathlib import Path

import httpx
import pytest

from headrace.model.messages import GetUsage, UsageCounts, UsageFound
from headrace.model.subjects import encode_token
from headrace_gateway.settings import GatewaySettings
from tests.integration.gateway.protocols.fleet.conftest import OPERATOR, OpenRoleGateway
from tests.support.credentials import ANN
from tests.support.plain_a2a import message
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import running
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.servers import ports

PATH = "/v1/usage"
USER_MESSAGE = {"id": "m", "role": "user", "content": "hello"}
COUNTS = UsageCounts(
    owner="bob_40acme",
    agent="shop",
    input_tokens=7,
    output_tokens=2,
    tokens=9,
    cost=0.5,
    runs=1,
    run_seconds=1.5,
)


async def test_an_owner_sees_its_own_usage_and_an_operator_its_tenants(
    open_role_gateway: OpenRoleGateway, fleet: ScriptedFleet
) -> None:
    fleet.asked_usage.clear()
    fleet.usage = UsageFound(rows=[COUNTS])
    period = {"from": "2026-01-01", "to": "2026-01-31", "by": "owner,agent", "owner": "bob@acme"}
    async with open_role_gateway(OPERATOR) as gateway:
        assert (await gateway.http.get(PATH)).status_code == 401
        other = await gateway.http.get(PATH, params=period, headers=ANN.bearer)
        named = [period | {"owner": ANN.owner}, period]
        answers = [
            await gateway.http.get(PATH, params=one, headers=person.bearer)
            for one, person in zip(named, (ANN, OPERATOR), strict=True)
        ]
    assert other.status_code == 403
    assert "other owners" in other.json()["error"]["message"]
    wanted = GetUsage(
        tenant="acme",
        owner="bob_40acme",
        first="2026-01-01",
        last="2026-01-31",
        by=["owner", "agent"],
    )
    own = wanted.model_copy(update={"owner": encode_token(ANN.owner)})
    assert fleet.asked_usage == [own, wanted]
    assert answers[1].raise_for_status().json() == {
        "tenant": "acme",
        "owner": "bob@acme",
        "from": "2026-01-01",
        "to": "2026-01-31",
        "rows": [
            {
                "owner": "bob@acme",
                "agent": "shop",
                "inputTokens": 7,
                "outputTokens": 2,
                "tokens": 9,
                "cost": 0.5,
                "runs": 1,
                "runSeconds": 1.5,
            }
        ],
    }
    assert answers[0].raise_for_status().json()["owner"] == ANN.owner


async def test_without_parameters_it_is_todays_by_agent(
    http: httpx.AsyncClient, fleet: ScriptedFleet
) -> None:
    fleet.asked_usage.clear()
    (await http.get(PATH)).raise_for_status()
    [query] = fleet.asked_usage
    assert (query.first, query.by, query.owner) == (query.last, ["agent"], None)


@pytest.mark.parametrize("by", ["task", "agent,", "tenant,x"])
async def test_unknown_groups_are_refused(http: httpx.AsyncClient, by: str) -> None:
    answer = await http.get(PATH, params={"by": by})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == (
        "by: must be tenant, or some of day, owner, agent, root"
    )


async def test_a_task_beyond_a_quota_is_refused_in_the_protocols_own_terms(
    settings: GatewaySettings, fleet: ScriptedFleet, tmp_path: Path
) -> None:
    fleet.usage = UsageFound(rows=[COUNTS])
    file = tmp_path / "quotas.toml"
    file.write_text('[[quota]]\nname = "daily"\ntokens = 9\n')
    changed = {"quotas": file, "http_port": ports.pick(), "grpc_port": 0}
    begun = len(fleet.runs)
    async with (
        running(settings.model_copy(update=changed)) as url,
        httpx.AsyncClient(base_url=url, timeout=60, verify=NO_TLS) as http,
    ):
        path = "/v1/agents/assistant"
        a2a = await http.post(f"{path}/message:send", json={"message": message("hello")})
        run = {"threadId": "t", "runId": "r", "state": {}, "tools": [], "context": []}
        request = {**run, "forwardedProps": {}, "messages": [USER_MESSAGE]}
        agui = await http.post(f"{path}/ag-ui", json=request)
    assert (a2a.status_code, agui.status_code) == (429, 429)
    [info, *_] = a2a.json()["error"]["details"]
    assert info["reason"] == "QUOTA_EXCEEDED"
    assert agui.json()["error"]["code"] == "quota_exceeded"
    assert 0 < int(a2a.headers["Retry-After"]) <= 24 * 3600
    assert len(fleet.runs) == begun
