"""The list of the tasks of all agents: who sees which, and what is refused."""

import httpx
import pytest

from headrace.model.messages import RowsFound, TaskRow
from headrace.model.subjects import encode_token
from tests.integration.gateway.protocols.fleet.conftest import (
    ASK_ONCALL,
    FAQ,
    ONCALL,
    OpenRoleGateway,
)
from tests.support.credentials import ANN
from tests.support.scripted_fleet import ScriptedFleet

PATH = "/v1/tasks"
_WAITS = "TASK_STATE_INPUT_REQUIRED"
_ROW = TaskRow(
    id="3-0123",
    agent="ask",
    owner="bob_40acme",
    context="c",
    state=_WAITS,
    time="2026-01-31T12:00:00.123Z",
    title="refund 7",
    text="Pay?",
    question={"state": _WAITS},
)


async def test_callers_list_their_own_tasks_and_operators_those_of_all(
    open_role_gateway: OpenRoleGateway, fleet: ScriptedFleet
) -> None:
    fleet.asked_rows.clear()
    fleet.rows = RowsFound(
        tasks=[_ROW],
        counts={_WAITS: 1},
        total_size=1,
        next_page_token="further",
        searched_to="2026-01-31T11:00:00+00:00",
    )
    filters = {"agent": ["ask", "nobody's"], "status": _WAITS, "q": " refund ", "order": "oldest"}
    async with open_role_gateway(FAQ, ONCALL, ASK_ONCALL) as gateway:
        assert (await gateway.http.get(PATH)).status_code == 401
        for person in (ANN, FAQ, ONCALL, ASK_ONCALL):
            await gateway.http.get(PATH, headers=person.bearer)
        answer = await gateway.http.get(PATH, params=filters, headers=ASK_ONCALL.bearer)
        await gateway.http.get(PATH, params={"own": "true"}, headers=ONCALL.bearer)
        others = {"owner": "bob@acme"}
        refused = await gateway.http.get(PATH, params=others, headers=ANN.bearer)
        await gateway.http.get(PATH, params=others, headers=ONCALL.bearer)
        none = await gateway.http.get(PATH, params={"agent": "ask"}, headers=FAQ.bearer)
    assert refused.status_code == 403
    nothing = {"tasks": [], "counts": {}, "totalSize": 0, "next": None, "searchedTo": None}
    assert none.json() == nothing
    ann, faq, oncall, ask_oncall, filtered, own, bobs = fleet.asked_rows
    assert (ann.tenant, ann.owner, ann.any_owner) == ("acme", encode_token(ANN.owner), False)
    assert len(ann.agents) > 1
    assert faq.agents == ["assistant"]
    assert oncall.any_owner
    assert (ask_oncall.agents, ask_oncall.any_owner) == (["ask"], True)
    assert (filtered.agents, filtered.states) == (["ask"], [_WAITS])
    assert (filtered.text, filtered.oldest_first) == ("refund", True)
    assert (own.owner, own.any_owner) == (encode_token(ONCALL.owner), False)
    assert (bobs.owner, bobs.any_owner) == ("bob_40acme", False)
    assert answer.json() == {
        "tasks": [
            {
                "id": "3-0123",
                "agent": "ask",
                "owner": "bob@acme",
                "contextId": "c",
                "state": _WAITS,
                "time": "2026-01-31T12:00:00.123Z",
                "title": "refund 7",
                "text": "Pay?",
                "status": {"state": _WAITS},
            }
        ],
        "counts": {_WAITS: 1},
        "totalSize": 1,
        "next": "further",
        "searchedTo": "2026-01-31T11:00:00+00:00",
    }


@pytest.mark.parametrize(
    ("parameter", "value", "rule"),
    [
        ("status", "WORKING", "must be one of TASK_STATE_"),
        ("own", "yes", "must be true or false"),
        ("order", "random", "must be one of newest, oldest"),
        ("limit", "201", "must be a whole number from 1 to 200"),
        ("q", "x" * 201, "must not be longer than 200 characters"),
        ("statusTimestampAfter", "today", "must be an RFC 3339 timestamp"),
    ],
)
async def test_a_wrong_parameter_is_named_with_its_rule(
    http: httpx.AsyncClient, fleet: ScriptedFleet, parameter: str, value: str, rule: str
) -> None:
    fleet.asked_rows.clear()
    answer = await http.get(PATH, params={parameter: value})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(f"{parameter}: {rule}")
    assert fleet.asked_rows == []
