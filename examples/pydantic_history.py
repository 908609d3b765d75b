"""An agent function that calls pydantic-ai, with the messages so far in the fleet.

From this folder: ``headrace dev --agents pydantic_history:notes``. Needs ``headrace[pydantic-ai]``
and an OpenAI-compatible endpoint at `URL`, such as Ollama's.
"""

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from headrace import RunContext, agent
from headrace.adapters import fleet_history

URL = "http://127.0.0.1:11434/v1"
small = OpenAIChatModel("qwen3:4b", provider=OpenAIProvider(base_url=URL, api_key="none"))
clerk = Agent(small, instructions="Be brief.")


@clerk.tool_plain
def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word} is a word"


@agent()
async def notes(ctx: RunContext) -> str:
    """Answer, with what was said before in this conversation."""
    history = fleet_history(ctx)
    result = await clerk.run(ctx.prompt, message_history=await history.messages())
    await history.add(result.new_messages())
    return result.output
