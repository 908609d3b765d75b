"""A worker of each language, as a process of its own.

Tests that start workers have streams of their own; the others share a worker and its streams.
"""

import itertools
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from headrace.settings import BusSettings
from tests.support import javascript
from tests.support.servers import NatsProcess
from tests.support.service_process import ServiceProcess
from tests.support.task_submitter import TaskSubmitter, fresh_names, open_submitter
from tests.support.worker_process import WorkerProcess

_HERE = Path(__file__).parent
LANGUAGES = ("python", "javascript")
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


def worker(
    language: str, folder: Path, nats_url: str, names: dict[str, str], **settings: object
) -> Worker:
    """Return the worker of a language that is to be."""
    if language == "python":
        target = "tests.contract.workers.agents:agents"
        return WorkerProcess(folder, target, nats_url, names, **settings)
    given = {"nats_url": nats_url, **names, **settings}
    return JavaScriptWorker(folder, {f"HEADRACE_{k.upper()}": str(v) for k, v in given.items()})


@pytest.fixture(scope="module")
def shared_names() -> dict[str, dict[str, str]]:
    """Prefixes of the tests that share a worker, by its language."""
    return {language: fresh_names() for language in LANGUAGES}


@pytest.fixture
def names(
    request: pytest.FixtureRequest, shared_names: dict[str, dict[str, str]]
) -> dict[str, str]:
    """Prefixes of one test, or of those that share a worker."""
    if "repeater" not in request.fixturenames:
        return fresh_names()
    return shared_names[str(request.getfixturevalue("language"))]


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
            started = worker(language, folder, nats_server.url, names, **settings)
            stack.enter_context(started)
            return started

        yield start


@pytest.fixture(params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> str:
    """Every worker keeps the same contract, whatever it is written in."""
    return str(request.param)


@pytest.fixture
def other(language: str) -> str:
    """The other language: runs are handed over between them, too."""
    return "python" if language == "javascript" else "javascript"


@pytest.fixture(scope="module")
def repeaters(
    nats_server: NatsProcess,
    shared_names: dict[str, dict[str, str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[str], Worker]]:
    """Returns the worker of a language that a module's tests share."""
    with ExitStack() as stack:

        @cache
        def started(language: str) -> Worker:
            folder, names = tmp_path_factory.mktemp(language), shared_names[language]
            one = worker(language, folder, nats_server.url, names)
            stack.enter_context(one)
            return one

        yield started


@pytest.fixture
def repeater(
    submitter: TaskSubmitter,  # noqa: ARG001  # has made the streams
    repeaters: Callable[[str], Worker],
    language: str,
) -> Worker:
    """One worker that serves the repeater and the loner."""
    return repeaters(language)
