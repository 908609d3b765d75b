"""What was measured as JSON, which programs read and the tables are made of."""

import os
import platform
import statistics
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any

from tests.benchmarks.contestants import HEADRACE, PEERS
from tests.benchmarks.measure import COST, Goal, Measure
from tests.benchmarks.rounds import Result

type ByServer = Mapping[str, Result]
type Results = Mapping[str, ByServer]
"""By measure and server."""

type Json = dict[str, Any]

_LIBRARIES = ("a2a-sdk", "fasta2a", "starlette", "uvicorn", "uvloop", "redis", "nats-py")


def as_json(measures: Iterable[Measure], results: Results) -> Json:
    """Return everything, each sample too."""
    return {
        "machine": machine(),
        "measures": [_measure(measure, results[measure.name]) for measure in measures],
    }


def machine() -> Json:
    """Return what the figures depend on: interpreter, libraries, cores, other load."""
    return {
        "python": platform.python_version(),
        "flags": interpreter_flags(),
        "libraries": {name: version(name) for name in _LIBRARIES},
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "load": round(os.getloadavg()[0], 1),
    }


def interpreter_flags() -> list[str]:
    """Return how the interpreter was built, as far as its speed depends on it."""
    arguments = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
    compiled = str(sysconfig.get_config_var("PY_CFLAGS") or "").split()
    profiled = "--enable-optimizations" in arguments
    linked = "--with-lto" in arguments
    return [
        *(word for word in compiled if word.startswith("-O")),
        f"{'with' if profiled else 'without'} profile-guided optimization",
        f"{'with' if linked else 'without'} link-time optimization",
        *(["debug build"] if sysconfig.get_config_var("Py_DEBUG") else []),
        *(["free-threaded"] if sysconfig.get_config_var("Py_GIL_DISABLED") else []),
        *(["with the JIT"] if "--enable-experimental-jit" in arguments else []),
    ]


def _measure(measure: Measure, by_server: ByServer) -> Json:
    details = [*next(iter(by_server.values())).samples[0].details] if by_server else []
    figures = ["", *details, COST]
    return {
        "name": measure.name,
        "title": measure.title,
        "unit": measure.unit,
        "each": measure.each,
        "figures": {
            figure: {server: _spread(one.figures(figure)) for server, one in by_server.items()}
            for figure in figures
        },
        "ratios": {figure: dict(_ratios(by_server, figure)) for figure in figures},
        "processes": {server: one.microseconds_each for server, one in by_server.items()},
        "goals": [_goal(goal, by_server) for goal in measure.goals],
        "samples": {server: _samples(one) for server, one in by_server.items()},
    }


def _spread(values: Sequence[float]) -> Json:
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def _ratios(by_server: ByServer, figure: str) -> Iterator[tuple[str, Json]]:
    """Yield ours by each peer's, round by round: what disturbs a round disturbs both."""
    ours = by_server.get(HEADRACE)
    for peer in PEERS:
        if ours is not None and (theirs := by_server.get(peer)) is not None:
            pairs = zip(ours.figures(figure), theirs.figures(figure), strict=True)
            # Without Linux's /proc, nothing has cost anything.
            if ratios := [one / other for one, other in pairs if other]:
                yield peer, _spread(ratios)


def _goal(goal: Goal, by_server: ByServer) -> Json:
    reached = None
    if goal.of:
        reached = dict(_ratios(by_server, goal.figure)).get(goal.of)
    elif ours := by_server.get(HEADRACE):
        reached = _spread(ours.figures(goal.figure))
    return {
        "figure": goal.figure,
        "of": goal.of,
        "is_floor": goal.is_floor,
        "bound": goal.bound,
        "met": None if reached is None else goal.is_met(reached["median"]),
    }


def _samples(result: Result) -> list[Json]:
    pairs = zip(result.samples, result.processor, strict=True)
    return [
        {"value": sample.value, "done": sample.done, **sample.details, "processor": by_role}
        for sample, by_role in pairs
    ]
