"""A pydantic-ai agent over its own OpenAI client, in the suite of all adapters."""

from dataclasses import dataclass
from typing import Any

from ag_ui.core import EventType, StateSnapshotEvent
from pydantic import BaseModel

from headrace import Agent, Retry
from tests.integration.worker.adapters.behaviour import (
    ApprovalsBesideClientTools,
    ApprovalsInTime,
    AsksItsModel,
    Images,
    SharedState,
    StreamsArguments,
)
from tests.integration.worker.adapters.office import Office


class Basket(BaseModel):
    """State that agent and user interface share."""

    items: list[str] = []


@dataclass
class Deps:
    """As pydantic-ai's own StateDeps."""

    state: Basket


def build(url: str, office: Office, **options: Any) -> Agent:  # noqa: ANN401  # the adapter's
    """Make the agent."""
    from pydantic_ai import Agent as PydanticAgent
    from pydantic_ai import RunContext, ToolReturn
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    from headrace.adapters import pydantic_ai_agent

    def put(ctx: RunContext[Deps], item: str) -> ToolReturn[str]:
        """Add to the state that is shared."""
        ctx.deps.state.items.append(item)
        snapshot = ctx.deps.state.model_dump()
        event = StateSnapshotEvent(type=EventType.STATE_SNAPSHOT, snapshot=snapshot)
        return ToolReturn("put", metadata=[event])

    model = OpenAIChatModel("small", provider=OpenAIProvider(base_url=url, api_key="k"))
    wrapped = PydanticAgent(model, system_prompt="Be brief.", deps_type=Deps)
    wrapped.tool(put)
    wrapped.tool_plain(office.mail)
    wrapped.tool_plain(requires_approval=True)(office.refund)
    given: Any = {"deps": lambda _: Deps(Basket()), "retry": Retry(backoff=0.0), **options}
    return pydantic_ai_agent(wrapped, name="agent", **given)


class TestPydanticAI(
    StreamsArguments, AsksItsModel, Images, ApprovalsBesideClientTools, ApprovalsInTime, SharedState
):
    """Its behaviour."""

    imports = ("headrace.adapters.pydantic_ai.agent", "pydantic_ai.models.openai")
