"""Test agents without servers.

    from headrace.testing import TestFleet

    async with TestFleet([shop]) as fleet:
        answer = await fleet.send("shop", "nails")
        assert answer.text == "Nails are sold out."

The pytest plugin provides the fixture ``fleet``, which serves ``@pytest.mark.agents(shop)``.
"""

try:
    from headrace.model.case import Case, CaseInvalid
    from headrace.model.task_report import CalledTool, ResultFile, TaskEvent
    from headrace.testing.fleet import TestFleet
    from headrace.testing.replay import ReplayReport, load_case
    from headrace.testing.task import FleetTask, TaskResult
except ModuleNotFoundError as missing:
    library = str(missing.name).partition(".")[0]
    raise ImportError(f"{library} is not installed: pip install 'headrace[testing]'") from missing

__all__ = [
    "CalledTool",
    "Case",
    "CaseInvalid",
    "FleetTask",
    "ReplayReport",
    "ResultFile",
    "TaskEvent",
    "TaskResult",
    "TestFleet",
    "load_case",
]
