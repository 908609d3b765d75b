"""Deleting a task while the queue has no leader."""

from typing import Any

from headrace.model.task import TaskKey
from headrace.tasks.runs import until_gone
from tests.support.fake_bus import FakeBus

KEY = TaskKey("default", "echo", "0-1")
RUN = "headrace.run.default.echo.0-1.1"
NO_LEADER = {"error": {"code": 503, "err_code": 10008, "description": "no leader"}}


async def test_the_run_of_a_pinned_task_is_waited_for_until_it_is_gone() -> None:
    queued = [{f"{RUN}.normal.2": 1, f"{RUN}1": 1}, {f"{RUN}1": 1}]
    answers = [{"state": {"subjects": subjects}} for subjects in queued]
    await until_gone(FakeBus(lambda _subject, _query: answers.pop(0)), KEY, 1, 60.0)
    assert not answers


async def test_a_queue_without_a_leader_does_not_report_that_the_agent_has_cleaned_up() -> None:
    answers: list[dict[str, Any]] = [
        NO_LEADER,
        {"state": {"subjects": {RUN: 1}}},
        NO_LEADER,
        {"state": {}},
    ]

    def answer(_subject: str, _query: bytes) -> dict[str, Any]:
        return answers.pop(0)

    await until_gone(FakeBus(answer), KEY, 1, 60.0)
    assert not answers
