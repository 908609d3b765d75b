"""Push notification configs: validation, the four operations, and configs sent with a message."""

import re
from ipaddress import IPv6Address
from urllib.parse import urlsplit

from a2a.types import a2a_pb2
from a2a.utils.errors import PushNotificationNotSupportedError

from headrace.model.errors import InvalidName, TaskUnknown
from headrace.model.events import Json
from headrace.model.messages import TaskFound
from headrace.model.subjects import encode_token
from headrace.model.task import FINISHED, INTERRUPTED, TaskKey
from headrace.webhooks import OLD, WAIT, Address, TaskWebhook, WebhookProgress, id_of
from headrace_gateway.call import Call
from headrace_gateway.protocols.a2a.protojson import read
from headrace_gateway.refusals import Malformed, Violation
from headrace_gateway.server.public_url import public_url
from headrace_gateway.services import Services
from headrace_gateway.tasks.ids import query_of, task_key

LONGEST_URL = 2048
LONGEST_SECRET = 4096

_URL = re.compile(r"[\x21-\x7e]+")
_NAME = re.compile(r"([A-Za-z0-9_-]{1,63}\.)*[A-Za-z0-9_-]{1,63}\.?")
_LONGEST_NAME = 253
_HEADER = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
_SCHEME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def read_address(config: Json, path: str = "") -> Address:
    """Return the address in a TaskPushNotificationConfig (canonical ProtoJSON).

    Whether the host may be called is checked when the connection is made.

    Raises:
        Malformed: the address is invalid; `path` is the config's path in its request.
    """
    authentication = config.get("authentication") or {}
    violations = [
        Violation(f"{path}{field}", rule)
        for field, rule in (
            ("url", _fault_of_url(config.get("url", ""))),
            ("token", _fault_of(config.get("token"), _HEADER)),
            ("authentication.scheme", _fault_of(authentication.get("scheme"), _SCHEME)),
            ("authentication.credentials", _fault_of(authentication.get("credentials"), _HEADER)),
            ("id", _fault_of_id(config.get("id"))),
        )
        if rule
    ]
    if violations:
        raise Malformed(violations)
    return Address(
        url=config["url"],
        token=config.get("token"),
        scheme=authentication.get("scheme"),
        credentials=authentication.get("credentials"),
    )


def shown(task: str, webhook: TaskWebhook, *, secrets: bool = False) -> Json:
    """Return the TaskPushNotificationConfig, with or without `secrets`."""
    address = webhook.address
    config: Json = {"id": webhook.id, "taskId": task, "url": address.url}
    authentication = {} if address.scheme is None else {"scheme": address.scheme}
    if secrets:
        config |= {} if address.token is None else {"token": address.token}
        if authentication and address.credentials is not None:
            authentication["credentials"] = address.credentials
    return config | ({"authentication": authentication} if authentication else {})


def _fault_of_url(url: str) -> str:
    if not url:
        return "is required"
    if len(url) > LONGEST_URL or not _URL.fullmatch(url):
        return f"must be printable ASCII, at most {LONGEST_URL} characters (others are %-encoded)"
    try:
        where = urlsplit(url)
        is_called = where.hostname and where.port != 0 and where.scheme in {"http", "https"}
    except ValueError:
        is_called = False
    if not is_called:
        return "must be an https or http URL with a host"
    where = urlsplit(url)
    if not _is_host(where.hostname or "", is_address="[" in where.netloc):
        return "must have a host name or IP address"
    if "@" in where.netloc or where.fragment:
        return "must not contain a user or a fragment; send credentials in `authentication`"
    return ""


def _is_host(host: str, *, is_address: bool) -> bool:
    """Return whether `host` can be resolved: a DNS name, or an address without a zone."""
    if not is_address:
        return len(host) <= _LONGEST_NAME and _NAME.fullmatch(host) is not None
    try:
        return IPv6Address(host).scope_id is None
    except ValueError:
        return False


def _fault_of(text: str | None, pattern: re.Pattern[str]) -> str:
    if text is None or (len(text) <= LONGEST_SECRET and pattern.fullmatch(text)):
        return ""
    return f"must be printable ASCII of at most {LONGEST_SECRET} characters, to fit into a header"


def _fault_of_id(name: str | None) -> str:
    if (name or "").startswith(WAIT):
        return f"must not begin with {WAIT!r}, as those of runs that wait for the task do"
    try:
        encode_token(name or "-")
    except InvalidName as invalid:
        return invalid.rule
    return ""


PAGE_SIZES = range(1, 101)

RUN_ENDED = FINISHED | INTERRUPTED
"""States in which no run is at work: the task is over, or waits for its user."""


