"""Test agents without servers.

    from headrace.testing import TestFleet

    async with TestFleet([shop]) as fleet:
        answer = await fleet.send("shop", "nails")
        assert answer.text == "Nails are sold out."

The pytest plugin provides the fixture ``fleet``, which serves ``@pytest.mark.agents(shop)``.
"""

from headrace_worker.adapters.extras import needs

with needs("testing"):
    from headrace.testing.fleet import TestFleet
    from headrace.testing.result import CalledTool, ResultFile, TaskEvent
    from headrace.testing.task import FleetTask, TaskResult

__all__ = ["CalledTool", "FleetTask", "ResultFile", "TaskEvent", "TaskResult", "TestFleet"]
