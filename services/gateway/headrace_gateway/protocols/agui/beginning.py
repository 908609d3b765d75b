"""Beginning a run: its input into a log, a new one or one whose task waits for it."""

from headrace.model import events, parts
from headrace_gateway.call import Call
from headrace_gateway.protocols.agui.busy_thread import make_way
from headrace_gateway.protocols.agui.run_input import RunInput
from headrace_gateway.protocols.agui.waiting import answered
from headrace_gateway.services import Services
from headrace_gateway.tasks.accepted import Accepted
from headrace_gateway.tasks.asked import FollowUp
from headrace_gateway.tasks.media import check_parts
from headrace_gateway.tasks.terms import terms


async def begin(services: Services, call: Call, asked: RunInput) -> Accepted:
    """Accept the run that `asked` describes; the caller releases its feed.

    What resumes an interrupt, or answers tool calls that a task waits for, goes on with the task.

    Raises:
        ResumeMismatch: it resumes what does not wait.
        ThreadBusy: the agent is at work in the thread, and takes nothing else meanwhile.
        A2AError, HeadraceError: as `check_parts`, `Intake.start` and `Intake.follow_up`.
    """
    _check_taken(call, asked)
    metadata = asked.metadata | call.marks
    metadata |= terms(call.caller, call.card, asked.wishes, "forwardedProps.headrace.")
    task = await answered(services, call, asked)
    if task is not None:
        follow_up = FollowUp(task, asked.message, asked.thread, metadata)
        return await services.intake.follow_up(call.caller, call.agent, follow_up)
    if ahead := await make_way(services, call, asked.thread):
        metadata[events.BEHIND] = ahead
    return await services.intake.start(
        call.caller, call.agent, asked.message, context=asked.thread, metadata=metadata
    )


def _check_taken(call: Call, asked: RunInput) -> None:
    """Return if the agent takes what the user said; answers to its own questions it takes.

    Raises:
        ContentTypeNotSupportedError: it does not.
    """
    if asked.resumes:
        return
    said = [p for p in asked.message["parts"] if parts.event_type(p) != parts.TOOL_CALL]
    check_parts({**asked.message, "parts": said}, call.card)
