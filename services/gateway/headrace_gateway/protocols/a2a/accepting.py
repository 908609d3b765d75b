"""Taking in a message: what the agent takes, and whether it starts a task or continues one."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.model.errors import BusUnavailable, StateUnavailable
from headrace.model.events import ACCEPTED_MODES, EXTENSIONS, SHOWN, Json
from headrace.model.fold.change import OWN
from headrace.model.task import TaskKey
from headrace.webhooks import Webhook
from headrace_gateway.call import IDEMPOTENCY_KEY, Call
from headrace_gateway.extensions import own
from headrace_gateway.protocols.a2a.parameters import SendMessage
from headrace_gateway.protocols.a2a.push_configs import attach, webhook_of
from headrace_gateway.refusals import Malformed, Violation
from headrace_gateway.services import Services
from headrace_gateway.tasks.accepted import Accepted
from headrace_gateway.tasks.asked import FollowUp
from headrace_gateway.tasks.idempotency import Keyed
from headrace_gateway.tasks.ids import task_key
from headrace_gateway.tasks.media import check_parts
from headrace_gateway.tasks.terms import terms
from headrace_gateway.tasks.unanswered import AnswerLost

_KEY = re.compile(r"[\x20-\x7e]{1,255}")


async def accept(services: Services, call: Call, asked: SendMessage) -> Accepted:
    """Put the message into a log and return where; the caller releases its feed.

    Raises:
        ContentTypeNotSupportedError: the agent does not take a part of it.
        PushNotificationNotSupportedError: it names a webhook, and the agent tells none.
        Malformed: it is sent under a key that can't be one, on terms that it can't have, or its
            webhook can't be called.
        HeadraceError: as `Intake` and, under a key, `Resending`.
    """
    check_parts(asked.message, call.card)
    keyed = _keyed(call, asked)
    webhook = _webhook(services, call, asked, keyed)
    if asked.task is None:
        return await _start(services, call, asked, keyed, webhook)
    if webhook is not None:
        await attach(services, call, asked.task, webhook)
    metadata = _metadata(call, asked)
    key = task_key(services.settings, call.caller, call.agent, asked.task)
    follow_up = FollowUp(key.task, asked.message, asked.context, metadata, asked.if_generation)
    if keyed is not None:
        return await services.idempotency.follow_up(keyed, follow_up)
    return await services.submissions.follow_up(call.caller, call.agent, follow_up)


@contextmanager
def answering(call: Call, accepted: Accepted) -> Iterator[None]:
    """Read what came of a message in a block whose failures do not ask for it to be sent again.

    Under an Idempotency-Key it may be: then what is raised stays as it is.

    Raises:
        AnswerLost: it can't be read now.
    """
    try:
        yield
    except (BusUnavailable, StateUnavailable) as trouble:
        if call.idempotency_key is not None:
            raise
        raise AnswerLost(accepted.key.task, accepted.context) from trouble


async def _start(
    services: Services,
    call: Call,
    asked: SendMessage,
    keyed: Keyed | None,
    webhook: Webhook | None,
) -> Accepted:
    """Make a task; its webhook is kept before its log begins, so it is told everything."""
    metadata = _metadata(call, asked)
    if keyed is None:

        async def prepare(key: TaskKey) -> None:
            if webhook is not None:
                await services.webhooks.put(key, webhook)

        return await services.submissions.start(
            call.caller,
            call.agent,
            asked.message,
            context=asked.context,
            metadata=metadata,
            prepare=prepare,
        )
    accepted = await services.idempotency.start(keyed, asked.message, asked.context, metadata)
    if webhook is not None:
        async with services.feeds.handed_on(accepted.feed):
            # Who is refused here sends the same under the same key again, and gets both.
            await services.webhooks.put(accepted.key, webhook)
    return accepted


def _webhook(
    services: Services, call: Call, asked: SendMessage, keyed: Keyed | None
) -> Webhook | None:
    config = asked.push_config
    if config is None:
        return None
    if keyed is not None:
        # However often it is sent, it is one webhook.
        config = {"id": f"key-{keyed.name[:32]}"} | config
    return webhook_of(services, call, config)


def _keyed(call: Call, asked: SendMessage) -> Keyed | None:
    """Return the key under which the message is sent; None: under none.

    Raises:
        Malformed: what the header says can't be a key.
    """
    key = call.idempotency_key
    if key is None:
        return None
    if not _KEY.fullmatch(key):
        raise Malformed([Violation(IDEMPOTENCY_KEY, "must be 1 to 255 printable ASCII characters")])
    return Keyed(call.caller, call.agent, key, asked.fingerprint())


def _metadata(call: Call, asked: SendMessage) -> Json:
    """Return what the client says beside its message, without what only we may say.

    Raises:
        Malformed: it wishes for terms that it can't have.
    """
    given = asked.metadata or {}
    metadata = {key: value for key, value in given.items() if not key.startswith(OWN)}
    if extensions := own(call.card) & set(call.extensions):
        metadata[EXTENSIONS] = sorted(extensions)
    if asked.accepted_output_modes:
        metadata[ACCEPTED_MODES] = asked.accepted_output_modes
    wished = {key.removeprefix(OWN): given[key] for key in given.keys() - metadata.keys()}
    metadata |= terms(call.caller, call.card, wished, f"metadata.{OWN}")
    if call.card.bare_message and asked.return_immediately:
        metadata[SHOWN] = True
    return metadata | call.marks
