"""An agent function that calls the OpenAI Agents SDK, with its session in the fleet.

From this folder: ``headrace dev --agents agents_session:notes``. Needs ``headrace[openai-agents]``
and an OpenAI-compatible endpoint at `URL`, such as Ollama's.
"""

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool
from openai import AsyncOpenAI

from headrace import RunContext, agent
from headrace.adapters import fleet_session

URL = "http://127.0.0.1:11434/v1"
small = OpenAIChatCompletionsModel("qwen3:4b", AsyncOpenAI(base_url=URL, api_key="none"))


@function_tool
def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word} is a word"


clerk = Agent("clerk", instructions="Be brief.", model=small, tools=[look_up])


@agent()
async def notes(ctx: RunContext) -> str:
    """Answer, with what was said before in this conversation."""
    result = await Runner.run(clerk, ctx.prompt, session=fleet_session(ctx))
    return str(result.final_output)
