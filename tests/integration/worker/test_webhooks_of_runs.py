"""A run's webhook: who has its URL wakes the run, once, through any gateway, and nobody else."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from headrace import RunContext, Webhook, agent
from headrace.model.sleep import asleep_until
from headrace.model.task import COMPLETED, FAILED
from headrace.model.wait import WebhookAddress
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.tasks.webhook_call import MOST_BYTES
from headrace_gateway.tasks.webhook_secrets import WebhookSecrets
from tests.integration.worker.conftest import Spawn, Working
from tests.integration.worker.test_sleeping import attempts, said
from tests.integration.worker.test_waits import BRISK, arrivals, asleep
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import own_settings, running
from tests.support.servers import NatsProcess
from tests.support.task_submitter import Task, TaskSubmitter
from tests.support.waiting import eventually


@agent
async def payee(ctx: RunContext) -> AsyncIterator[str]:
    """Tells its webhook's URL, and what was sent there."""
    yield await ctx.webhook("paid")
    await ctx.checkpoint(None)
    paid = await ctx.wait(Webhook("paid"))
    yield "\n" + json.dumps(
        {"type": paid.content_type, "headers": dict(paid.headers), "size": len(paid.body)}
    )
    yield f"\n{paid.text[:100]}"


@pytest.fixture
def gateway_settings(nats_server: NatsProcess, names: dict[str, str]) -> GatewaySettings:
    """Settings of a gateway of the test's own fleet."""
    return own_settings(nats_server.url, **names)


@pytest.fixture
async def http(gateway_settings: GatewaySettings) -> AsyncIterator[httpx.AsyncClient]:
    """A client of that gateway."""
    async with (
        running(gateway_settings) as url,
        httpx.AsyncClient(base_url=url, timeout=60, verify=NO_TLS) as http,
    ):
        yield http


async def url_of(task: Task) -> str:
    """Return the URL that the task tells, once it waits."""
    await asleep(task)
    return said(await task.entries()).partition("\n")[0]


def code(answer: httpx.Response) -> tuple[int, str]:
    """Return the status, and the error's code."""
    body: Any = answer.json()
    return answer.status_code, body.get("error", {}).get("code", "")


async def test_a_call_wakes_its_run_once_and_others_are_told(
    submitter: TaskSubmitter, working: Working, http: httpx.AsyncClient
) -> None:
    base = str(http.base_url)
    async with working(payee, timing=BRISK, public_url=base):
        first, second = await submitter.start("payee"), await submitter.start("payee")
        url, other = await url_of(first), await url_of(second)
        assert url != other
        headers = {
            "Content-Type": "text/plain",
            "X-Signature": "abc",
            "Authorization": "Bearer secret",
            "Cookie": "secret",
            "X-API-Key": "secret",
            "X-Forwarded-For": "10.0.0.1",
            "CF-Connecting-IP": "10.0.0.1",
        }
        answers = await asyncio.gather(
            *(http.post(url, content=f"call {n}", headers=headers) for n in range(8))
        )
        assert sorted(map(code, answers)) == [(202, ""), *[(409, "already_answered")] * 7]
        entries = await first.ended()
        _, told, text = said(entries).split("\n")
        won = next(n for n, one in enumerate(answers) if one.status_code == 202)
        assert text == f"call {won}"
        shown = json.loads(told)
        assert shown["type"] == "text/plain"
        assert shown["headers"]["x-signature"] == "abc"
        assert "secret" not in told
        assert "10.0.0.1" not in told
        assert (attempts(entries), arrivals(entries)) == (2, ["webhook/paid"])
        assert code(await http.post(url, content=b"late")) == (404, "not_waiting")
        assert not (await second.last()).ends_run


async def test_large_bodies_are_files_of_the_task_and_larger_ones_are_refused(
    submitter: TaskSubmitter, working: Working, http: httpx.AsyncClient
) -> None:
    async with working(payee, timing=BRISK, public_url=str(http.base_url)):
        task = await submitter.start("payee")
        url = await url_of(task)
        assert code(await http.post(url, content=b"x" * (MOST_BYTES + 1)))[0] == 413
        body = b'{"a": ' + b"1" * (MOST_BYTES - 10)
        assert (await http.post(url, content=body)).status_code == 202
        entries = await task.ended()
    assert entries[-1].stamp.state == COMPLETED
    assert json.loads(said(entries).split("\n")[1])["size"] == len(body)
    assert max(len(line) for entry in entries for line in entry.lines) < 10_000


