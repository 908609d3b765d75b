"""What a short run costs its worker, in a number that a slow machine does not raise.

See `test_append_costs.py` for what a token costs.
"""

import sys

import prometheus_client

import headrace_worker
from headrace.testing import TaskResult, TestFleet
from headrace_worker.demo import counter
from tests.support.call_counter import CallCounter

RUNS = 10

CALLS = 330
"""Python functions of the worker, and for its metrics, called per run of one chunk.

It was 285; the order in which gauges are set may add 14. On a busy machine, where no run meets the
usual order, 313 were the fewest. A look-up per series took 38 more.
"""


async def test_a_short_run_takes_few_calls() -> None:
    results, calls = list[TaskResult](), list[int]()
    async with TestFleet([counter]) as fleet:
        await fleet.send("counter", "1")
        for _ in range(RUNS):
            counted = CallCounter((headrace_worker, prometheus_client))
            sys.setprofile(counted)
            try:
                results.append(await fleet.send("counter", "1"))
            finally:
                sys.setprofile(None)
            calls.append(counted.calls)
    assert [result.text for result in results] == ["1 "] * RUNS
    # Timers of the worker, as of its leases, fire during some runs: the more, the slower these are.
    assert min(calls) <= CALLS
