"""`headrace workers`: the list, and a drain that waits."""

import json

import pytest

from tests.support.fake_gateway import ScriptedResponse, answering
from tests.unit.cli.test_client_commands import headrace

LISTED = {"id": "worker-1", "agents": ["counter", "echo"], "heartbeatSeconds": 1.23}
DRAIN = "/v1/workers/worker-1:drain"
AGAIN = f"{DRAIN}?agent=counter"


def drains(runs: int) -> ScriptedResponse:
    return ScriptedResponse(body={"worker": "worker-1", "agent": "counter", "runs": runs})


def refused(status: int) -> ScriptedResponse:
    return ScriptedResponse(status, {"error": {"code": "worker_unknown", "message": "none"}})


def test_workers_are_listed_with_their_agents() -> None:
    with answering(**{"/v1/fleet": ScriptedResponse(body={"workers": [LISTED]})}) as gateway:
        listed = headrace(gateway, "workers")
        as_json = headrace(gateway, "workers", "--json")
    assert listed.output.splitlines() == [
        "WORKER    AGENTS        LAST HEARTBEAT",
        "worker-1  counter echo  1.2 s ago",
    ]
    assert json.loads(as_json.output) == LISTED


@pytest.mark.parametrize("command", ["workers", "view"])
def test_callers_that_are_no_operators_are_refused(command: str) -> None:
    with answering(**{"/v1/fleet": ScriptedResponse(body={"agents": []})}) as gateway:
        answer = headrace(gateway, command)
    assert (answer.exit_code, "only operators can" in answer.output) == (1, True)


def test_a_drain_does_not_wait_unless_requested() -> None:
    with answering(**{DRAIN: drains(2)}) as gateway:
        answer = headrace(gateway, "workers", "drain", "worker-1", "worker-1")
    assert answer.output.splitlines() == ["worker-1 drains; 2 runs are active"]
    assert [request.method for request in gateway.asked] == ["POST"]


def test_a_drain_waits_until_the_worker_is_gone() -> None:
    script = {DRAIN: [drains(2)], AGAIN: [drains(1), refused(404)]}
    with answering(**script) as gateway:
        answer = headrace(gateway, "workers", "drain", "--wait", "--json", "worker-1")
    assert [json.loads(line) for line in answer.output.splitlines()] == [
        {"worker": "worker-1", "agent": "counter", "runs": 2},
        {"worker": "worker-1", "ended": True},
    ]
    assert [request.path for request in gateway.asked] == [DRAIN, AGAIN, AGAIN]


def test_a_wait_that_is_refused_is_no_end() -> None:
    with answering(**{DRAIN: [drains(2)], AGAIN: [refused(403)]}) as gateway:
        answer = headrace(gateway, "workers", "drain", "--wait", "worker-1")
    assert (answer.exit_code, "has ended" in answer.output) == (1, False)


def fleet(position: int | None, head: int) -> ScriptedResponse:
    lag = None if position is None else head - position
    one = {"stream": "EVENTS", "head": head, "position": position, "lag": lag}
    return ScriptedResponse(body={"ranges": [one]})


def test_the_view_is_shown_as_it_is() -> None:
    with answering(**{"/v1/fleet": [fleet(None, 9), fleet(4, 9)]}) as gateway:
        away = headrace(gateway, "view")
        behind = headrace(gateway, "view")
    assert away.output.splitlines()[1].split() == ["EVENTS", "unknown", "9", "unknown"]
    assert behind.output.splitlines()[1].split() == ["EVENTS", "4", "9", "5"]


def test_a_wait_for_the_view_ends_at_what_was_stored_when_it_began() -> None:
    with answering(**{"/v1/fleet": [fleet(4, 9), fleet(9, 20)]}) as gateway:
        answer = headrace(gateway, "view", "--wait", "--json")
    assert json.loads(answer.output) == {"stream": "EVENTS", "head": 20, "position": 9, "lag": 11}
    assert len(gateway.asked) == 2
