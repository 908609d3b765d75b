"""Webhooks that come with messages: stored with an admitted message, and with its first request."""

from collections.abc import AsyncIterator

import pytest

from headrace.tasks.admission import TooManyWaiting
from headrace.webhooks import Address, TaskWebhook, WebhookProgress
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.server.open_requests import OpenRequests
from headrace_gateway.services import Services
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.tasks.idempotency import KeyedRequest
from headrace_gateway.tasks.submission import Submission
from tests.support.memory_gateway import memory_services

CALLER = Caller()
SUBMISSION = Submission(
    CALLER,
    "echo",
    {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]},
    keyed=KeyedRequest(CALLER, "echo", "key", "fingerprint"),
    webhook=TaskWebhook(
        id="hook",
        owner=CALLER.owner,
        address=Address(url="https://hooks.example/"),
        progress=WebhookProgress(generation=0),
    ),
)


@pytest.fixture
async def services() -> AsyncIterator[Services]:
    async with memory_services(OpenRequests(), GatewaySettings()) as services:
        yield services


async def test_a_repeated_message_does_not_store_its_webhook_again(services: Services) -> None:
    async with await services.submissions.submit(SUBMISSION) as first:
        key = first.key
    assert [webhook.id for webhook in await services.webhooks.list(key)] == ["hook"]
    await services.webhooks.delete(key, "hook")
    async with await services.submissions.submit(SUBMISSION) as second:
        assert (second.key, second.is_replay) == (key, True)
    assert await services.webhooks.list(key) == []


async def test_a_refused_message_stores_no_webhook() -> None:
    full = GatewaySettings(max_waiting_per_agent=0)
    async with memory_services(OpenRequests(), full) as services:
        with pytest.raises(TooManyWaiting):
            await services.submissions.submit(SUBMISSION)
        assert await services.webhooks.tasks() == {}
