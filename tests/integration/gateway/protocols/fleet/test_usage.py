"""Usage: an owner's own, and for operators their tenant's."""

import httpx
import pytest

from headrace.model.messages import GetUsage, UsageCounts, UsageFound
from headrace.model.names import encode_token
from tests.integration.gateway.protocols.fleet.conftest import OPERATOR, OpenRoleGateway
from tests.support.credentials import ANN
from tests.support.scripted_fleet import ScriptedFleet

PATH = "/v1/usage"
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
        answers = [
            await gateway.http.get(PATH, params=period, headers=person.bearer)
            for person in (ANN, OPERATOR)
        ]
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
