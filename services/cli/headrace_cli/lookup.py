"""Lookups of agents and tasks through the gateway."""

from headrace_cli.client import GatewayClient, agent_path, task_path
from headrace_cli.failures import RequestFailed


def agent_names(client: GatewayClient) -> list[str]:
    """Return the names of all agents in the gateway's directory."""
    return [agent["id"] for agent in client.get("/v1/agents").get("agents", [])]


def find_agent_path(client: GatewayClient, agent: str | None, task: str) -> str:
    """Return the path of the agent that has `task`; `agent` itself where it is given.

    Raises:
        RequestFailed: no agent has it.
    """
    if agent:
        return agent_path(agent)
    refusal = RequestFailed(f"no agent has a task {task}")
    for name in agent_names(client):
        try:
            client.get(f"{task_path(agent_path(name), task)}?historyLength=0")
        except RequestFailed as refused:
            refusal = refused
        else:
            return agent_path(name)
    raise refusal
