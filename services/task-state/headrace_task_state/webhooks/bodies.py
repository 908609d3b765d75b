"""Bodies of notifications, in the A2A version of the webhook's client.

Clients of 0.3 are sent the whole task, folded from the log.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from headrace.jetstream.connection import Bus
from headrace.lazy import Lazy
from headrace.links import Links
from headrace.log import last_entry, replay
from headrace.model import json_text
from headrace.model.events import Json
from headrace.model.fold import TaskFold
from headrace.model.task import TERMINAL, TaskKey
from headrace.model.whole_numbers import carried, whole
from headrace.webhooks import OLD, TaskWebhook
from headrace_task_state.webhooks.deliveries import (
    Continues,
    WebhookDelivery,
    both_working,
    extends,
)
from headrace_task_state.webhooks.notice import NotConvertible

_MOST = 32
"""Maximum folds kept, so that the next delivery need not read the log from its start."""


@dataclass(slots=True)
class _KeptSnapshot:
    log: str
    fold: TaskFold


class Snapshots:
    """Folds logs up to the ends of consecutive deliveries."""

    def __init__(self, bus: Bus) -> None:
        """Read logs on `bus`."""
        self._bus = bus
        self._kept: OrderedDict[tuple[TaskKey, str], _KeptSnapshot] = OrderedDict()

    async def after(self, key: TaskKey, token: str, delivery: WebhookDelivery) -> Json:
        """Return the Task after the delivery, which is the webhook's next one or a repeated one.

        Raises:
            LogLost: the log has been emptied meanwhile.
            BusUnavailable: the log can't be read.
        """
        kept = self._kept.pop((key, token), None)
        if (
            kept is None
            or kept.log != delivery.log
            or kept.fold.generation not in (delivery.first - 1, delivery.generation)
        ):
            kept = _KeptSnapshot(delivery.log, await self._folded(key, delivery.first - 1))
        if kept.fold.generation < delivery.generation:
            for event in delivery.events:
                kept.fold.apply(event)
        if kept.fold.state not in TERMINAL:
            self._kept[key, token] = kept
            if len(self._kept) > _MOST:
                self._kept.popitem(last=False)
        return kept.fold.task()

    async def _folded(self, key: TaskKey, generation: int) -> TaskFold:
        """Return the fold of the log's events up to that generation."""
        fold = TaskFold()
        last = await last_entry(self._bus, key) if generation else None
        if last is None:
            return fold
        async for batch in replay(self._bus, key, 0, last.sequence):
            for entry in batch:
                for number, event in enumerate(entry.parsed(), entry.generation):
                    if number > generation:
                        return fold
                    fold.apply(event)
        return fold


def _old_form() -> Callable[[Json], bytes]:
    from a2a.compat.v0_3 import conversions  # noqa: PLC0415 - see OLD_FORM
    from a2a.types import a2a_pb2  # noqa: PLC0415 - as above
    from google.protobuf.json_format import ParseDict, ParseError  # noqa: PLC0415 - as above

    def in_old_form(event: Json) -> bytes:
        """Return what a StreamResponse of 1.0 contains, such as a Task, in 0.3's form.

        Raises:
            NotConvertible: 0.3, or protobuf, can't represent it.
        """
        try:
            core = ParseDict(carried(event), a2a_pb2.StreamResponse(), ignore_unknown_fields=True)
            converted = conversions.to_compat_stream_response(core).result
        except (ParseError, ValueError, TypeError, KeyError, RecursionError) as error:
            why = f"the event can't be converted to A2A 0.3: {error}"
            raise NotConvertible(why[:300]) from None
        return json_text.encode(
            whole(converted.model_dump(mode="json", by_alias=True, exclude_none=True))
        )

    return in_old_form


OLD_FORM = Lazy(_old_form)
"""Loaded with the first notification in 0.3: the SDK's models of it are a large import."""


def grouping_of(webhook: TaskWebhook) -> Continues:
    """Return which events are sent to the webhook as one."""
    return both_working if webhook.version == OLD else extends


async def event_of(
    webhook: TaskWebhook, key: TaskKey, token: str, delivery: WebhookDelivery, snapshots: Snapshots
) -> Json:
    """Return the StreamResponse of 1.0 to send to the webhook.

    For 0.3, and for the end of a task, that is the Task at that point, unless the agent answers
    with a bare Message.

    Raises:
        LogLost, BusUnavailable: as `Snapshots.after`.
    """
    if not (webhook.is_for_end or webhook.version == OLD) or "message" in delivery.events[-1]:
        return delivery.event()
    return {"task": await snapshots.after(key, token, delivery)}


async def body_of(webhook: TaskWebhook, event: Json) -> bytes:
    """Return the notification's body, with links of files as addresses.

    Raises:
        NotConvertible: the webhook's version can't represent the event.
    """
    text = json_text.encode(event)
    if webhook.base:
        text = Links(webhook.base).shown(text)
    if webhook.version != OLD:
        return text
    in_old_form = await OLD_FORM.ready()
    return in_old_form(json_text.decode(text))
