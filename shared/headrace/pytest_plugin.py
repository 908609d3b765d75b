"""pytest's plugin: the fixture ``fleet``, a `headrace.testing.TestFleet` of the test's agents.

It is outside of `headrace.testing` because pytest imports it in every run of every project.
"""

import sys
from collections.abc import AsyncIterator, Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from headrace.sdk.agent import Agent
    from headrace.testing import TestFleet

_MARKER = "agents"


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    described = f"{_MARKER}(agent, ...): the agents that the fixture `fleet` serves."
    config.addinivalue_line("markers", described)


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Explain a failed comparison of a task's result, which equals nothing but itself."""
    module = sys.modules.get("headrace.testing.task")
    results = [one for one in (left, right) if module and isinstance(one, module.TaskResult)]
    if not results:
        return None
    lines = [f"TaskResult {op}: compare what it has, such as its text or state"]
    return lines + [line for one in results for line in ("TaskResult:", *one.summary())]


@pytest.fixture
def agents(request: pytest.FixtureRequest) -> Sequence["Agent"]:
    """Return the agents that ``fleet`` serves: the marker's. Define your own to serve others."""
    marker = request.node.get_closest_marker(_MARKER)
    if marker is None or not marker.args:
        how = "name the agents that the fleet serves: @pytest.mark.agents(my_agent)"
        pytest.fail(how, pytrace=False)
    return list(marker.args)


async def _fleet(agents: Sequence["Agent"]) -> AsyncIterator["TestFleet"]:
    try:
        from headrace.testing import TestFleet  # noqa: PLC0415 - slow, and few tests need it
    except ImportError as missing:
        pytest.fail(str(missing), pytrace=False)
    async with TestFleet(agents) as fleet:
        yield fleet


def _no_fleet() -> None:
    needs = "the fixture `fleet` needs pytest-asyncio; pip install 'headrace[testing]'"
    pytest.fail(needs, pytrace=False)


def _declared() -> Callable[..., Any]:
    if find_spec("pytest_asyncio") is None:
        return pytest.fixture(name="fleet")(_no_fleet)
    declared: Callable[..., Any] = import_module("pytest_asyncio").fixture(name="fleet")(_fleet)
    return declared


fleet = _declared()
