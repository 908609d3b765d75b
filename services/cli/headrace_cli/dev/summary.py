"""What ``headrace dev`` prints once it is ready: the agents, their URLs and a command to try."""

import shlex
from collections.abc import Iterator

from headrace_cli.client import Dropped, GatewayClient, Json, agent_path
from headrace_cli.failures import RequestFailed
from headrace_cli.tables import one_line

_USUAL_URL = "http://127.0.0.1:8080"
"""Where ``headrace send`` looks without ``--url``."""


def summary(gateway: str) -> list[str]:
    """Return the lines about the agents at `gateway`; none if it lists no agents."""
    client = GatewayClient(gateway)
    try:
        agents = sorted(client.get("/v1/agents")["agents"], key=lambda one: not one["default"])
        if not agents:
            return []
        return [one_line(line) for line in _lines(client, agents)]
    except (Dropped, RequestFailed, LookupError, TypeError):  # such as an answer without access
        return []


def _lines(client: GatewayClient, agents: list[Json]) -> Iterator[str]:
    width = max(len(one["id"]) for one in agents)
    for one in agents:
        remark = " (default)" if one["default"] else ""
        yield f"  {one['id']:{width}} {client.url}{agent_path(one['id'])}{remark}"
    yield f"try: {_command(client, agents[0])}"


def _command(client: GatewayClient, agent: Json) -> str:
    card = client.get(f"{agent_path(agent['id'])}/.well-known/agent-card.json")
    examples = (example for skill in card["skills"] for example in skill.get("examples", ()))
    words = ["headrace", "send"]
    words += [] if agent["default"] else ["--agent", agent["id"]]
    words += [] if client.url == _USUAL_URL else ["--url", client.url]
    return shlex.join([*words, next(examples, "Hello")])
