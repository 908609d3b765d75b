"""A worker of each language, as a process of its own, on streams of each test's own."""

import itertools
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from headrace.settings import BusSettings
from tests.support import javascript
from tests.support.servers import NatsProcess
from tests.support.service_process import ServiceProcess
from tests.support.task_submitter import TaskSubmitter, fresh_names, open_submitter
from tests.support.worker_process import WorkerProcess

_HERE = Path(__file__).parent
_JAVASCRIPT = _HERE.parents[2] / "examples" / "javascript"

type Worker = WorkerProcess | JavaScriptWorker
type Spawn = Callable[..., Worker]


class JavaScriptWorker(ServiceProcess):
    """``node repeater.mjs``, on the library that the example is written with."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        """Make a worker that reads its settings from `environment`."""
        javascript.install(_JAVASCRIPT)
        super().__init__("worker", folder, [], environment, lambda: " serves " in self.output())

    def command(self) -> list[str]:
        return [javascript.program("node"), str(_HERE / "repeater.mjs")]

    def output(self) -> str:
        """Return what it has written so far."""
        return self.log.read_text() if self.log.exists() else ""

    @property
    def id(self) -> str:
        """Its instance id, as its control answers and the log name it."""
        return str(re.findall(r"(worker-[0-9a-f]+) serves ", self.output())[-1])


@pytest.fixture
def names() -> dict[str, str]:
    """Prefixes of one test."""
    return fresh_names()


@pytest.fixture
async def submitter(
    nats_server: NatsProcess, names: dict[str, str]
) -> AsyncIterator[TaskSubmitter]:
    """Submits tasks as the gateway does, without HTTP."""
    async with open_submitter(
        BusSettings.model_validate({"nats_url": nats_server.url, **names})
    ) as it:
        yield it


@pytest.fixture
def spawn(nats_server: NatsProcess, names: dict[str, str], tmp_path: Path) -> Iterator[Spawn]:
    """Returns how to start a worker of a language, with settings."""
    numbers = itertools.count()
    with ExitStack() as stack:

        def start(language: str, **settings: object) -> Worker:
            folder = tmp_path / f"worker-{next(numbers)}"
            if language == "python":
                target = "tests.contract.workers.agents:agents"
                python = WorkerProcess(folder, target, nats_server.url, names, **settings)
                return stack.enter_context(python)
            given = {"nats_url": nats_server.url, **names, **settings}
            spelled = {f"HEADRACE_{key.upper()}": str(value) for key, value in given.items()}
            return stack.enter_context(JavaScriptWorker(folder, spelled))

        yield start


@pytest.fixture(params=["python", "javascript"])
def language(request: pytest.FixtureRequest) -> str:
    """Every worker keeps the same contract, whatever it is written in."""
    return str(request.param)


@pytest.fixture
def other(language: str) -> str:
    """The other language: runs are handed over between them, too."""
    return "python" if language == "javascript" else "javascript"


@pytest.fixture
def repeater(submitter: TaskSubmitter, spawn: Spawn, language: str) -> Worker:  # noqa: ARG001  # has made the streams
    """One worker that serves the repeater and the loner."""
    return spawn(language)
