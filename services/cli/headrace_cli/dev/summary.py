"""What ``headrace dev`` prints once it is ready: the agents, their URLs and a command to try."""

import shlex
from typing import TYPE_CHECKING
from urllib.parse import quote

from headrace_cli.failures import RequestFailed
from headrace_cli.gateway import USUAL_URL, ask_gateway
from headrace_cli.tables import one_line

if TYPE_CHECKING:
    from headrace.client import AgentInfo, Client


async def summary(gateway: str) -> list[str]:
    """Return the lines about the agents at `gateway`; none if it lists no agents."""

    async def work(client: "Client") -> list[str]:
        agents = sorted(await client.agents(), key=lambda one: not one.is_default)
        return [*_urls(gateway, agents), await _try(client, gateway, agents[0])] if agents else []

    try:
        return [one_line(line) for line in await ask_gateway(gateway, None, work)]
    except (RequestFailed, LookupError, TypeError):  # such as an answer without access
        return []


def _urls(gateway: str, agents: "list[AgentInfo]") -> list[str]:
    width = max(len(one.name) for one in agents)
    return [
        f"  {one.name:{width}} {gateway}/v1/agents/{quote(one.name, safe='')}"
        f"{' (default)' if one.is_default else ''}"
        for one in agents
    ]


async def _try(client: "Client", gateway: str, agent: "AgentInfo") -> str:
    card = await client.card(agent.name)
    examples = (example for skill in card["skills"] for example in skill.get("examples", ()))
    words = ["headrace", "send"]
    words += [] if agent.is_default else ["--agent", agent.name]
    words += [] if gateway == USUAL_URL else ["--url", gateway]
    return f"try: {shlex.join([*words, next(examples, 'Hello')])}"
