"""The client's schedules: messages that begin tasks at a time, at an interval, or by cron."""

import uuid
from datetime import datetime
from typing import Literal

from headrace.client.declarations import ClientDeclarations
from headrace.client.gateways import Gateways
from headrace.model.events import Json


class ClientSchedules(ClientDeclarations):
    """The caller's schedules: `Client.schedules`."""

    def __init__(self, gateways: Gateways) -> None:
        """Use a fleet's gateways."""
        super().__init__(gateways, "schedules")

    async def run_now(self, name: str) -> Json:
        """Fire a schedule once, now, besides its own times. Return it."""
        return await self._ask("POST", name, ":run", {"Idempotency-Key": str(uuid.uuid4())})

    async def back_fill(
        self,
        name: str,
        start: datetime | str,
        end: datetime | str,
        overlap: Literal["skip", "queue", "replace"] = "queue",
    ) -> int:
        """Fire a schedule by cron for each of its times from `start` to `end`; return their number.

        No second task begins for a time whose task has already begun.

        Args:
            name: The schedule's name.
            start: The first time: with an offset from UTC.
            end: The last time; not later than now.
            overlap: What a firing does if the task before has not ended.
        """
        body = {"from": start, "to": end, "overlap": overlap}
        answer = await self._ask("POST", name, ":backfill", body=body)
        return int(answer["firings"])
