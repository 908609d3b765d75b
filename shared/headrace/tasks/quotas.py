"""Quotas: what a tenant, an owner or an agent may use in a day or a month, or have open at once.

The counts are task state's, from the logs, so all processes check the same ones. Each reads
them at most every `FRESH` seconds, and only while requests come that a quota concerns.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Literal, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from headrace import clock
from headrace.metrics import QUOTA_WARNINGS
from headrace.model.errors import HeadraceError, SettingInvalid, StateUnavailable
from headrace.model.messages import GetUsage, UsageFound
from headrace.model.subjects import encode_token
from headrace.tasks.open_task_counts import OpenScope, OpenTaskCounts, TaskLists
from headrace.toml_file import read_toml

_log = logging.getLogger(__name__)

FRESH = 2.0
"""Seconds for which counts are used."""

FRESH_EARLIER = 600.0
"""The same for those of a month's earlier days, which hardly change."""

_TIMEOUT = 1.0
"""Seconds to wait for counts; without them, requests are accepted."""

_EACH = "*"


class QuotaExceeded(HeadraceError):
    """A quota of the tenant, the owner or the agent is used up; nothing was started."""

    code = "quota_exceeded"

    def __init__(self, message: str, retry_after: int = 1, *, asks: bool = False) -> None:
        """Keep the seconds until the quota's period ends, and whether to ask instead."""
        super().__init__(message)
        self.retry_after = retry_after
        self.asks = asks
        """Whether the message is accepted, and its task waits for its user."""


@dataclass(frozen=True, slots=True)
class QuotaWarning:
    """A quota of which a request has passed the share that is warned of."""

    quota: str
    what: str
    """``tokens``, ``cost``, ``runs`` or ``open``; of a limit in the settings ``requests`` or
    ``waiting``."""
    used: float
    limit: float
    period: str
    """``day``, ``month`` or ``minute``; ``now`` for open tasks and waiting runs."""

    def __str__(self) -> str:
        """Return it for a log: ``900 of 1,000 runs per day``."""
        what = _AT_ONCE.get(self.what) or f"{self.what} per {self.period}"
        return f"{_number(self.used)} of {_number(self.limit)} {what}"


_AT_ONCE = {"open": "open tasks", "waiting": "waiting runs"}

SOFT = 0.8
"""Share of a limit in the settings from which is warned, as by quotas that state none."""


def _log_only(warning: QuotaWarning) -> None:
    """Call no other function."""


class LimitWarnings[Whose: Hashable]:
    """Warns of limits in the settings that are nearly reached, as quotas do."""

    def __init__(
        self,
        names: Sequence[str],
        warn: Callable[[QuotaWarning], None] = _log_only,
        shared: Sequence[str] = (),
    ) -> None:
        """Count warnings of the limits called `names` and `shared` from zero.

        `warn` is called in the task of each request that is accepted although one of `names` is
        near. Of those in `shared` it is not: they count what all tenants use together, which is
        for operators to know.
        """
        self._warn, self._shared = warn, frozenset(shared)
        self.near: set[tuple[str, Whose]] = set()
        """Limits, and whose, that have been logged and are near since."""
        for name in (*names, *shared):
            QUOTA_WARNINGS.labels(name)

    def forget(self, name: str, whose: Whose) -> None:
        """Log the limit `name` of `whose` again when it is near again."""
        self.near.discard((name, whose))

    def look(self, name: str, whose: Whose, used: float, limit: float) -> None:
        """Warn if the limit `name` of `whose` is near; it is logged once until it is not."""
        place = (name, whose)
        if used < limit * SOFT:
            self.forget(name, whose)
            return
        what = name.partition("-")[0]
        period = "minute" if what == "requests" else "now"
        warning = QuotaWarning(name, what, used, limit, period)
        QUOTA_WARNINGS.labels(name).inc()
        if name not in self._shared:
            self._warn(warning)
        if place not in self.near:
            self.near.add(place)
            _log.warning("limit %s: %s used by %s", name, warning, whose)


class QuotasUnreadable(SettingInvalid):
    """The file of quotas is missing or invalid."""

    code = "quotas_unreadable"


