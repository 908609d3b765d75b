"""Each sample is taken of what was prepared for it, whose processor time does not count."""

import os
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.benchmarks import rounds
from tests.benchmarks.bindings import JSON_RPC
from tests.benchmarks.contestants import HEADRACE, Contestant
from tests.benchmarks.measure import Measure, Place, Sample
from tests.benchmarks.sizes import FULL

PREPARING = 0.1
"""Seconds of processor time."""


def another() -> AbstractContextManager[tuple[str, int]]:
    raise NotImplementedError


MYSELF = Contestant(HEADRACE, [], "", "", [], lambda: {"tests": [os.getpid()]}, another)


@pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists(), reason="processor times need Linux's /proc"
)
async def test_what_is_prepared_is_used_once_and_does_not_count() -> None:
    prepared, taken = list[str](), list[tuple[str, ...]]()

    async def prepare(place: Place) -> Sequence[str]:
        end = time.process_time() + (PREPARING if place.sizes is FULL else 0)
        while time.process_time() < end:
            pass
        prepared.append(f"task-{len(prepared)}")
        return prepared[-1:]

    async def take(place: Place) -> Sample:
        taken.append(tuple(place.prepared))
        return Sample(1.0, 1)

    measure = Measure("one", "one", "runs/s", take, prepare=prepare)
    plan = rounds.Plan(JSON_RPC, FULL, rounds=2, say=lambda _: None)
    [result] = (await rounds.run(measure, [MYSELF], plan)).values()

    assert taken == [("task-0",), ("task-1",), ("task-2",)]
    assert max(by_role["tests"] for by_role in result.processor) < PREPARING * 1e6
