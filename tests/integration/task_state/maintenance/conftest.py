"""A nats-server that a test may stop or kill."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.servers import NatsProcess


@pytest.fixture
def nats_alone(tmp_path: Path) -> Iterator[NatsProcess]:
    with NatsProcess(tmp_path / "nats") as server:
        yield server
