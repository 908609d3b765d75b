"""Queues and the names of their consumers."""

import pytest

from headrace.model.queues import RunQueue, agent_of, version_of, weight_of
from headrace.model.subjects import MAX_VERSION

QUEUES = [
    (RunQueue("shop"), "shop"),
    (RunQueue("shop", "acme"), "shop@acme"),
    (RunQueue("shop", "acme", "high"), "shop@acme@high"),
    (RunQueue.first_of("shop", "1.2"), "shop@default@normal@1_2e2"),
    (RunQueue("shop", "acme", "low", "2"), "shop@acme@low@2"),
]


@pytest.mark.parametrize(("queue", "consumer"), QUEUES)
def test_a_consumers_name_states_whose_runs_it_delivers(queue: RunQueue, consumer: str) -> None:
    assert queue.consumer == consumer
    assert (agent_of(consumer), version_of(consumer)) == ("shop", queue.version)


def test_versions_share_the_weights_of_priorities() -> None:
    names = ["shop@acme@low@2", "shop@acme@low", "shop@acme@normal@2", "shop@acme"]
    assert [weight_of(name) for name in names] == [1.0, 1.0, 3.0, 3.0]


def test_the_longest_names_fit_into_a_consumer_s() -> None:
    assert len(RunQueue("a" * 64, "t" * 200, "normal", "v" * MAX_VERSION).consumer) <= 255
