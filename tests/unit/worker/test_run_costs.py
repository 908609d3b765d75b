"""What a short run costs its worker, in a number that a slow machine does not raise.

See `test_append_costs.py` for what a token costs.
"""

import sys

import prometheus_client

import headrace_worker
from headrace.demo import counter
from headrace.testing import TaskResult, TestFleet
from tests.support.call_counter import CallCounter

MOST_RUNS = 60
"""The fewest calls of these count: on a busy machine most runs meet timers of the worker, or an
unusual order. A run that takes more calls takes them in each."""

CALLS = 208
"""Python functions of the worker, and for its metrics, called per run of one chunk.

It was 194. Runs that also made the objects of what they don't use (child tasks, sleeps, shared
state, relayed events, messages, usage, spans) took 303 and more.
"""


async def test_a_short_run_takes_few_calls() -> None:
    results, fewest = list[TaskResult](), sys.maxsize
    async with TestFleet([counter]) as fleet:
        await fleet.send("counter", "1")
        while fewest > CALLS and len(results) < MOST_RUNS:
            with CallCounter((headrace_worker, prometheus_client)) as counted:
                results.append(await fleet.send("counter", "1"))
            fewest = min(fewest, counted.calls)
    assert {result.text for result in results} == {"1 "}
    assert fewest <= CALLS
