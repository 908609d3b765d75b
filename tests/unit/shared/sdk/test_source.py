"""Whose code stands between an agent and what it calls."""

import asyncio.tasks
import sys
import sysconfig
from types import FrameType
from typing import Any

import pytest

from headrace.sdk.source import is_awaited_by_agent

PACKAGES = sysconfig.get_path("purelib")
PYTHON = asyncio.tasks.__file__
DRIVER = ("headrace.sdk.drive", f"{PACKAGES}/headrace/sdk/drive.py")
SDK = ("headrace.sdk.context", f"{PACKAGES}/headrace/sdk/context.py")
OWN, OTHER = ("shop", "/app/shop.py"), ("billing.cards", "/app/billing/cards.py")
INSTALLED = ("shop.agents", f"{PACKAGES}/shop/agents.py")
FRAMEWORK = ("framed.run", f"{PACKAGES}/framed/run.py")
ADAPTER = ("headrace.adapters.openai.run", f"{PACKAGES}/headrace/adapters/openai/run.py")


def innermost(*callers: tuple[str, str]) -> FrameType:
    """Return the frame of the last of `callers`, given by module and file; each calls the next."""
    call: Any = sys._getframe
    for module, file in reversed(callers):
        names: dict[str, Any] = {"__name__": module, "call": call}
        exec(compile("def made():\n    return call()", file, "exec"), names)  # noqa: S102
        call = names["made"]
    frame: FrameType = call()
    return frame


@pytest.mark.parametrize(
    ("callers", "is_agents"),
    [
        ([DRIVER, OWN, SDK], True),
        ([DRIVER, OWN, OTHER, SDK], True),
        ([DRIVER, OWN, ("asyncio.tasks", PYTHON), OTHER, SDK], True),
        ([DRIVER, INSTALLED, INSTALLED, SDK], True),
        ([DRIVER, OWN, FRAMEWORK, OWN, SDK], False),
        ([DRIVER, INSTALLED, FRAMEWORK, INSTALLED, SDK], False),
        ([DRIVER, ADAPTER, OWN, SDK], False),
        ([OWN, SDK], False),
    ],
    ids=range(8),
)
def test_a_framework_stands_between_an_agent_and_its_step(
    callers: list[tuple[str, str]], *, is_agents: bool
) -> None:
    assert is_awaited_by_agent(innermost(*callers)) == is_agents
