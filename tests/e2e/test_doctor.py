"""`headrace doctor` beside a fleet that works finds nothing wrong."""

import asyncio
import json

from tests.e2e.test_dead_letters import headrace
from tests.support.fleet import Fleet


async def test_a_fleet_that_works_has_no_problem(fleet: Fleet) -> None:
    lines = (await asyncio.to_thread(headrace, fleet, "doctor", "--json")).splitlines()
    levels: dict[str, set[str]] = {}
    for finding in map(json.loads, lines):
        levels.setdefault(finding["subject"], set()).add(finding["level"])
    # Other tests' dead letters and agents that have left may be found, too.
    levels.pop("dead letters")
    agents = levels.pop("agents")
    assert "ok" in agents
    assert levels == {
        subject: {"ok"}
        for subject in ("settings", "NATS", "streams", "versions", "task state", "Redis")
    }
