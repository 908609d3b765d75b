"""An agent of Google's ADK over the official Gemini client, in the suite of all adapters."""

from typing import TYPE_CHECKING, Any

from headrace import Agent, Retry
from tests.integration.worker.adapters.behaviour import (
    ApprovalsBesideClientTools,
    ApprovalsInTime,
    AsksItsModel,
    Images,
    SharedState,
)
from tests.integration.worker.adapters.gemini_wire import MODEL, gemini_model
from tests.integration.worker.adapters.office import Office

if TYPE_CHECKING:
    from google.adk.models import Gemini


def gemini(url: str) -> "Gemini":
    """Return the client of the model at `url`, which asks a busy model twice."""
    from google.adk.models import Gemini
    from google.genai.types import HttpRetryOptions

    retries = HttpRetryOptions(attempts=2, initial_delay=0.01, max_delay=0.01)
    given = {"api_key": "k"}
    return Gemini(model=MODEL, base_url=url, client_kwargs=given, retry_options=retries)


def build(url: str, office: Office, **options: Any) -> Agent:  # noqa: ANN401  # the adapter's
    """Make the agent."""
    from google.adk.agents import LlmAgent
    from google.adk.tools.function_tool import FunctionTool
    from google.adk.tools.tool_context import ToolContext

    from headrace.adapters import adk_agent

    def put(item: str, tool_context: ToolContext) -> str:
        """Add to the state that is shared."""
        tool_context.state["items"] = [*tool_context.state["items"], item]
        return "put"

    wrapped = LlmAgent(
        name="clerk",
        instruction="Be brief.",
        model=gemini(url),
        tools=[put, office.mail, FunctionTool(office.refund, require_confirmation=True)],
    )
    return adk_agent(wrapped, name="agent", retry=Retry(backoff=0.0), **options)


class TestGoogleAdk(AsksItsModel, Images, ApprovalsBesideClientTools, ApprovalsInTime, SharedState):
    """Its behaviour."""

    imports = ("headrace.adapters.adk.agent", "google.adk.models")
    model = staticmethod(gemini_model)
