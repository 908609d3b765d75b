"""The outcome of an accepted input, as the client that sent it waits for it."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from headrace.model.errors import BusUnavailable, LogTooNew, StateUnavailable
from headrace_gateway.call import Call
from headrace_gateway.refusals import AnswerLost, GatewayStopping
from headrace_gateway.services import Services
from headrace_gateway.streaming.renderer import Renderer
from headrace_gateway.streaming.wait import Wait
from headrace_gateway.tasks.submission import AcceptedInput


@contextmanager
def map_errors(call: Call, accepted: AcceptedInput) -> Iterator[None]:
    """Convert read failures in the block to one that does not suggest sending the message again.

    With an Idempotency-Key it may be sent again, so the errors stay unchanged.

    Raises:
        AnswerLost: the outcome cannot be read now.
    """
    try:
        yield
    except (BusUnavailable, LogTooNew, StateUnavailable) as error:
        if call.idempotency_key is not None:
            raise
        raise AnswerLost(accepted.key.task, accepted.context) from error


async def wait_for(
    services: Services, call: Call, accepted: AcceptedInput, collector: Renderer, after: int
) -> None:
    """Wait until `collector` is over, which reads what follows generation `after`.

    Raises:
        ClientDisconnect: the client has disconnected.
        GatewayStopping: the gateway stops, or the log is full.
        LogLost, BusUnavailable: the log cannot be read further.
    """
    is_full = partial(services.full_streams.has, accepted.key)
    silence = services.timing.full_stream
    shared, feed = services.subscriptions, accepted.feed
    wait = Wait(shared, feed, after, collector, is_full=is_full, silence=silence)
    why = await wait.over(call.disconnects)
    if why is not None:
        raise why.error or GatewayStopping(why.reason, accepted.key.task, accepted.context)
