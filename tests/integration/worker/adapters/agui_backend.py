"""A pydantic-ai agent behind its own AG-UI adapter, over HTTP: a backend as its users run it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.integration.worker.adapters.office import Office
from tests.support.asgi_server import asgi_server


@asynccontextmanager
async def pydantic_backend(model_url: str, office: Office) -> AsyncIterator[str]:
    """Serve the agent of the suite for the length of a block, and yield where it is."""
    from pydantic_ai import Agent as PydanticAgent
    from pydantic_ai import DeferredToolRequests
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.ui.ag_ui import AGUIAdapter

    model = OpenAIChatModel("small", provider=OpenAIProvider(base_url=model_url, api_key="k"))
    wrapped: PydanticAgent[None, Any] = PydanticAgent(
        model, system_prompt="Be brief.", output_type=[str, DeferredToolRequests]
    )
    wrapped.tool_plain(office.mail)
    wrapped.tool_plain(requires_approval=True)(office.refund)

    async def run(request: Request) -> Response:
        answered: Response = await AGUIAdapter.dispatch_request(request, agent=wrapped)
        return answered

    async with asgi_server(Starlette(routes=[Route("/agent", run, methods=["POST"])])) as url:
        yield f"{url}/agent"
