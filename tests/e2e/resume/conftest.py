from collections.abc import Iterator

import pytest

from tests.support.resuming_gateway import OwnGateway
from tests.support.stack import Stack


@pytest.fixture(scope="package")
def tight_gateway(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnGateway]:
    """A gateway beside the shared ones that keeps next to nothing of what passes: it reads it."""
    folder = tmp_path_factory.mktemp("tight")
    with OwnGateway(folder, stack.dev()["nats_url"], feed_bytes=2_000) as gateway:
        yield gateway
