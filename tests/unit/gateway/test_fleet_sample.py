"""How streams and queues read in the fleet's sample and its metrics."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.model.agent_route import AgentRoute, Candidate
from headrace_gateway.fleet_metrics import FleetMetrics
from headrace_gateway.fleet_sample import QueueState, Sample, _fill, _looked_up
from headrace_gateway.services import Services

UP = {"name": "n2", "current": True}
BEHIND = {"name": "n3", "current": False, "lag": 12}
OFFLINE = {"name": "n3", "current": True, "offline": True}


@pytest.mark.parametrize(
    ("cluster", "configured", "current"),
    [
        (None, 1, 1),
        ({"leader": "n1"}, 1, 1),
        ({"leader": "n1", "replicas": [UP, UP]}, 3, 3),
        ({"leader": "n1", "replicas": [UP, BEHIND]}, 3, 2),
        ({"leader": "n1", "replicas": [UP, OFFLINE]}, 3, 2),
    ],
)
def test_only_replicas_that_are_online_and_complete_count(
    cluster: dict[str, Any] | None, configured: int, current: int
) -> None:
    info = {
        "config": {"num_replicas": configured, "max_bytes": -1},
        "state": {"messages": 3, "bytes": 900},
        "cluster": cluster,
    }
    filled = _fill("EVENTS", info)
    assert (filled["replicas"], filled["currentReplicas"]) == (configured, current)


def queue(agent: str, tenant: str, waiting: int) -> dict[str, Any]:
    subject = f"headrace.run.{tenant}.{agent}.*.*.normal"
    return {"config": {"filter_subject": subject}, "num_pending": waiting}


def test_the_oldest_run_of_each_agent_is_looked_up_before_further_queues_of_others() -> None:
    busy = [queue("busy", f"t{number}", 1000 + number) for number in range(200)]
    looked_up = _looked_up([*busy, queue("calm", "t1", 1), queue("calm", "t2", 2)], "headrace.run.")
    assert looked_up == [busy[-1], queue("calm", "t2", 2), *busy[-2:-100:-1]]


async def test_without_a_known_age_of_waiting_runs_none_is_exported() -> None:
    queues = [of("a", 3, None), of("b", 3, None), of("b", 2, 7.5), of("c", 0, None)]
    exported = await exported_of(queues, {"a": [""], "b": [""], "c": [""]})
    assert [exported["headrace_runs_waiting", name, ""] for name in "abc"] == [3, 5, 0]
    oldest = {key[1]: value for key, value in exported.items() if "oldest" in key[0]}
    assert oldest == {"b": 7.5, "c": 0}


async def test_versions_are_those_with_a_card_and_those_for_which_runs_wait() -> None:
    """Versions without a card, whose queues NATS keeps for a time, are none while nothing waits."""
    kept = [of("shop", 0, None, f"old-{number}") for number in range(200)]
    queues = [of("shop", 2, 7.5, "1"), of("shop", 1, 9.0, "gone"), *kept, of("unknown", 1, 1.0)]
    exported = await exported_of(queues, {"shop": ["1", "2"]})
    waiting = {key[1:]: value for key, value in exported.items() if "waiting" in key[0]}
    assert waiting == {("shop", "1"): 2, ("shop", "2"): 0, ("shop", "gone"): 1}
    oldest = {key[1:]: value for key, value in exported.items() if "oldest" in key[0]}
    assert oldest == {("shop", "1"): 7.5, ("shop", "2"): 0, ("shop", "gone"): 9.0}


def of(agent: str, waiting: int, oldest: float | None, version: str = "") -> QueueState:
    return QueueState(agent, "default", "normal", version, waiting, 0, oldest)


async def test_versions_of_an_agents_route_are_shown_without_a_card_or_runs() -> None:
    route = AgentRoute(current="2", candidate=Candidate(version="3"), previous=["1"])
    exported = await exported_of([], {"shop": ["2"]}, route)
    for name in ("headrace_runs_waiting", "headrace_oldest_run_seconds"):
        shown = {key[1:]: value for key, value in exported.items() if key[0] == name}
        assert shown == {("shop", version): 0 for version in "123"}


async def exported_of(
    queues: list[QueueState],
    versions: dict[str, list[str]],
    route: AgentRoute | None = None,
) -> dict[tuple[str, ...], float]:
    """Return the metrics of queues by their names and labels' values; `versions` have cards.

    Without `route`, all new tasks go to an agent's first version.
    """

    async def sample() -> Sample:
        return Sample(datetime.now(UTC), queues=queues)

    cards = [SimpleNamespace(name=name) for name in versions]
    directory = SimpleNamespace(
        cards=lambda: cards,
        available=lambda _: True,
        versions=lambda agent: dict.fromkeys(versions[agent]),
        route=lambda agent: route or AgentRoute(current=versions[agent][0]),
    )
    services = SimpleNamespace(
        bus=SimpleNamespace(connected=True),
        fleet_sampler=SimpleNamespace(sample=sample),
        directory=directory,
    )
    metrics = FleetMetrics(cast("Services", services))
    await metrics.refresh()
    return {
        (one.name, *one.labels.values()): one.value
        for family in metrics.collect()
        for one in family.samples
    }
