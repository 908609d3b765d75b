"""What stands in a notification: in the version that its webhook's client speaks."""

import orjson

from headrace.links import Links
from headrace.model.events import Json
from headrace.model.task import TaskKey
from headrace.webhooks import OLD, Webhook
from headrace_task_state.pushing.deliveries import Delivery, GoesOn, says_more, works_on
from headrace_task_state.pushing.old_form import in_old_form
from headrace_task_state.pushing.snapshots import Snapshots


def grouping_of(webhook: Webhook) -> GoesOn:
    """Return which events the webhook is told as one."""
    return works_on if webhook.version == OLD else says_more


async def event_of(
    webhook: Webhook, key: TaskKey, token: str, delivery: Delivery, snapshots: Snapshots
) -> Json:
    """Return the StreamResponse of 1.0 that the webhook is told.

    For 0.3 that is the Task as it is then, unless the agent answers with a bare Message.

    Raises:
        LogLost, BusUnavailable: as `Snapshots.after`.
    """
    if webhook.version != OLD or "message" in delivery.events[-1]:
        return delivery.event()
    return {"task": await snapshots.after(key, token, delivery)}


def body_of(webhook: Webhook, event: Json) -> bytes:
    """Return the body that tells it, links of files as addresses.

    Raises:
        Unsayable: the webhook's version has no words for it.
    """
    text = orjson.dumps(event)
    if webhook.base:
        text = Links(webhook.base).shown(text)
    return in_old_form(orjson.loads(text)) if webhook.version == OLD else text
