"""A base install has no framework: each door says which extra it needs, and only when opened."""

import subprocess
import sys

import pytest

from headrace import adapters

LIBRARIES = {
    "ApiKey": ("a2a", "a2a"),
    "Bearer": ("a2a", "a2a"),
    "ClientCredentials": ("a2a", "a2a"),
    "ClientMcpServers": ("mcp", "mcp"),
    "FleetArtifactService": ("google.adk", "google-adk"),
    "FleetDurability": ("pydantic_ai", "pydantic-ai"),
    "FleetMemoryService": ("google.adk", "google-adk"),
    "FleetSaver": ("langgraph", "langgraph"),
    "FleetSessionService": ("google.adk", "google-adk"),
    "FleetStore": ("langgraph", "langgraph"),
    "McpServer": ("mcp", "mcp"),
    "adk_agent": ("google.adk", "google-adk"),
    "ag_ui_agent": ("ag_ui", "ag-ui"),
    "executor_agent": ("a2a", "a2a"),
    "fleet_history": ("pydantic_ai", "pydantic-ai"),
    "fleet_session": ("agents", "openai-agents"),
    "langgraph_agent": ("langgraph", "langgraph"),
    "openai_agent": ("openai", "openai"),
    "openai_agents_agent": ("agents", "openai-agents"),
    "pydantic_ai_agent": ("pydantic_ai", "pydantic-ai"),
    "remote_agent": ("a2a", "a2a"),
}
"""By door: the library that it needs, and the extra that brings it."""

OPENS = """
import sys
for name in {libraries!r}:
    sys.modules[name] = None
import headrace_worker.main
from headrace import adapters
for door in {doors!r}:
    try:
        getattr(adapters, door)
    except ImportError as error:
        print(door, error)
"""


def test_an_adapter_names_the_extra_that_it_needs() -> None:
    every = [name for name, _ in LIBRARIES.values()]
    received = subprocess.run(
        [sys.executable, "-c", OPENS.format(libraries=every, doors=list(LIBRARIES))],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    assert received.stdout.splitlines() == [
        f"{door} {library} is not installed: pip install 'headrace[{extra}]'"
        for door, (library, extra) in LIBRARIES.items()
    ]


def test_every_adapter_is_known_by_its_extra() -> None:
    assert set(adapters.__all__) == set(LIBRARIES)


def test_there_is_no_other_adapter() -> None:
    with pytest.raises(AttributeError, match="'window'"):
        adapters.window  # noqa: B018  # asking is the test
