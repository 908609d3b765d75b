"""Schedules fire on a stack of processes of which some are killed."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import httpx
import pytest

from headrace.client import Client, ClientTask
from headrace.model.task_report import TERMINAL_NAMES
from tests.support.event_stream import Json
from tests.support.plain_a2a import PlainAgent
from tests.support.stack import BASIC_AGENTS, Stack
from tests.support.waiting import eventually


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    with Stack(tmp_path, triggers=2, agents=BASIC_AGENTS).start() as stack:
        yield stack


async def begun(client: Client, name: str, least: int) -> Json:
    """Return the schedule once it has begun `least` tasks."""

    async def look() -> Json | None:
        found = await client.schedules.get(name)
        return found if found["began"] >= least else None

    return await eventually(look, f"{name} has begun {least} tasks")


async def until_ended(client: Client, task: ClientTask) -> Json:
    """Return a task of `client` once it is over."""

    async def look() -> Json | None:
        found = await client.get("echo", task.id)
        return found.task if found.state in TERMINAL_NAMES else None

    return await eventually(look, f"task {task.id} is over")


def echo(name: str, **when: str) -> Json:
    """Return a schedule that sends its name to the echo agent."""
    return {"name": name, "agent": "echo", "message": name, **when}


async def tasks_of(agent: PlainAgent, text: str) -> list[str]:
    """Return the ids of the agent's tasks that began with `text`."""
    return [
        task["id"]
        for task in await agent.tasks(historyLength=1)
        if task["history"][0]["parts"][0]["text"] == text
    ]


async def test_no_firing_begins_two_tasks_while_triggers_and_nats_are_killed(
    stack: Stack, http: httpx.AsyncClient
) -> None:
    agent = PlainAgent(http, stack.url, "echo")
    soon = datetime.now(UTC) + timedelta(seconds=3)
    async with Client(stack.url) as client:
        await client.schedules.apply(echo("every", every="1s"))
        await client.schedules.apply(echo("cron", cron="*/2 * * * * *"))
        await client.schedules.apply(echo("once", at=soon.isoformat()))
        delayed = [await client.send("echo", "later", start_at=soon) for _ in range(5)]
        await begun(client, "cron", 1)
        triggers, nats = stack.kill("triggers"), stack.kill("nats")
        await asyncio.to_thread(stack.until_restarted, "triggers", 0, triggers)
        await asyncio.to_thread(stack.until_restarted, "nats", 0, nats)
        before = (await client.schedules.get("every"))["began"]
        await begun(client, "every", before + 2)
        await begun(client, "cron", 3)
        once = await begun(client, "once", 1)
        for name in ("every", "cron"):
            await client.schedules.pause(name)

        async def settled(name: str) -> Json | None:
            ids = await tasks_of(agent, name)
            found = await client.schedules.get(name)
            # A firing that was under way when the schedule was paused may still begin its task.
            return found if len(ids) == found["began"] else None

        every = await eventually(partial(settled, "every"), "every has settled")
        await eventually(partial(settled, "cron"), "cron has settled")
        ended = [await until_ended(client, one) for one in delayed]
        assert len(await tasks_of(agent, "once")) == 1
    assert {one["status"]["state"] for one in ended} == {"TASK_STATE_COMPLETED"}
    ends = [datetime.fromisoformat(one["status"]["timestamp"]) for one in ended]
    assert min(ends) > soon - timedelta(milliseconds=1)
    assert (once["state"], once["ended"]) == ("ended", "it has fired")
    tasks = [one["task"] for one in every["firings"] if one["outcome"] == "began"]
    assert len(set(tasks)) == len(tasks)
