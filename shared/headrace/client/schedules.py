"""The client's schedules: messages that begin tasks at a time, at an interval, or by cron."""

import uuid
from collections.abc import Sequence
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

    async def put(  # noqa: PLR0913 - the fields of a schedule
        self,
        name: str,
        agent: str,
        message: str | Sequence[Json],
        *,
        at: datetime | str | None = None,
        every: str | None = None,
        cron: str | None = None,
        time_zone: str | None = None,
        overlap: Literal["skip", "queue", "replace"] | None = None,
        max_queued: int | None = None,
        jitter: float | None = None,
        end_at: datetime | str | None = None,
        max_firings: int | None = None,
        context: str | None = None,
        priority: str | None = None,
        answers: Json | None = None,
    ) -> Json:
        """Create a schedule, or replace the caller's one of that name. Return it.

        One that is the same already stays as it is. Exactly one of `at`, `every` and `cron` is
        required.

        Args:
            name: The schedule's name.
            agent: The agent that gets the message.
            message: The message of each task: text, or A2A Parts with text or data.
            at: The time of the only firing, with an offset from UTC.
            every: The time between two firings, such as ``90s`` or ``1h30m``; at least ``1s``.
            cron: A cron expression of five fields, or of six with seconds first.
            time_zone: IANA name of cron's time zone. None: UTC.
            overlap: What happens if the previous task has not ended. None: ``skip``.
            max_queued: Maximum number of firings that wait, with ``queue``. None: 10.
            jitter: Maximum of a random delay of each firing, in seconds.
            end_at: The time from which on it does not fire.
            max_firings: Number of tasks after which it ends.
            context: The conversation of the tasks. None: each has its own.
            priority: The priority of the tasks. None: the caller's.
            answers: What is published of the tasks, such as ``{"subject": "stock.counted"}``. None:
                nothing.
        """
        stated = {
            "agent": agent,
            "message": message if isinstance(message, str) else list(message),
            "at": at,
            "every": every,
            "cron": cron,
            "timeZone": time_zone,
            "overlap": overlap,
            "maxQueued": max_queued,
            "jitter": jitter,
            "endAt": end_at,
            "maxFirings": max_firings,
            "contextId": context,
            "priority": priority,
            "answers": answers,
        }
        body = {field: value for field, value in stated.items() if value is not None}
        return await self._ask("PUT", name, body=body)

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
