"""An agent function that calls ADK's runner, with its sessions in the fleet.

From this folder: ``headrace dev --agents adk_session:notes``. Needs ``headrace[google-adk]`` and
``GOOGLE_API_KEY``.
"""

from google.adk.agents import LlmAgent
from google.adk.runners import Runner
from google.genai import types

from headrace import RunContext, agent
from headrace.adapters import FleetSessionService


def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word} is a word"


clerk = LlmAgent(name="clerk", instruction="Be brief.", model="gemini-2.5-flash", tools=[look_up])
runner = Runner(
    app_name="notes",
    agent=clerk,
    session_service=FleetSessionService(),
    auto_create_session=True,
)


@agent()
async def notes(ctx: RunContext) -> str:
    """Answer, with what was said before in this conversation."""
    said = ""
    message = types.Content(role="user", parts=[types.Part(text=ctx.prompt)])
    async for event in runner.run_async(
        user_id=ctx.owner, session_id=ctx.context, new_message=message
    ):
        if event.is_final_response() and event.content and event.content.parts:
            said = "".join(part.text or "" for part in event.content.parts)
    return said
