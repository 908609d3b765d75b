"""What a short run costs its worker, in numbers that are the same in every run.

See `test_append_costs.py` for what a token costs.
"""

import sys

import prometheus_client

import headrace_worker
from headrace.testing import TestFleet
from headrace_worker.demo import counter
from tests.support.call_counter import CallCounter

RUNS = 10

CALLS = 305
"""Python functions of the worker, and for its metrics, called per run of one chunk; it was 293."""


async def test_a_short_run_takes_few_calls() -> None:
    calls = CallCounter((headrace_worker, prometheus_client))
    async with TestFleet([counter]) as fleet:
        await fleet.send("counter", "1")
        sys.setprofile(calls)
        try:
            results = [await fleet.send("counter", "1") for _ in range(RUNS)]
        finally:
            sys.setprofile(None)
    assert [result.text for result in results] == ["1 "] * RUNS
    assert calls.calls / RUNS <= CALLS
