"""ForkTask: a new task with the past of another one. An operation of an extension (`FORKS`)."""

from headrace.model.events import Json
from headrace.model.messages import GetTask
from headrace_gateway.call import Call
from headrace_gateway.protocols.a2a.messages import input_metadata, keyed_request
from headrace_gateway.protocols.a2a.parameters import ForkTaskParams
from headrace_gateway.services import Services
from headrace_gateway.tasks.fork import ForkRequest
from headrace_gateway.tasks.ids import task_key
from headrace_gateway.tasks.terms import check_parts


async def fork_task(services: Services, call: Call, params: object) -> Json:
    """Begin a fork of the caller's task and return it, without waiting for its run.

    Raises:
        Malformed: the parameters do not fit the operation, or the task has no such generation.
        ContentTypeNotSupportedError: the agent does not accept a part of the message.
        TaskUnknown: the caller has no such task with this agent, or its beginning is gone.
        KeyReused, TooManyWaiting, EventTooLarge, Unsettled: as SendMessage.
        BusUnavailable, StateUnavailable: try again.
    """
    asked = ForkTaskParams.read(params)
    source = task_key(services.settings, call.caller, call.agent, asked.task)
    message, metadata = None, None
    if asked.sending is not None:
        message, metadata = asked.sending.message, input_metadata(call, asked.sending)
        check_parts(message, call.card)
    request = ForkRequest(source, asked.generation, message, metadata, call.traceparent or None)
    keyed = keyed_request(call, asked.fingerprint)
    if keyed is None:
        key, _ = await services.forker.fork(call.caller, request)
    else:
        key, _ = await services.forker.fork_once(services.idempotency, keyed, request)
    query = GetTask(tenant=key.tenant, owner=call.caller.owner, agent=key.agent, task=key.task)
    return (await services.state.get(query)).task
