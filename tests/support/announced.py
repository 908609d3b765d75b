"""Read from the bus which workers have announced an agent."""

import asyncio
import json

import nats


def instances(nats_url: str, agent: str) -> set[str]:
    """Return the keys of the instances of `agent`; where a loop runs, call it in a thread."""
    return asyncio.run(_instances(nats_url, agent))


async def _instances(nats_url: str, agent: str) -> set[str]:
    client = await nats.connect(nats_url, inbox_prefix="_INBOX.operator")
    query = json.dumps({"subjects_filter": f"$KV.AGENTS.live.{agent}.*"}).encode()
    try:
        answer = await client.request("$JS.API.STREAM.INFO.KV_AGENTS", query, timeout=30)
    finally:
        await client.close()
    state = json.loads(answer.data).get("state", {})
    return set(state.get("subjects") or ())
