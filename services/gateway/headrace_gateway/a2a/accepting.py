"""Taking in a message: what the agent takes, and whether it starts a task or continues one."""

from a2a.utils.errors import PushNotificationNotSupportedError

from headrace.events import SHOWN, Json
from headrace_gateway.a2a.call import Call
from headrace_gateway.a2a.media import check_parts
from headrace_gateway.a2a.parameters import SendMessage
from headrace_gateway.a2a.task_ids import task_key
from headrace_gateway.intake import Accepted
from headrace_gateway.services import Services

_OURS = "headrace."


async def accept(services: Services, call: Call, asked: SendMessage) -> Accepted:
    """Put the message into a log and return where; the caller releases its feed.

    Raises:
        ContentTypeNotSupportedError: the agent does not take a part of it.
        PushNotificationNotSupportedError: it asks for push notifications.
        HeadraceError: as `Intake.start` and `Intake.follow_up`.
    """
    if asked.push_config is not None:
        raise PushNotificationNotSupportedError("this agent sends no push notifications")
    check_parts(asked.message, call.card)
    metadata = _metadata(call, asked)
    if asked.task is None:
        return await services.intake.start(
            call.caller, call.agent, asked.message, context=asked.context, metadata=metadata
        )
    key = task_key(services.settings, call.caller, call.agent, asked.task)
    return await services.intake.follow_up(
        call.caller, call.agent, key.task, asked.message, context=asked.context, metadata=metadata
    )


def _metadata(call: Call, asked: SendMessage) -> Json:
    """Return what the client says beside its message, without what only we may say."""
    given = asked.metadata or {}
    metadata = {key: value for key, value in given.items() if not key.startswith(_OURS)}
    if call.card.bare_message and asked.return_immediately:
        metadata[SHOWN] = True
    return metadata
