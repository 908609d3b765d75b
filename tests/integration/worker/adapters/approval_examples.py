"""Agents in the shape of the frameworks' own examples of approvals, each served by one line.

LangGraph's documentation asks in a tool by `interrupt`, and is resumed with a dictionary. The
OpenAI Agents SDK's `human_in_the_loop.py` needs approval for some arguments of one of two tools.
ADK's sample of tool confirmation asks by the tool's context for large amounts.
"""

from pathlib import Path
from typing import Any

from headrace import Agent


class Ledger:
    """A file that has what tools did, whichever process did it."""

    def __init__(self, folder: Path) -> None:
        """Write into `folder`."""
        self._file = folder / "ledger"

    def add(self, line: str) -> None:
        """Add a line."""
        with self._file.open("a") as file:
            file.write(f"{line}\n")

    def lines(self) -> list[str]:
        """Return the lines."""
        return self._file.read_text().splitlines() if self._file.exists() else []


def booking(url: str, ledger: Ledger) -> Agent:
    """Return LangGraph's agent, which asks before it books a hotel."""
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.types import interrupt

    from headrace.adapters import langgraph_agent

    def book_hotel(hotel_name: str) -> str:
        """Book a hotel."""
        response = interrupt(f"About to book {hotel_name}. Accept, or suggest another one.")
        if response["type"] == "edit":
            hotel_name = response["args"]["hotel_name"]
        elif response["type"] != "accept":
            raise ValueError(response["type"])
        ledger.add(f"booked {hotel_name}")
        return f"booked {hotel_name}"

    model: dict[str, Any] = {"model": "small", "base_url": url, "api_key": "k", "streaming": True}
    graph = create_agent(ChatOpenAI(**model), [book_hotel], checkpointer=InMemorySaver())
    return langgraph_agent(graph, name="booking")


def weather(url: str, ledger: Ledger) -> Agent:
    """Return the Agents SDK's agent, which asks before it measures some cities' temperature."""
    from agents import Agent as SdkAgent
    from agents import OpenAIChatCompletionsModel, function_tool
    from openai import AsyncOpenAI

    from headrace.adapters import openai_agents_agent

    @function_tool
    async def get_weather(city: str) -> str:
        """Get the weather of a city."""
        return f"sunny in {city}"

    async def needs_approval(_: Any, parameters: dict[str, Any], __: str) -> bool:  # noqa: ANN401
        return "Oakland" in parameters.get("city", "")

    @function_tool(needs_approval=needs_approval)
    async def get_temperature(city: str) -> str:
        """Get the temperature of a city."""
        ledger.add(f"measured {city}")
        return f"20 degrees in {city}"

    client = AsyncOpenAI(base_url=url, api_key="k")
    assistant = SdkAgent[Any](
        name="Weather Assistant",
        instructions="Answer questions about weather and temperature with the tools.",
        model=OpenAIChatCompletionsModel("small", client),
        tools=[get_weather, get_temperature],
    )
    return openai_agents_agent(assistant, name="weather")


def transfers(url: str, ledger: Ledger) -> Agent:
    """Return ADK's agent, which asks before it transfers 100 or more."""
    from google.adk.agents import LlmAgent
    from google.adk.tools.tool_context import ToolContext

    from headrace.adapters import adk_agent
    from tests.integration.worker.adapters.test_google_adk import gemini

    def transfer_funds(amount: float, recipient: str, tool_context: ToolContext) -> dict[str, str]:
        """Transfer money to a recipient."""
        if amount >= 100:  # the sample's limit
            if not tool_context.tool_confirmation:
                tool_context.request_confirmation(hint=f"Transfer {amount} to {recipient}?")
                return {"error": "This call needs a confirmation."}
            if not tool_context.tool_confirmation.confirmed:
                return {"error": "The user rejected the transfer."}
        ledger.add(f"transferred {recipient}")
        return {"result": f"transferred {recipient}"}

    root = LlmAgent(
        name="bank",
        instruction="Transfer money.",
        model=gemini(url),
        tools=[transfer_funds],
    )
    return adk_agent(root, name="transfers")


EXAMPLES = {
    "booking": ("test_langgraph", booking),
    "weather": ("test_openai_agents", weather),
    "transfers": ("test_google_adk", transfers),
}
"""What makes each, by its name, and the module whose model server it uses."""
