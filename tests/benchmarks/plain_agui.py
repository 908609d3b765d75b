"""A plain AG-UI agent on Starlette: it counts, and encodes each event with ag-ui-protocol.

What such a server does is the least that any can do; it keeps nothing, and nobody can come back.
"""

from collections.abc import AsyncIterator

from ag_ui.core import (
    BaseEvent,
    RunAgentInput,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
)
from ag_ui.encoder import EventEncoder
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route


async def _run(request: Request) -> StreamingResponse:
    run_input = RunAgentInput.model_validate_json(await request.body())
    encoder = EventEncoder()
    events = (encoder.encode(event) async for event in _counted(run_input))
    return StreamingResponse(events, media_type=encoder.get_content_type())


async def _counted(request: RunAgentInput) -> AsyncIterator[BaseEvent]:
    yield RunStartedEvent(thread_id=request.thread_id, run_id=request.run_id)
    yield TextMessageStartEvent(message_id="count", role="assistant")
    for number in range(1, int(str(request.messages[-1].content)) + 1):
        yield TextMessageContentEvent(message_id="count", delta=f"{number} ")
    yield TextMessageEndEvent(message_id="count")
    yield RunFinishedEvent(thread_id=request.thread_id, run_id=request.run_id)


ROUTE = Route("/ag-ui", _run, methods=["POST"])
"""The agent's only route."""
