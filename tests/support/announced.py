"""Which workers have announced an agent, as the bus has it."""

import asyncio

import nats
from nats.js.errors import NoKeysError, NotFoundError


def instances(nats_url: str, agent: str) -> set[str]:
    """Return the keys of the live instances of `agent`; where a loop runs, call it in a thread."""
    return asyncio.run(_instances(nats_url, agent))


async def _instances(nats_url: str, agent: str) -> set[str]:
    client = await nats.connect(nats_url)
    try:
        bucket = await client.jetstream().key_value("AGENTS")
        return set(await bucket.keys(filters=[f"live.{agent}.*"]))
    except (NoKeysError, NotFoundError):
        return set()
    finally:
        await client.close()
