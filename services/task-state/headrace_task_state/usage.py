"""Usage of runs: tokens, cost, runs and their time, each event of a log counted once.

Usage is counted while the log is applied to the view, in the same write. A ledger per task holds
the generation up to which its log is counted, so a replay, another replica or a new view counts
nothing twice. Totals and ledgers are kept beside the views: totals outlive their tasks, and a
ledger outlives the view that was built with it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from headrace.model import parts
from headrace.model.change import DROP, OUT, Change
from headrace.model.task import BARE_MESSAGE, RUN_OVER, WORKING, TaskKey

KEPT_DAYS = 400
"""Days for which the totals of a day are kept after the last change, unless another is given."""

INPUT, OUTPUT, TOKENS, COST = "input", "output", "tokens", "cost"
RUNS, MILLISECONDS = "runs", "ms"

COST_UNIT = 1_000_000
"""Counted units of cost per unit of the currency."""

_LARGEST = 10**12
"""Largest count of one report. Larger ones are ignored, so that no total overflows."""

START, REPORT, END = "start", "report", "end"


class UsageRecord(NamedTuple):
    """Usage in one event."""

    generation: int
    kind: str
    """`START`: an attempt works on the run, `REPORT`: the agent has reported usage, `END`: the run
    has ended."""
    time: int
    """When the event was stored, milliseconds since 1970."""
    day: str
    """The same as a date in UTC."""
    input: int = 0
    output: int = 0
    tokens: int = 0
    """The reported total, or input and output."""
    cost: int = 0
    """In units of 1/`COST_UNIT`."""


class UsageRow(NamedTuple):
    """Counts of one day, owner, agent and root."""

    day: str
    owner: str
    """As a subject token, or ``*``: all owners for whom the Redis store had no counter left."""
    agent: str
    """The agent that used it."""
    root: str
    """The agent of the first task: of the task that delegated, if another task asked for this
    one."""
    counts: Counter[str]
    """By `INPUT`, `OUTPUT`, `TOKENS`, `COST`, `RUNS` and `MILLISECONDS`."""


@dataclass(slots=True)
class Ledger:
    """How far one log is counted."""

    log: str
    generation: int
    root: str
    started: int | None = None
    """When the first attempt at the present run began, milliseconds since 1970."""


def records_of(change: Change, stored: int, *, is_working: bool) -> list[UsageRecord]:
    """Return the usage in an event stored at `stored` (ns); `is_working`: its run has started."""
    state = BARE_MESSAGE if change.answer is not None else (change.status or {}).get("state", "")
    reports = [found for _, tag, value in change.history if tag == OUT for found in _reports(value)]
    # A fork of a running task begins with a later attempt: the first one is its source's.
    is_later = DROP in [tag for _, tag, *_ in change.history]
    starts = state == WORKING and (is_later or not is_working)
    ends = state in RUN_OVER or (change.is_input and change.generation > 1)
    if not (reports or starts or ends):
        return []
    ms = stored // 1_000_000
    at = change.generation
    day = datetime.fromtimestamp(ms / 1000, UTC).date().isoformat()
    return [
        *([UsageRecord(at, START, ms, day)] if starts else []),
        *(UsageRecord(at, REPORT, ms, day, *report) for report in reports),
        *([UsageRecord(at, END, ms, day)] if ends else []),
    ]


def _reports(message: dict[str, Any]) -> Iterable[tuple[int, int, int, int]]:
    # A message of the user that a run takes is in its output, too, and reports nothing.
    is_users = message.get("role") == "ROLE_USER"
    for part in () if is_users else message.get("parts") or ():
        metadata, used = part.get("metadata"), part.get("data")
        if (
            type(metadata) is dict
            and metadata.get(parts.EVENT_TYPE) == parts.USAGE
            and type(used) is dict
        ):
            read, written = _count(used.get("inputTokens")), _count(used.get("outputTokens"))
            total = _count(used.get("totalTokens")) or read + written
            yield read, written, total, _count(used.get("cost"), COST_UNIT)


def _count(value: object, unit: int = 1) -> int:
    if type(value) not in {int, float} or not 0 <= value * unit <= _LARGEST:  # type: ignore[operator]
        return 0
    return round(value * unit)  # type: ignore[operator]


@dataclass(slots=True)
class CountedUsage:
    """Ledgers and totals in memory: what ``lua/usage.lua`` keeps in Redis."""

    ledgers: dict[tuple[str, str], Ledger] = field(default_factory=dict)
    totals: dict[tuple[str, str], dict[tuple[str, str, str], Counter[str]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(Counter))
    )
    """By tenant and day; by owner, agent and root."""

    def count(
        self,
        key: TaskKey,
        owner: str,
        log: str,
        records: Sequence[UsageRecord],
        *,
        root: str = "",
        copied: int = 0,
    ) -> None:
        """Count the `records` of the log that are not counted yet."""
        if not (records or root or copied):
            return
        ledger = self.ledgers.get((key.tenant, key.task))
        if ledger is None or ledger.log != log:
            ledger = Ledger(log, copied, root or key.agent)
            self.ledgers[key.tenant, key.task] = ledger
        for record in [one for one in records if one.generation > ledger.generation]:
            used = Counter[str]()
            if record.kind == START and ledger.started is None:
                ledger.started = record.time
            elif record.kind == END and ledger.started is not None:
                used[RUNS], used[MILLISECONDS] = 1, max(record.time - ledger.started, 0)
                ledger.started = None
            elif record.kind == REPORT:
                named = (INPUT, OUTPUT, TOKENS, COST)
                used.update(dict(zip(named, record[-len(named) :], strict=True)))
            if used := +used:
                row = owner, key.agent, ledger.root
                self.totals[key.tenant, record.day][row] += used
        ledger.generation = max([ledger.generation, *(one.generation for one in records)])

    def rows(self, tenant: str, days: Iterable[str]) -> list[UsageRow]:
        """Return the rows of these days."""
        return [
            UsageRow(day, *row, counts)
            for day in days
            for row, counts in self.totals.get((tenant, day), {}).items()
        ]
