"""Where the new tasks of an agent go."""

import pytest
from pydantic import ValidationError

from headrace.model.agent_route import AgentRoute, Candidate, first_version, in_order

ONE = AgentRoute(current="1")


def versions(route: AgentRoute, count: int = 1000) -> list[str]:
    return [route.version_for("shop", "default", f"context-{n}") for n in range(count)]


@pytest.mark.parametrize("percent", [0, 10, 50, 100])
def test_a_candidate_gets_its_share_of_the_contexts(percent: int) -> None:
    route = ONE.trying(Candidate(version="2", percent=percent))
    assert versions(route).count("2") == pytest.approx(10 * percent, abs=40 * (0 < percent < 100))


def test_a_greater_share_keeps_the_contexts_that_the_candidate_had() -> None:
    some, more = (versions(ONE.trying(Candidate(version="2", percent=p))) for p in (10, 30))
    assert some != more
    assert [a for a, b in zip(some, more, strict=True) if a == "2" and b == "1"] == []


def test_two_agents_draw_different_contexts() -> None:
    route = ONE.trying(Candidate(version="2", percent=50))
    drawn = [[route.version_for(a, "t", str(n)) for n in range(100)] for a in ("shop", "desk")]
    assert drawn[0] != drawn[1]


def test_a_tenant_goes_to_the_candidate_with_all_its_contexts() -> None:
    route = ONE.trying(Candidate(version="2", tenants=["acme"]))
    chosen = [route.version_for("shop", tenant, "c") for tenant in ("acme", "others")]
    assert chosen == ["2", "1"]
    assert [route.chosen_by(tenant, {}) for tenant in ("acme", "others")] == ["2", None]


def test_a_header_goes_to_the_candidate_with_its_value_only() -> None:
    route = ONE.trying(Candidate(version="2", headers={"x-canary": "yes"}))
    requests: list[dict[str, str]] = [{"x-canary": "yes"}, {"x-canary": "no"}, {}]
    assert [route.chosen_by("t", headers) for headers in requests] == ["2", None, None]


def test_without_a_candidate_nothing_is_chosen() -> None:
    assert ONE.chosen_by("acme", {"x-canary": "yes"}) is None


def test_a_rollback_drops_the_candidate_first_and_then_returns_step_by_step() -> None:
    route = ONE.promoting("2").promoting("3").trying(Candidate(version="4", percent=5))
    seen = []
    while (before := route.rolled_back()) is not None:
        route = before
        seen.append((route.current, route.candidate))
    assert seen == [("3", None), ("2", None), ("1", None)]


def test_a_version_that_is_current_again_is_returned_to_once() -> None:
    route = ONE.promoting("2").promoting("1").promoting("1")
    assert (route.current, route.previous) == ("1", ["2"])


def test_a_rollback_does_not_return_to_a_retired_version() -> None:
    assert ONE.promoting("2").without("1").rolled_back() is None


def test_tasks_are_continued_by_the_version_that_they_were_moved_to() -> None:
    route = AgentRoute(current="3").moving("1", "2").moving("2", "3")
    assert [route.continues(version) for version in ("1", "2", "3")] == ["3", "3", "3"]


def test_a_version_that_gets_new_tasks_again_keeps_them() -> None:
    moved = AgentRoute(current="2").moving("1", "2")
    routes = moved.promoting("1"), moved.trying(Candidate(version="1", percent=1))
    assert [route.continues("1") for route in routes] == ["1", "1"]


def test_a_new_version_is_not_current_by_itself() -> None:
    known = [["10", "9"], ["2.10.0", "2.9.1"], ["2", ""], ["b", "a1"]]
    assert [first_version(dict.fromkeys(some)) for some in known] == ["9", "2.9.1", "", "a1"]
    assert in_order(dict.fromkeys(["1.10", "1.9", "1.9-rc1"])) == ["1.9", "1.9-rc1", "1.10"]


def test_a_share_is_a_percentage() -> None:
    with pytest.raises(ValidationError):
        Candidate(version="2", percent=101)


def test_a_route_is_stored_whole() -> None:
    route = ONE.promoting("2").trying(Candidate(version="3", headers={"a": "b"})).moving("1", "2")
    assert AgentRoute.decode("route.shop", route.encode()) == route
