"""The table that people read and the JSON that programs read."""

import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tests.benchmarks.contestants import HEADRACE, OFFICIAL, PLAIN
from tests.benchmarks.measure import Measure
from tests.benchmarks.rounds import Result

type ByServer = Mapping[str, Result]
type Results = Mapping[str, ByServer]
"""By measure and server."""

_SERVERS = (OFFICIAL, PLAIN, HEADRACE)
_STAGES = ("now", "in the end")
_HEADER = ("", "", *_SERVERS, "ratio", *_STAGES)
_TEXT_COLUMNS = 2


def table(measures: Iterable[Measure], results: Results) -> str:
    """Return what was measured, a row per measure and detail, and what it cost."""
    measured = list(measures)
    rows = [row for measure in measured for row in _rows(measure, results[measure.name])]
    costs = [_cost(measure, results[measure.name]) for measure in measured]
    return "\n".join([*_aligned([_HEADER, *rows]), "", "processor time", *costs, ""])


def _rows(measure: Measure, by_server: ByServer) -> Iterator[tuple[str, ...]]:
    reached = ratio(by_server)
    targets = [_target(measure, target, reached) for target in measure.targets or ()]
    if measure.limit is not None:
        targets = ["", _limit(measure, measure.limit, by_server)]
    yield (measure.title, *_figures(measure, by_server), *(targets or ("", "")))
    for detail in next(iter(by_server.values())).samples[0].details if by_server else ():
        yield (f"  {detail}", *_figures(measure, by_server, detail), "", "")


def _figures(measure: Measure, by_server: ByServer, detail: str = "") -> tuple[str, ...]:
    values = [_number(by_server.get(server), detail) for server in _SERVERS]
    reached = ratio(by_server, detail)
    return measure.unit, *values, "" if reached is None else f"{reached:.2f} x"


def _number(result: Result | None, detail: str) -> str:
    if result is None:
        return ""
    value = result.median(detail)
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}"


def ratio(by_server: ByServer, detail: str = "") -> float | None:
    """Return ours by theirs; None unless both were measured."""
    if not {OFFICIAL, HEADRACE} <= by_server.keys():
        return None
    return by_server[HEADRACE].median(detail) / by_server[OFFICIAL].median(detail)


def _target(measure: Measure, target: float, reached: float | None) -> str:
    sign = "<=" if measure.at_most else ">="
    verdict = "" if reached is None else (" ok" if measure.is_met(target, reached) else " NO")
    return f"{sign} {target:g} x{verdict}"


def _limit(measure: Measure, limit: float, by_server: ByServer) -> str:
    ours = by_server.get(HEADRACE)
    verdict = "" if ours is None else (" ok" if ours.median() <= limit else " NO")
    return f"<= {limit:g} {measure.unit}{verdict}"


def _cost(measure: Measure, by_server: ByServer) -> str:
    parts = [
        f"{server} {sum(result.microseconds_each.values()):,.1f} ({_roles(result)})"
        for server, result in by_server.items()
    ]
    each = {"runs/s": "run", "KB": "subscriber"}.get(measure.unit, "event")
    return f"  {measure.title}, us per {each}: {', '.join(parts)}"


def _roles(result: Result) -> str:
    return ", ".join(f"{role} {cost:,.1f}" for role, cost in result.microseconds_each.items())


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if column < _TEXT_COLUMNS else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def as_json(measures: Iterable[Measure], results: Results) -> dict[str, Any]:
    """Return everything, each sample too."""
    return {
        "machine": {
            "python": platform.python_version(),
            "platform": platform.platform(),
            "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
            "load": os.getloadavg(),
        },
        "measures": [_measure_json(measure, results[measure.name]) for measure in measures],
    }


def _measure_json(measure: Measure, by_server: ByServer) -> dict[str, Any]:
    reached = ratio(by_server)
    return {
        "name": measure.name,
        "unit": measure.unit,
        "servers": {server: _result_json(result) for server, result in by_server.items()},
        "ratio": reached,
        "limit": measure.limit,
        "targets": {
            stage: {"ratio": target, "met": reached and measure.is_met(target, reached)}
            for stage, target in zip(_STAGES, measure.targets or (), strict=False)
        },
    }


def _result_json(result: Result) -> dict[str, Any]:
    return {
        "median": result.median(),
        "samples": [
            {"value": sample.value, "done": sample.done, **sample.details}
            for sample in result.samples
        ],
        "processor_microseconds_each": result.microseconds_each,
    }
