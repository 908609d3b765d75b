"""Operators see which webhooks have events to deliver, and why they were not delivered."""

import httpx
import pytest

from headrace.jetstream.connection import Bus
from headrace.model.task import TaskKey, mint_task_id
from headrace.webhooks import Address, TaskWebhook, WebhookProgress, Webhooks
from tests.integration.gateway.protocols.fleet.conftest import ONCALL, OPERATOR, OpenRoleGateway
from tests.support.clients.bindings import Json
from tests.support.credentials import ANN

PATH = "/v1/webhook-deliveries"
URL = "https://user:secret@hooks.example/path-secret?query=secret"


async def hooked(bus: Bus, tenant: str = "default", agent: str = "ask", **progress: object) -> str:
    """Store a webhook of a new task, which also queues it; return the task's id."""
    key = TaskKey(tenant, agent, mint_task_id(0))
    webhook = TaskWebhook(
        id="my hook",
        owner="ann",
        address=Address(url=URL, token="token-secret"),
        progress=WebhookProgress(generation=0),
    )
    webhooks = Webhooks(bus)
    await webhooks.put(key, webhook)
    kept = await webhooks.get(key, "my_20hook")
    assert kept is not None
    received = WebhookProgress.model_validate({"generation": 4, **progress})
    await webhooks.store_progress(key, "my_20hook", kept, received)
    return key.task


async def listed(http: httpx.AsyncClient, **query: str | int) -> Json:
    found: Json = (await http.get(PATH, params=query)).raise_for_status().json()
    return found


@pytest.mark.usefixtures("fleet")
async def test_a_queued_webhook_is_shown_with_its_last_error_and_without_secrets(
    http: httpx.AsyncClient, bus: Bus
) -> None:
    task = await hooked(bus, attempts=3, due=1_800_000_000.5, failure="the receiver answered 503")
    answer = await http.get(PATH, params={"task": task})
    [one] = answer.raise_for_status().json()["deliveries"]
    assert "secret" not in answer.text
    assert one.pop("queued").endswith("Z")
    assert isinstance(one.pop("id"), int)
    assert one == {
        "agent": "ask",
        "task": task,
        "webhook": "my hook",
        "owner": "ann",
        "receiver": "https://hooks.example",
        "delivered": 4,
        "attempts": 3,
        "due": "2027-01-15T08:00:00.500Z",
        "lastError": "the receiver answered 503",
    }


@pytest.mark.usefixtures("fleet")
async def test_webhooks_are_listed_by_page_agent_and_tenant(
    http: httpx.AsyncClient, bus: Bus
) -> None:
    agent = f"agent-{mint_task_id(0)[2:]}"
    tasks = [await hooked(bus, agent=agent) for _ in range(3)]
    await hooked(bus, tenant="other", agent=agent)
    first = await listed(http, agent=agent, limit=2)
    rest = await listed(http, agent=agent, limit=2, after=first["next"])
    assert [one["task"] for one in first["deliveries"] + rest["deliveries"]] == tasks
    assert (rest["next"], rest["deliveries"][0]["lastError"]) == (None, None)


@pytest.mark.usefixtures("fleet")
async def test_a_webhook_that_was_deleted_meanwhile_is_shown_without_its_record(
    http: httpx.AsyncClient, bus: Bus
) -> None:
    task = await hooked(bus)
    await Webhooks(bus).delete(TaskKey("default", "ask", task), "my_20hook")
    [one] = (await listed(http, task=task))["deliveries"]
    assert set(one) == {"id", "agent", "task", "webhook", "queued"}


@pytest.mark.parametrize("query", ["agent=a.b", "agent=>", "task=*.x", "limit=0", "after=x"])
async def test_a_query_that_breaks_a_rule_is_refused(http: httpx.AsyncClient, query: str) -> None:
    answer = await http.get(f"{PATH}?{query}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_input")


@pytest.mark.usefixtures("fleet")
async def test_only_operators_see_them(open_role_gateway: OpenRoleGateway) -> None:
    async with open_role_gateway(ONCALL, OPERATOR) as gateway:
        answers = [
            (await gateway.http.get(PATH, headers=headers)).status_code
            for headers in ({}, ANN.bearer, ONCALL.bearer, OPERATOR.bearer)
        ]
    assert answers == [401, 403, 403, 200]
