"""A program that stores its schedules again and again, and moves those for one time."""

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import httpx

from headrace.model.events import Json, timestamp

_AHEAD = timedelta(seconds=4)
_PAUSE = 0.3
_TIMEOUT = 10.0
_SERVERS_FAULT = 500
_TOO_MANY = 429


class ScheduleOwner:
    """The owner of the schedules of a run."""

    def __init__(
        self, http: httpx.AsyncClient, gateways: Sequence[str], specs: Mapping[str, Json]
    ) -> None:
        """Own the schedules with these names and specifications; those with `at` are moved."""
        self._http, self._gateways = http, itertools.cycle(gateways)
        self._specs = dict(specs)
        self.times = defaultdict[str, list[datetime]](list)
        """The times to which each schedule for one time was moved, the last one maybe."""
        self.is_certain = True
        """Whether the last times were stored for certain."""

    async def run(self) -> None:
        """Store and move schedules until cancelled."""
        while True:
            await asyncio.sleep(_PAUSE)  # Also in a run without schedules.
            for name in self._specs:
                for each in {name, *self._due()}:
                    if "at" in self._specs[each]:
                        await self._move(each)
                    else:
                        await self._store_again(each)
                await asyncio.sleep(_PAUSE)

    def _due(self) -> list[str]:
        """Return the schedules by the minute that are due in this second.

        JetStream fires up to 0.3 s late, and does not fire what is replaced before that.
        """
        second = str(_now().second)
        return [name for name, spec in self._specs.items() if _second_of(spec) == second]

    async def _store_again(self, name: str) -> None:
        """Store a schedule unchanged, or with another message if it fires once a minute."""
        spec = self._specs[name]
        if _second_of(spec).isdecimal():
            length, _, rest = spec["message"].partition(" ")
            spec = spec | {"message": f"{3 - int(length)} {rest}"}
            self._specs[name] = spec
        await self._put(name, spec)

    async def _move(self, name: str) -> None:
        """Move a schedule for one time to a later time once it has fired."""
        if self.times[name] and await self._state(name) != "ended":
            return
        at = (_now() + _AHEAD).replace(microsecond=0)
        self.times[name].append(at)
        self.is_certain = False
        await self._put(name, self._specs[name] | {"at": timestamp(at)})
        self.is_certain = True

    async def _state(self, name: str) -> str | None:
        try:
            answer = await self._http.get(self._path(name), timeout=_TIMEOUT)
        except httpx.HTTPError:
            return None
        state: str | None = answer.json()["state"] if answer.is_success else None
        return state

    async def _put(self, name: str, spec: Json) -> None:
        """Store a schedule, over any gateway, however often that takes."""
        while True:
            try:
                answer = await self._http.put(self._path(name), json=spec, timeout=_TIMEOUT)
            except httpx.HTTPError:
                await asyncio.sleep(_PAUSE)
                continue
            if answer.is_success:
                return
            is_passing = answer.status_code in {_TOO_MANY} | {*range(_SERVERS_FAULT, 600)}
            assert is_passing, f"{name}: {answer.text}"
            await asyncio.sleep(_PAUSE)

    def _path(self, name: str) -> str:
        return f"{next(self._gateways)}/v1/schedules/{name}"


def _second_of(spec: Json) -> str:
    return str(spec.get("cron", "*")).partition(" ")[0]


def _now() -> datetime:
    return datetime.now(UTC)
