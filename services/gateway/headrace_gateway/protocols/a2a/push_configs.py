"""The four operations on push notification configs, and configs sent with a message."""

from a2a.types import a2a_pb2
from a2a.utils.errors import PushNotificationNotSupportedError

from headrace.model import messages
from headrace.model.entry import ANSWERED
from headrace.model.errors import TaskUnknown
from headrace.model.events import Json
from headrace.model.names import encode_token
from headrace.model.task import INTERRUPTED, TERMINAL, TaskKey
from headrace.webhooks import OLD, Address, Webhook, WebhookProgress, id_of
from headrace_gateway.call import Call
from headrace_gateway.protocols.a2a.protojson import read
from headrace_gateway.protocols.a2a.webhook_address import read_address, shown
from headrace_gateway.refusals import Malformed, Violation
from headrace_gateway.services import Services
from headrace_gateway.tasks.ids import task_key

PAGE_SIZES = range(1, 101)

_RESTS = TERMINAL | INTERRUPTED | {ANSWERED}


async def create_config(services: Services, call: Call, params: object) -> Json:
    """Store a webhook for the task and return its TaskPushNotificationConfig, including secrets.

    The webhook receives the events from now on and, if the task rests, the event that says so.

    Raises:
        PushNotificationNotSupportedError: the agent sends no push notifications.
        Malformed: the parameters do not fit the operation, or the webhook's address is invalid.
        TaskUnknown: the caller has no such task with this agent.
        TooManyWebhooks: the task has the maximum number of webhooks.
        BusUnavailable, StateUnavailable: try again.
    """
    check_push(services, call)
    config = read(a2a_pb2.TaskPushNotificationConfig, params)
    address = read_address(config)
    key, found = await _found(services, call, config.get("taskId", ""))
    back = 1 if found.state in _RESTS else 0
    progress = WebhookProgress(generation=found.generation - back, sequence=found.sequence - back)
    webhook = _webhook(call, config, address, progress)
    await services.detached.run(services.webhooks.put(key, webhook))
    return shown(key.task, webhook, secrets=True)


async def get_config(services: Services, call: Call, params: object) -> Json:
    """Return the TaskPushNotificationConfig, without secrets.

    Raises:
        PushNotificationNotSupportedError, Malformed, BusUnavailable, StateUnavailable: as
            `create_config`.
        TaskUnknown: the caller has no such task with this agent, or the task has no such config.
    """
    check_push(services, call)
    asked = read(a2a_pb2.GetTaskPushNotificationConfigRequest, params)
    key, _ = await _found(services, call, asked["taskId"])
    kept = await services.webhooks.get(key, encode_token(asked["id"]))
    found = None if kept is None else kept.webhook
    if found is None and call.version == OLD and asked["id"] == asked["taskId"]:
        # In 0.3 the id may be omitted, which means any config.
        found = next(iter(await services.webhooks.list(key)), None)
    if found is None:
        raise TaskUnknown(f"push config not found: task {key.task} has no {asked['id']!r}")
    return shown(key.task, found)


async def list_configs(services: Services, call: Call, params: object) -> Json:
    """Return the task's configs, without secrets, as a ListTaskPushNotificationConfigsResponse.

    Raises:
        PushNotificationNotSupportedError, Malformed, TaskUnknown, BusUnavailable, StateUnavailable:
        as
            `create_config`.
    """
    check_push(services, call)
    asked = read(a2a_pb2.ListTaskPushNotificationConfigsRequest, params)
    start, size = _page(asked)
    key, _ = await _found(services, call, asked["taskId"])
    found = await services.webhooks.list(key)
    configs = [shown(key.task, webhook) for webhook in found[start : start + size]]
    following = str(start + size) if len(found) > start + size else ""
    return {"configs": configs, "nextPageToken": following}


async def delete_config(services: Services, call: Call, params: object) -> Json:
    """Delete the config if it exists, and return an Empty.

    Raises:
        PushNotificationNotSupportedError, Malformed, TaskUnknown, BusUnavailable, StateUnavailable:
        as
            `create_config`.
    """
    check_push(services, call)
    asked = read(a2a_pb2.DeleteTaskPushNotificationConfigRequest, params)
    key, _ = await _found(services, call, asked["taskId"])
    await services.detached.run(services.webhooks.delete(key, encode_token(asked["id"])))
    return {}


def webhook_of(services: Services, call: Call, config: Json) -> Webhook:
    """Return the webhook sent with a message; for a new task it receives every event.

    Raises:
        PushNotificationNotSupportedError, Malformed: as `create_config`.
    """
    check_push(services, call)
    address = read_address(config, "configuration.taskPushNotificationConfig.")
    return _webhook(call, config, address, WebhookProgress(generation=0))


def _webhook(call: Call, config: Json, address: Address, progress: WebhookProgress) -> Webhook:
    return Webhook(
        id=config.get("id") or id_of(address, call.version),
        owner=call.caller.owner,
        address=address,
        progress=progress,
        version=call.version,
        base=call.base,
    )


async def attach(services: Services, call: Call, task: str, webhook: Webhook) -> None:
    """Store a webhook for the events after a message to an existing task.

    Raises:
        TaskUnknown, TooManyWebhooks, BusUnavailable, StateUnavailable: as `create_config`.
    """
    key, found = await _found(services, call, task)
    progress = WebhookProgress(generation=found.generation, sequence=found.sequence)
    webhook = webhook.model_copy(update={"progress": progress})
    await services.detached.run(services.webhooks.put(key, webhook))


def check_push(services: Services, call: Call) -> None:
    """Check that the agent's tasks may have webhooks.

    Raises:
        PushNotificationNotSupportedError: they may not.
    """
    if not (services.settings.push_notifications and call.card.push_notifications):
        raise PushNotificationNotSupportedError(f"agent {call.agent} sends no push notifications")


async def _found(services: Services, call: Call, task: str) -> tuple[TaskKey, messages.TaskFound]:
    key = task_key(services.settings, call.caller, call.agent, task)
    query = messages.GetTask(
        tenant=key.tenant, owner=call.caller.owner, agent=key.agent, task=key.task, history_length=0
    )
    return key, await services.state.get(query)


def _page(asked: Json) -> tuple[int, int]:
    size, token = asked.get("pageSize", PAGE_SIZES[-1]), asked.get("pageToken", "0")
    violations = []
    if size not in PAGE_SIZES:
        violations.append(Violation("pageSize", "must be from 1 to 100"))
    if not (token.isascii() and token.isdecimal() and len(token) < len("10000")):
        violations.append(Violation("pageToken", "must be one of ours"))
    if violations:
        raise Malformed(violations)
    return int(token), size
