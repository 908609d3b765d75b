"""How a stream's state reads in the fleet's sample."""

from typing import Any

import pytest

from headrace_gateway.fleet_sample import _fill

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
