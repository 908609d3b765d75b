"""``headrace agents`` and ``tasks``: what there is, as tables."""

from collections.abc import Iterator
from urllib.parse import urlencode

import click

from headrace_cli.client import Client, Json, agent_path, with_agent, with_gateway
from headrace_cli.failing import fail
from headrace_cli.failures import RequestFailed
from headrace_cli.tables import table

_STATE = "TASK_STATE_"


@click.command()
@with_gateway
def agents(url: str, token: str | None) -> None:
    """List the agents, and whether a worker runs them."""
    rows = [
        (
            agent["name"],
            "available" if agent.get("available") else "no worker",
            agent.get("description", ""),
        )
        for agent in Client(url, token).get("/v1/agents").get("agents", [])
    ]
    table(("AGENT", "STATE", "DESCRIPTION"), rows)


@click.group(invoke_without_command=True)
@with_gateway
@with_agent
@click.option("--context", help="Only tasks of this context.")
@click.option("--status", metavar="STATE", help="Only tasks in this state, e.g. working.")
@click.option(
    "--limit", type=click.IntRange(1, 100), default=20, show_default=True, help="Per agent."
)
@click.pass_context
def tasks(  # noqa: PLR0913, PLR0917  # one parameter per flag is how click calls
    ctx: click.Context,
    url: str,
    token: str | None,
    agent: str | None,
    context: str | None,
    status: str | None,
    limit: int,
) -> None:
    """List tasks, the latest first; without --agent those of every agent."""
    if ctx.invoked_subcommand is not None:
        return
    client = Client(url, token)
    query: dict[str, str | int] = {"pageSize": limit}
    if context:
        query["contextId"] = context
    if status:
        query["status"] = _STATE + status.upper().replace("-", "_")
    names = [agent] if agent else agent_names(client)
    found = [(name, task) for name in names for task in _tasks(client, name, query)]
    found.sort(key=lambda pair: pair[1]["status"].get("timestamp", ""), reverse=True)
    rows = [
        (
            task["id"],
            name,
            task["status"].get("state", "").removeprefix(_STATE),
            task["status"].get("timestamp", ""),
            task.get("contextId", ""),
        )
        for name, task in found
    ]
    table(("TASK", "AGENT", "STATE", "SINCE", "CONTEXT"), rows)


tasks.add_command(fail)


def agent_names(client: Client) -> list[str]:
    """Return the names of all agents that the gateway knows."""
    return [agent["name"] for agent in client.get("/v1/agents").get("agents", [])]


def base_of_task(client: Client, agent: str | None, task: str) -> str:
    """Return the path of the agent that has `task`; `agent` itself where it is given.

    Raises:
        RequestFailed: no agent has it.
    """
    if agent:
        return agent_path(agent)
    refusal = RequestFailed(f"no agent has a task {task}")
    for name in agent_names(client):
        try:
            client.get(f"{agent_path(name)}/tasks/{task}?historyLength=0")
        except RequestFailed as refused:
            refusal = refused
        else:
            return agent_path(name)
    raise refusal


def _tasks(client: Client, agent: str, query: dict[str, str | int]) -> Iterator[Json]:
    yield from client.get(f"{agent_path(agent)}/tasks?{urlencode(query)}").get("tasks", [])