async def create_config(services: Services, call: Call, params: object) -> Json:
    """Store a webhook for the task and return its TaskPushNotificationConfig, including secrets.

    The webhook receives the events from now on and, if no run is at work, the event of that state.

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
    back = 1 if found.state in RUN_ENDED else 0
    progress = WebhookProgress(
        generation=found.generation - back,
        sequence=found.sequence - back,
        traceparent=found.traceparent,
    )
    webhook = _webhook(services, call, config, address, progress)
    await services.background.run(services.webhooks.put(key, webhook))
    return shown(key.task, webhook, secrets=True)


async def get_config(services: Services, call: Call, params: object) -> Json:
    """Return the TaskPushNotificationConfig, without secrets.

    Raises:
        PushNotificationNotSupportedError, Malformed, BusUnavailable, StateUnavailable: as
            `create_config`.
        TaskUnknown: the caller has no such task with this agent, or the task has no such config.
    """
    check_push(services, call)
    parameters = read(a2a_pb2.GetTaskPushNotificationConfigRequest, params)
    key, _ = await _found(services, call, parameters["taskId"])
    kept = await services.webhooks.get(key, encode_token(parameters["id"]))
    found = None if kept is None or kept.webhook.wakes is not None else kept.webhook
    if found is None and call.version == OLD and parameters["id"] == parameters["taskId"]:
        # In 0.3 the id may be omitted, which means any config.
        found = next(iter(await services.webhooks.list(key)), None)
    if found is None:
        raise TaskUnknown(f"push config not found: task {key.task} has no {parameters['id']!r}")
    return shown(key.task, found)


async def list_configs(services: Services, call: Call, params: object) -> Json:
    """Return the task's configs, without secrets, as a ListTaskPushNotificationConfigsResponse.

    Raises:
        PushNotificationNotSupportedError, Malformed, TaskUnknown, BusUnavailable, StateUnavailable:
            as `create_config`.
    """
    check_push(services, call)
    parameters = read(a2a_pb2.ListTaskPushNotificationConfigsRequest, params)
    start, size = _page(parameters)
    key, _ = await _found(services, call, parameters["taskId"])
    found = await services.webhooks.list(key)
    configs = [shown(key.task, webhook) for webhook in found[start : start + size]]
    following = str(start + size) if len(found) > start + size else ""
    return {"configs": configs, "nextPageToken": following}


async def delete_config(services: Services, call: Call, params: object) -> Json:
    """Delete the config if it exists, and return an Empty.

    Raises:
        PushNotificationNotSupportedError, Malformed, TaskUnknown, BusUnavailable, StateUnavailable:
            as `create_config`.
    """
    check_push(services, call)
    parameters = read(a2a_pb2.DeleteTaskPushNotificationConfigRequest, params)
    key, _ = await _found(services, call, parameters["taskId"])
    if not parameters["id"].startswith(WAIT):
        token = encode_token(parameters["id"])
        await services.background.run(services.webhooks.delete(key, token))
    return {}


def webhook_of(services: Services, call: Call, config: Json) -> TaskWebhook:
    """Return the webhook sent with a message, which receives every event from that on.

    Raises:
        PushNotificationNotSupportedError, Malformed: as `create_config`.
    """
    check_push(services, call)
    address = read_address(config, "configuration.taskPushNotificationConfig.")
    return _webhook(services, call, config, address, WebhookProgress(generation=0))


def _webhook(
    services: Services, call: Call, config: Json, address: Address, progress: WebhookProgress
) -> TaskWebhook:
    return TaskWebhook(
        id=config.get("id") or id_of(address, call.version),
        owner=call.caller.owner,
        address=address,
        progress=progress,
        version=call.version,
        base=public_url(call.connection, services.settings),
    )


def check_push(services: Services, call: Call) -> None:
    """Check that the agent's tasks may have webhooks.

    Raises:
        PushNotificationNotSupportedError: they may not.
    """
    if not (services.settings.push_notifications and call.card.push_notifications):
        raise PushNotificationNotSupportedError(
            f"agent {call.agent} does not support push notifications"
        )


async def _found(services: Services, call: Call, task: str) -> tuple[TaskKey, TaskFound]:
    key = task_key(services.settings, call.caller, call.agent, task)
    return key, await services.state.get(query_of(call.caller, key, history_length=0))


def _page(parameters: Json) -> tuple[int, int]:
    size, token = parameters.get("pageSize", PAGE_SIZES[-1]), parameters.get("pageToken", "0")
    violations = []
    if size not in PAGE_SIZES:
        violations.append(Violation("pageSize", "must be from 1 to 100"))
    if not (token.isascii() and token.isdecimal() and len(token) < len("10000")):
        violations.append(Violation("pageToken", "must be a token from a previous response"))
    if violations:
        raise Malformed(violations)
    return int(token), size
