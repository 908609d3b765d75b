"""A run that comes too late to a worker is ended in its log, and its agent never called."""

from datetime import UTC, datetime, timedelta

from headrace import RunContext, agent
from headrace.model.events import START_BY
from headrace.model.task import COMPLETED, REJECTED
from tests.integration.worker.conftest import Working
from tests.support.task_submitter import TaskSubmitter


def in_(seconds: float) -> dict[str, str]:
    return {START_BY: (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()}


async def test_a_run_past_its_start_deadline_is_rejected_and_one_in_time_is_done(
    submitter: TaskSubmitter, working: Working
) -> None:
    called: list[str] = []

    @agent()
    async def punctual(ctx: RunContext) -> str:
        called.append(ctx.prompt)
        return "done"

    late = await submitter.start("punctual", "late", metadata=in_(-1))
    in_time = await submitter.start("punctual", "in time", metadata=in_(600))
    unclear = await submitter.start("punctual", "unclear", metadata={START_BY: "soon"})
    async with working(punctual):
        [*_, end] = await late.ended()
        assert (await in_time.ended())[-1].stamp.state == COMPLETED
        assert (await unclear.ended())[-1].stamp.state == COMPLETED
    assert end.stamp.state == REJECTED
    assert end.stamp.attempt == 0
    [notice] = end.events[-1]["statusUpdate"]["status"]["message"]["parts"]
    assert "no worker started the task in time" in notice["text"]
    assert sorted(called) == ["in time", "unclear"]
