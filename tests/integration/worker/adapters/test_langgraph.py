"""A LangGraph agent over LangChain's OpenAI client, in the suite of all adapters."""

from typing import Any

from headrace import Agent, Retry
from tests.integration.worker.adapters.behaviour import (
    ApprovalsInTime,
    AsksItsModel,
    Images,
    StreamsArguments,
)
from tests.integration.worker.adapters.office import Office


def build(url: str, office: Office, **options: Any) -> Agent:  # noqa: ANN401  # the adapter's
    """Make the agent."""
    from langchain.agents import create_agent
    from langchain.agents.middleware import HumanInTheLoopMiddleware
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI

    from headrace.adapters import langgraph_agent

    request: Any = {"model": "small", "base_url": url, "api_key": "k", "streaming": True}
    review: Any = HumanInTheLoopMiddleware({"refund": True}, interrupt_mode="per_call")
    graph = create_agent(
        ChatOpenAI(**request),
        [tool(office.mail), tool(office.refund)],
        middleware=[review],
        system_prompt="Be brief.",
    )
    return langgraph_agent(graph, name="agent", retry=Retry(backoff=0.0), **options)


class TestLangGraph(StreamsArguments, AsksItsModel, Images, ApprovalsInTime):
    """Its behaviour."""

    imports = ("headrace.adapters.langgraph.agent", "langchain.agents", "langchain_openai")
    within = "answer_within"
    hears_words_beside = False
