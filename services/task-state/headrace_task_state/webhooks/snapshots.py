"""The whole task as of an event, for webhooks that are sent whole tasks."""

from collections import OrderedDict
from dataclasses import dataclass

from headrace.jetstream.connection import Bus
from headrace.log import last_entry, replay
from headrace.model.events import Json
from headrace.model.fold import TaskFold
from headrace.model.task import TERMINAL, TaskKey
from headrace_task_state.webhooks.deliveries import WebhookDelivery

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
