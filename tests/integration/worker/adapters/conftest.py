"""Task state, which adapters ask for a conversation's earlier tasks, and a trusted authority."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import certifi
import pytest

from tests.support.servers import NatsProcess, ValkeyProcess
from tests.support.task_states import open_task_states
from tests.support.task_submitter import TaskSubmitter


@pytest.fixture
async def task_state(
    nats_server: NatsProcess, valkey: ValkeyProcess, names: dict[str, str], submitter: TaskSubmitter
) -> AsyncIterator[None]:
    """Task state that follows the logs of the test's tasks."""
    del submitter
    async with open_task_states(nats_server.url, valkey.url, **names) as states:
        await states.start()
        await states.followed()
        yield


@pytest.fixture(scope="package", autouse=True)
def one_authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The only authority that HTTP clients trust; no test talks to anybody by TLS.

    To load all of them takes each client of a framework 33 ms of processor time.
    """
    end = "-----END CERTIFICATE-----\n"
    first, found, _ = Path(certifi.where()).read_text().partition(end)
    file = tmp_path_factory.mktemp("authority") / "one.pem"
    file.write_text(first + found)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(file))
        patch.delenv("SSL_CERT_DIR", raising=False)
        yield file
