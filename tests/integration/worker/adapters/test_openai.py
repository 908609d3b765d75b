"""A model behind an OpenAI-compatible endpoint, in the suite of all adapters."""

from typing import Any

from headrace import Agent, Retry, RunContext, State, agent, tool
from tests.integration.worker.adapters.behaviour import (
    AsksItsModel,
    ClientTools,
    Images,
    SharedState,
    StreamsArguments,
    lines,
)
from tests.integration.worker.adapters.office import Office
from tests.integration.worker.adapters.wire import calls, replies
from tests.integration.worker.conftest import Working
from tests.support.log_reading import folded
from tests.support.task_submitter import TaskSubmitter


async def put(ctx: RunContext, item: str) -> str:
    """Add to the state that is shared."""
    await ctx.emit(State({"items": [*ctx.state["items"], item]}))
    return "put"


def build(url: str, office: Office, **options: Any) -> Agent:  # noqa: ANN401  # the adapter's
    """Make the agent."""
    from headrace.adapters import openai_agent

    tools = [tool(office.mail), tool(put)]
    return openai_agent(
        name="agent",
        model="small",
        base_url=url,
        api_key="k",
        tools=tools,
        retry=Retry(backoff=0.0),
        **options,
    )


class TestOpenAI(StreamsArguments, AsksItsModel, Images, ClientTools, SharedState):
    """Its behaviour."""

    imports = ("headrace.adapters.openai.agent",)

    async def test_output_of_children_is_in_no_later_turn_of_their_parents(
        self, submitter: TaskSubmitter, working: Working
    ) -> None:
        from headrace.adapters import openai_agent

        @agent()
        async def child(ctx: RunContext) -> str:
            return f"child on {ctx.prompt}"

        async def consult(ctx: RunContext) -> str:
            return (await ctx.delegate("child", "asked by the parent")).text

        script = [calls(("c1", "consult", {})), replies("I know."), replies("I said so.")]
        async with self.model(script) as model:
            parent = openai_agent(
                name="agent", model="small", base_url=model.url, tools=[tool(consult)]
            )
            async with working(parent, child):
                await folded(await submitter.start("agent", "Find out.", context="shared"))
                await folded(await submitter.start("agent", "Again?", context="shared"))
        assert lines(model.conversations[2]) == [
            "user: Find out.",
            "assistant: consult()",
            "tool: child on asked by the parent",
            "assistant: I know.",
            "user: Again?",
        ]
