"""Requests of tests to JetStream's API that also wait for a leader election."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import nats.errors
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js.errors import NoStreamResponseError, ServiceUnavailableError

from tests.support.waiting import eventually

type Json = dict[str, Any]

_TIMEOUT = 5.0


async def until_settled(client: Client, stream: str) -> None:
    """Return once `stream` has a leader and every copy on a node that runs has caught up.

    Raises:
        AssertionError: that does not happen.
    """
    seen: Json = {}

    async def is_settled() -> bool:
        answer = await ask(client, f"$JS.API.STREAM.INFO.{stream}")
        seen.clear()
        seen.update(answer.get("cluster", answer) or {})
        copies = [each for each in seen.get("replicas") or [] if not each.get("offline")]
        return "state" in answer and all(each["current"] for each in copies)

    try:
        await eventually(is_settled, f"stream {stream} has settled")
    except AssertionError as error:
        raise AssertionError(f"{error}; last seen: {seen}") from None


async def ask(client: Client, subject: str, query: Json | None = None) -> Json:
    """Return the answer of JetStream's API; empty: there is none, as while nobody leads."""
    body = b"" if query is None else json.dumps(query).encode()
    try:
        answer = await client.request(subject, body, timeout=_TIMEOUT)
    except (TimeoutError, NatsError):
        return {}
    content: Json = json.loads(answer.data)
    return content


async def answered[T](request: Callable[[], Awaitable[T]]) -> T:
    """Return what a request of nats-py's returns, made again while nobody leads.

    For requests that may be carried out twice.

    Raises:
        AssertionError: Nobody answered within a minute.
    """
    answers = list[T]()

    async def is_answered() -> bool:
        try:
            answers.append(await request())
        except (nats.errors.TimeoutError, ServiceUnavailableError, NoStreamResponseError):
            return False
        return True

    await eventually(is_answered, "JetStream answers")
    return answers[0]


async def leader_of(client: Client, info: str) -> str:
    """Return the name of the node that leads a stream or consumer, once one does.

    `info` is how JetStream is asked for it: ``STREAM.INFO.EVENTS``.
    """
    leaders: list[str] = []

    async def is_known() -> bool:
        answer = await ask(client, f"$JS.API.{info}")
        leaders.append(answer.get("cluster", {}).get("leader", ""))
        return bool(leaders[-1])

    await eventually(is_known, f"{info} names a leader")
    return leaders[-1]
