"""Beginning a run: its input into a log."""

from headrace import parts
from headrace_gateway.a2a.call import Call
from headrace_gateway.a2a.media import check_parts
from headrace_gateway.agui.run_input import RunInput
from headrace_gateway.intake import Accepted
from headrace_gateway.services import Services


async def begin(services: Services, call: Call, asked: RunInput) -> Accepted:
    """Accept the run that `asked` describes; the caller releases its feed.

    Raises:
        A2AError, HeadraceError: as `check_parts` and `Intake.start`.
    """
    _check_taken(call, asked)
    return await services.intake.start(
        call.caller, call.agent, asked.message, context=asked.thread, metadata=asked.metadata
    )


def _check_taken(call: Call, asked: RunInput) -> None:
    """Return if the agent takes what the user said; tool results every agent takes.

    Raises:
        ContentTypeNotSupportedError: it does not.
    """
    said = [p for p in asked.message["parts"] if parts.event_type(p) != parts.TOOL_CALL]
    check_parts({**asked.message, "parts": said}, call.card)
