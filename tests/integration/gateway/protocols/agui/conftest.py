from typing import Any

import pytest

from tests.support.agui.scripts import AGENTS
from tests.support.scripted_fleet import Agents


@pytest.fixture(scope="module")
def agents() -> Agents:
    """Agents that say what AG-UI has events for."""
    return AGENTS


@pytest.fixture(scope="module")
def options() -> dict[str, Any]:
    """Streams that are kept alive every second, and feeds that soon forget their beginning."""
    return {"grpc_port": 0, "keepalive": 1, "feed_bytes": 200_000}


@pytest.fixture(scope="module")
def client_headers() -> dict[str, str]:
    """No version of A2A."""
    return {}