class Quota(BaseModel):
    """One ``[[quota]]`` of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    name: str = Field(min_length=1, max_length=64)
    tenant: str = _EACH
    owner: str | None = None
    agent: str | None = None
    period: Literal["day", "month"] = "day"
    tokens: int | None = Field(default=None, ge=0)
    cost: float | None = Field(default=None, ge=0)
    runs: int | None = Field(default=None, ge=0)
    open: int | None = Field(default=None, ge=0)
    warn_at: float = Field(default=0.8, ge=0, le=1)
    enforce: bool = True
    at_limit: Literal["refuse", "input-required"] = "refuse"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.limits and self.open is None:
            raise ValueError("needs at least one of tokens, cost, runs and open")
        return self

    @property
    def limits(self) -> dict[str, float]:
        """The limits of a period, by what they limit."""
        stated = {"tokens": self.tokens, "cost": self.cost, "runs": self.runs}
        return {what: limit for what, limit in stated.items() if limit is not None}

    def concerns(self, use: "QuotaSubject") -> bool:
        """Return whether it limits this use."""
        pairs = ((self.tenant, use.tenant), (self.owner, use.owner))
        names = all(one in (None, _EACH) or encode_token(one) == token for one, token in pairs)
        return names and self.agent in (None, _EACH, use.agent)

    def scope(self, use: "QuotaSubject") -> OpenScope:
        """Return whose open tasks count for this use."""
        return OpenScope(
            use.tenant, use.owner if self.owner else None, use.agent if self.agent else None
        )


@dataclass(frozen=True, slots=True)
class QuotaSubject:
    """The caller and the agent of a run; tenant and owner as subject tokens."""

    tenant: str
    owner: str
    agent: str


class _QuotasFile(BaseModel):
    model_config = ConfigDict(extra="forbid", defer_build=True)

    quota: list[Quota]

    @model_validator(mode="after")
    def _check(self) -> Self:
        numbers = Counter(one.name for one in self.quota)
        if repeated := [repr(name) for name, number in numbers.items() if number > 1]:
            raise ValueError(f"each quota needs a name of its own; repeated: {', '.join(repeated)}")
        return self


def read_quotas(path: Path) -> list[Quota]:
    """Read the file of quotas.

    Raises:
        QuotasUnreadable: it is missing or not TOML, or keys break rules; the message names each key
            with its rule.
    """
    return read_toml(path, _QuotasFile, QuotasUnreadable).quota


class UsageSource(TaskLists, Protocol):
    """Task state, as far as quotas need it."""

    async def usage(self, query: GetUsage) -> UsageFound:
        """Return usage; raises StateUnavailable."""


@dataclass(slots=True)
class _Counts:
    """What a tenant has used on some days, by owner and root agent."""

    fresh_until: float = float("-inf")
    """Time of the loop."""
    by: Mapping[tuple[str, str], Counter[str]] = field(default_factory=dict)
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)


class Quotas:
    """Refuses runs once a quota is used up."""

    def __init__(
        self,
        quotas: list[Quota],
        source: UsageSource,
        now: Callable[[], datetime] = clock.now,
        fresh: float = FRESH,
        warn: Callable[[QuotaWarning], None] = _log_only,
    ) -> None:
        """Check `quotas` against the counts of `source`, which are used for `fresh` seconds.

        `warn` is called in the task of each run that begins although a quota is nearly used up.
        """
        self._on_warning = warn
        self._fresh = fresh
        self._quotas, self._source, self._now = quotas, source, now
        self._counts: dict[tuple[str, str, str], _Counts] = {}
        self._open = OpenTaskCounts(source, fresh)
        self._warned: set[tuple[str, ...]] = set()
        self._today = date.min
        for quota in quotas:
            QUOTA_WARNINGS.labels(quota.name)

    async def check(self, use: QuotaSubject, *, opens: bool = True) -> None:
        """Return if another run may begin, or if not `opens`, if an open task may continue.

        Raises:
            QuotaExceeded: a quota is used up until its period ends, or a task does. It asks only if
                no used up quota refuses.
        """
        asking: QuotaExceeded | None = None
        for quota in self._quotas:
            if not quota.concerns(use):
                continue
            try:
                await self._check(quota, use, opens=opens)
            except QuotaExceeded as exceeded:
                if not exceeded.asks:
                    raise
                asking = asking or exceeded
        if asking is not None:
            raise asking

    def began(self, use: QuotaSubject) -> None:
        """Count a run that begins as an open task, until task state does."""
        for quota in self._quotas:
            if quota.open is not None and quota.concerns(use):
                self._open.begun(quota.scope(use))

    async def _check(self, quota: Quota, use: QuotaSubject, *, opens: bool) -> None:
        now = self._now().astimezone(UTC)
        if now.date() != self._today:
            self._today = now.date()
            self._counts.clear()
            self._warned.clear()
        if quota.limits:
            await self._check_period(quota, use, now)
        if opens and quota.open is not None:
            await self._check_open(quota, use, quota.open)

    async def _check_period(self, quota: Quota, use: QuotaSubject, now: datetime) -> None:
        used = await self._used(quota, use, now)
        for what, limit in quota.limits.items():
            if used[what] >= limit and quota.enforce:
                ends = _end(quota, now)
                raise QuotaExceeded(
                    f"quota {quota.name!r} is used up: {_number(limit)} {what} per {quota.period};"
                    f" try again at {ends.isoformat().replace('+00:00', 'Z')}",
                    max(1, -int((now - ends).total_seconds() // 1)),
                    asks=quota.at_limit == "input-required",
                )
            if used[what] >= limit * quota.warn_at:
                warning = QuotaWarning(quota.name, what, used[what], limit, quota.period)
                self._warn(quota, use, warning)

    async def _check_open(self, quota: Quota, use: QuotaSubject, limit: int) -> None:
        found = await self._open.number(quota.scope(use), limit)
        if found >= limit and quota.enforce:
            raise QuotaExceeded(
                f"quota {quota.name!r} is used up: {_number(limit)} open tasks; try again when one"
                " of them has ended",
                asks=quota.at_limit == "input-required",
            )
        if found >= limit * quota.warn_at:
            self._warn(quota, use, QuotaWarning(quota.name, "open", found, limit, "now"))

    def _warn(self, quota: Quota, use: QuotaSubject, warning: QuotaWarning) -> None:
        QUOTA_WARNINGS.labels(quota.name).inc()
        self._on_warning(warning)
        named = (
            use.tenant,
            use.owner if quota.owner else "-",
            use.agent if quota.agent else "-",
        )
        if (quota.name, *named) in self._warned:
            return
        self._warned.add((quota.name, *named))
        _log.warning(
            "quota %s: %s used by tenant=%s owner=%s agent=%s", *(quota.name, warning, *named)
        )

    async def _used(self, quota: Quota, use: QuotaSubject, now: datetime) -> Counter[str]:
        used = Counter[str]()
        for first, last, fresh in self._days(quota, now):
            counts = await self._read(use.tenant, first, last, fresh)
            for (owner, root), found in counts.by.items():
                if (not quota.owner or owner == use.owner) and (
                    not quota.agent or root == use.agent
                ):
                    used.update(found)
        return used

    def _days(self, quota: Quota, now: datetime) -> Iterator[tuple[str, str, float]]:
        """Yield first and last days of the period up to now, and how long counts are fresh."""
        today = now.date()
        if quota.period == "month" and today.day > 1:
            yesterday = today - timedelta(days=1)
            yield today.replace(day=1).isoformat(), yesterday.isoformat(), FRESH_EARLIER
        yield today.isoformat(), today.isoformat(), self._fresh

    async def _read(self, tenant: str, first: str, last: str, fresh: float) -> _Counts:
        loop, key = asyncio.get_running_loop(), (tenant, first, last)
        counts = self._counts.setdefault(key, _Counts())
        async with counts.reading:
            if loop.time() < counts.fresh_until:
                return counts
            query = GetUsage(tenant=tenant, first=first, last=last, by=["owner", "root"])
            try:
                async with asyncio.timeout(_TIMEOUT):
                    counts.by = _by(await self._source.usage(query))
            except (StateUnavailable, TimeoutError) as error:
                fresh = min(fresh, self._fresh)
                _log.warning("quotas: no new counts of usage: %s", error or "no answer in time")
            counts.fresh_until = loop.time() + fresh
        return counts


def _by(found: UsageFound) -> Mapping[tuple[str, str], Counter[str]]:
    by = defaultdict[tuple[str, str], Counter[str]](Counter)
    for row in found.rows:
        counts = {"tokens": row.tokens, "cost": row.cost, "runs": row.runs}
        by[row.owner or "", row.root or ""].update(counts)
    return by


def _end(quota: Quota, now: datetime) -> datetime:
    """Return when the period ends."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if quota.period == "day":
        return midnight + timedelta(days=1)
    return (midnight.replace(day=28) + timedelta(days=4)).replace(day=1)


def _number(amount: float) -> str:
    return f"{amount:,.2f}".removesuffix(".00")
