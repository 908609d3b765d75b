"""The paths of agents, tasks and files at a gateway."""

import re
from urllib.parse import quote

_FILE = re.compile(r"/v1/agents/[\w-]+/tasks/[\w-]+/files/[\w-]+$")


def agent_path(agent: str | None) -> str:
    """Return the path of `agent`; None is the default agent, at the root."""
    return f"/v1/agents/{quote(agent, safe='')}" if agent else ""


def task_path(agent: str | None, task: str) -> str:
    """Return the path of a task of `agent`."""
    return f"{agent_path(agent)}/tasks/{quote(task, safe='')}"


def run_path(agent: str | None) -> str:
    """Return the path of the AG-UI runs of `agent`."""
    return f"{agent_path(agent)}/ag-ui" if agent else "/api/agent"


def file_path(url: str) -> str | None:
    """Return the path of a file that gateways store; None: `url` is elsewhere.

    A public URL may differ from the one that the client uses, so the host does not matter: the
    client asks its own gateway, and sends its credentials nowhere else.
    """
    found = _FILE.search(url)
    return found[0] if found else None
