"""An agent of one's own calls tools, and its log says so."""

from collections.abc import AsyncIterator

from headrace import Emission, RunContext, ToolError, agent, tool
from tests.integration.worker.conftest import Working
from tests.support.log_reading import answer, calls, folded, results
from tests.support.task_submitter import TaskSubmitter


@tool
def halve(number: int) -> float:
    """Halve a number."""
    if number % 2:
        raise ToolError("only even numbers")
    return number / 2


async def test_a_call_and_its_result_are_emitted(
    submitter: TaskSubmitter, working: Working
) -> None:
    @agent()
    async def halving(ctx: RunContext) -> AsyncIterator[Emission]:
        yield str(await ctx.call(halve, number=4))
        try:
            await ctx.call(halve, number=3)
        except ToolError as error:
            yield f", {error}"

    async with working(halving):
        done = await folded(await submitter.start("halving", "x"))
    assert answer(done) == "2.0, only even numbers"
    assert calls(done) == [("halve", {"number": 4}), ("halve", {"number": 3})]
    assert results(done) == [(2.0, ""), ("", "only even numbers")]
