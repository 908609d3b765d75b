"""What agents of other frameworks can do is declared by what they are."""

from typing import Any

import pytest
from pydantic import BaseModel

from headrace import Card
from headrace.model.events import Json
from headrace_gateway.protocols.agui.capabilities import capabilities

CLIENTS: Json = {"supported": True, "clientProvided": True}
APPROVALS: Json = {"supported": True, "approvals": True, "interrupts": True}


class _Place(BaseModel):
    name: str


def _refund(amount: int) -> int:
    return amount


def test_a_model_behind_an_endpoint_is_offered_the_clients_tools() -> None:
    from headrace.adapters import openai_agent

    made = openai_agent(name="m", model="m", base_url="http://127.0.0.1:1", api_key="x")
    assert made.card.capabilities == {"tools": CLIENTS}


def test_an_agent_of_the_openai_sdk_states_what_it_has() -> None:
    import agents

    from headrace.adapters import openai_agents_agent

    @agents.function_tool(needs_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        return f"{amount}"

    plain = openai_agents_agent(agents.Agent(name="a"), name="a")
    assert plain.card.capabilities == {"tools": CLIENTS}
    other: Any = agents.Agent(name="b")
    whole = agents.Agent(name="a", tools=[pay], handoffs=[other], output_type=_Place)
    made = openai_agents_agent(whole, name="a")
    assert made.card.capabilities == {
        "tools": CLIENTS,
        "output": {"structuredOutput": True},
        "humanInTheLoop": APPROVALS,
        "multiAgent": {"supported": True, "handoffs": True},
    }


def test_an_agent_of_pydantic_ai_states_what_it_has() -> None:
    from pydantic_ai import Agent as PydanticAgent
    from pydantic_ai.models.test import TestModel

    from headrace.adapters import pydantic_ai_agent

    plain = pydantic_ai_agent(PydanticAgent(TestModel()), name="a")
    assert plain.card.capabilities == {"tools": CLIENTS}
    wrapped = PydanticAgent(TestModel(), output_type=_Place)
    wrapped.tool_plain(requires_approval=True)(_refund)
    made = pydantic_ai_agent(wrapped, name="a")
    assert made.card.capabilities == {
        "tools": CLIENTS,
        "output": {"structuredOutput": True},
        "humanInTheLoop": APPROVALS,
    }


def test_a_graph_may_interrupt() -> None:
    from langgraph.graph import START, MessagesState, StateGraph

    from headrace.adapters import langgraph_agent

    graph = StateGraph(MessagesState)
    graph.add_node("say", lambda state: state)
    graph.add_edge(START, "say")
    made = langgraph_agent(graph.compile(), name="g")
    asks = {"supported": True, "approvals": False, "interrupts": True}
    assert made.card.capabilities == {"humanInTheLoop": asks}


def test_an_agent_of_the_adk_states_whom_it_hands_over_to() -> None:
    from google.adk.agents import LlmAgent

    from headrace.adapters import adk_agent

    assert adk_agent(LlmAgent(name="a"), name="a").card.capabilities == {}
    made = adk_agent(LlmAgent(name="a", sub_agents=[LlmAgent(name="b")]), name="a")
    assert made.card.capabilities == {"multiAgent": {"supported": True, "handoffs": True}}


@pytest.mark.parametrize("category", ["tools", "custom"])
def test_what_is_declared_by_hand_wins(category: str) -> None:
    import agents

    from headrace.adapters import openai_agents_agent

    output = {category: {"supported": False}}
    made = openai_agents_agent(agents.Agent(name="a"), name="a", card=Card(capabilities=output))
    tools = CLIENTS | output.get("tools", {})
    assert made.card.capabilities == {"tools": tools} | ({} if category == "tools" else output)
    assert capabilities(made.card)["tools"] == tools
