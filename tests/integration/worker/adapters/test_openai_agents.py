"""An agent of the OpenAI Agents SDK over the official client, in the suite of all adapters."""

from typing import Any

from headrace import Agent, Retry, RunContext, State
from tests.integration.worker.adapters.behaviour import (
    REFUND,
    ApprovalsBesideClientTools,
    ApprovalsInTime,
    AsksItsModel,
    Images,
    Serve,
    SharedState,
    StreamsArguments,
    answered,
    approval,
    interrupts,
)
from tests.integration.worker.adapters.office import Office
from tests.integration.worker.adapters.wire import calls, replies
from tests.support.log_reading import answer, folded, state
from tests.support.task_submitter import TaskSubmitter


def build(  # the adapter's
    url: str,
    office: Office,
    *,
    in_config: bool = False,
    **options: Any,  # noqa: ANN401
) -> Agent:
    """Make the agent; with `in_config`, its model is that of the run's configuration."""
    from agents import Agent as SdkAgent
    from agents import OpenAIChatCompletionsModel, RunConfig, RunContextWrapper, function_tool
    from openai import AsyncOpenAI

    from headrace.adapters import openai_agents_agent

    async def put(ctx: RunContextWrapper[RunContext], item: str) -> str:
        """Add to the state that is shared."""
        state = ctx.context.state
        await ctx.context.emit(State({"items": [*state["items"], item]}))
        return "put"

    client = AsyncOpenAI(base_url=url, api_key="k")
    model = OpenAIChatCompletionsModel("small", client)
    if in_config:
        options["run_config"] = RunConfig(model=model, tracing_disabled=True)
    wrapped: SdkAgent[RunContext] = SdkAgent(
        "clerk",
        instructions="Be brief.",
        model=None if in_config else model,
        tools=[
            function_tool(put),
            function_tool(office.mail),
            function_tool(office.refund, needs_approval=True),
        ],
    )
    return openai_agents_agent(wrapped, name="agent", retry=Retry(backoff=0.0), **options)


class TestOpenAIAgents(
    StreamsArguments, AsksItsModel, Images, ApprovalsBesideClientTools, ApprovalsInTime, SharedState
):
    """Its behaviour."""

    imports = ("headrace.adapters.openai_agents.agent",)

    async def test_a_model_that_numbers_every_call_alike_needs_one_attempt(
        self, submitter: TaskSubmitter, serve: Serve, office: Office
    ) -> None:
        names = ["ann", "bob", "cat", "dan", "eve"]
        script = [*(calls(("c1", "mail", {"to": name})) for name in names), replies("Done.")]
        async with serve(script) as model:
            task = await submitter.start("agent", "Mail all.")
            log = await task.ended()
            assert state(await folded(task)) == "COMPLETED"
        assert max(entry.stamp.attempt for entry in log) == 1
        assert office.done("sent") == names
        results = [received for received in model.conversations[-1] if received.role == "tool"]
        assert [received.text for received in results] == [f"sent to {name}" for name in names]
        assert len({received.answers for received in results}) == len(names)

    async def test_an_approval_is_used_where_the_run_configuration_has_the_model(
        self, submitter: TaskSubmitter, serve: Serve, office: Office
    ) -> None:
        async with serve([REFUND, replies("So be it.")], in_config=True):
            task = await submitter.start("agent", "Refund A1.")
            [interrupt] = await interrupts(task)
            done = await answered(task, approval(interrupt["id"], {"approved": True}))
        assert (state(done), answer(done)) == ("COMPLETED", "So be it.")
        assert office.done("refunded") == ["A1:5"]