async def test_who_has_no_url_learns_and_changes_nothing(
    submitter: TaskSubmitter, working: Working, http: httpx.AsyncClient
) -> None:
    async with working(payee, timing=BRISK, public_url=str(http.base_url)):
        task, other = await submitter.start("payee"), await submitter.start("payee")
        url, others = await url_of(task), await url_of(other)
        base, _, token = url.rpartition("/")
        named, _, signature = token.partition(".")
        others_signature = others.rpartition(".")[2]
        address = WebhookAddress.read(token)
        assert address is not None
        forged = [
            f"{named}.",
            f"{named}.{signature[:-1]}",
            f"{named}.{others_signature}",
            f"{others.rpartition('/')[2].partition('.')[0]}.{signature}",
            address._replace(name="other").token("").partition(".")[0] + f".{signature}",
            address._replace(run=2).token(""),
            address._replace(key=address.key._replace(tenant="acme")).token(""),
            address._replace(key=address.key._replace(task=f"0-{'0' * 32}")).token(""),
            address._replace(key=address.key._replace(task=">")).token(""),
            "x",
            "%ff.x",
            "é" * 100,
            "a" * 5000,
        ]
        for one in forged:
            assert code(await http.post(f"{base}/{one}", content=b"x")) == (404, "not_waiting"), one
        assert (await http.get(url)).status_code in {404, 405}
        assert arrivals(await task.entries()) == []
        assert (await http.post(url, content=b"x")).status_code == 202
        await task.ended()


@agent
async def talker(ctx: RunContext) -> AsyncIterator[str]:
    """Says much, and then waits; without a message it has no webhook."""
    if ctx.prompt:
        yield await ctx.webhook("paid")
    for _ in range(3):
        yield "\n" + "x" * 200_000
    await ctx.checkpoint(None)
    if not ctx.prompt:
        await ctx.sleep(1000)
    yield (await ctx.wait(Webhook("paid"))).text


@pytest.mark.parametrize("prompt", ["hello", ""])
async def test_forged_calls_do_not_have_a_log_read_again_and_again(
    submitter: TaskSubmitter, working: Working, prompt: str
) -> None:
    async with working(talker, timing=BRISK, public_url="http://gateway"):
        task = await submitter.start("talker", prompt)

        async def sleeps() -> bool:
            return asleep_until((await task.entries())[-1].events[-1]) is not None

        await eventually(sleeps, "it sleeps")
        secrets = WebhookSecrets(task.bus)
        first = await secrets.of(task.key, 1)
        assert (first is None) == (not prompt)
        received = task.bus.connection.stats
        before = received["in_bytes"]
        found = [await secrets.of(task.key, 1) for _ in range(20)]
        assert found == [first] * 20
        assert received["in_bytes"] - before < 200_000, "the log is three times as long"
        assert await secrets.of(task.key, 2) is None


async def test_a_url_is_the_same_after_a_kill_and_wakes_through_another_gateway(
    submitter: TaskSubmitter,
    spawn: Spawn,
    http: httpx.AsyncClient,
    gateway_settings: GatewaySettings,
) -> None:
    target = "tests.integration.worker.test_webhooks_of_runs:forgetful"
    worker = await asyncio.to_thread(spawn, target, public_url=str(http.base_url))
    task = await submitter.start("forgetful")
    url = await url_of(task)
    await asyncio.to_thread(worker.kill)
    await asyncio.to_thread(spawn, target, public_url=str(http.base_url))
    another = own_settings(
        gateway_settings.nats_url,
        prefix=gateway_settings.prefix,
        stream_prefix=gateway_settings.stream_prefix,
    )
    async with running(another) as base:
        path = httpx.URL(url).path
        assert (await http.post(f"{base}{path}", content=b"x")).status_code == 202
    assert said(await task.ended()).splitlines() == [url, "x"]


@agent
async def forgetful(ctx: RunContext) -> AsyncIterator[str]:
    """Tells its webhook's URL in each attempt."""
    yield f"{await ctx.webhook('paid')}\n"
    yield (await ctx.wait(Webhook("paid"))).text


async def test_a_worker_without_a_public_address_says_so(
    submitter: TaskSubmitter, working: Working
) -> None:
    async with working(payee):
        entries = await (await submitter.start("payee")).ended()
    assert entries[-1].stamp.state == FAILED
    assert "set HEADRACE_PUBLIC_URL for workers, too" in str(entries[-1].events[-1])
