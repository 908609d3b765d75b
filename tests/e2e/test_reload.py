"""`headrace dev` reloads agents when they are saved, and no run notices."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from itertools import cycle

import httpx
import pytest

from tests.support.event_stream import Json
from tests.support.plain_a2a import PlainAgent
from tests.support.plain_http import NO_TLS
from tests.support.prometheus import needs_prometheus, query
from tests.support.resuming_sizes import sized
from tests.support.stack import Stack
from tests.support.waiting import eventually, soon

SAVES = sized(3, 50)
SENDERS = 4
UNENDED = {"TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"}

SOURCES = {
    "prices.py": "PRICE = {version}\n",
    "shop.py": """\
import asyncio
import pathlib

import prices
from headrace import RunContext, agent

VERSION = {version}


@agent()
async def shop(ctx: RunContext):
    yield f"{{VERSION}} {{prices.PRICE}} "
    while ctx.prompt and ctx.prompt != "now" and not pathlib.Path(ctx.prompt).exists():
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.05)
    yield f"{{VERSION}} {{prices.PRICE}}"
""",
}


class Project:
    """A project of two modules; each save gives one of them another version."""

    def __init__(self, stack: Stack) -> None:
        self.stack, self._shown = stack, 0
        self.versions = dict.fromkeys(SOURCES, 1)

    def connect(self, http: httpx.AsyncClient) -> None:
        """Talk to the agents over `http`, which belongs to one test."""
        self.http, self.shop = http, PlainAgent(http, self.stack.url, "shop")

    def agent(self, name: str) -> PlainAgent:
        return PlainAgent(self.http, self.stack.url, name)

    def save(self, name: str) -> None:
        self.versions[name] += 1
        self.write(name, SOURCES[name].format(version=self.versions[name]))

    def write(self, name: str, source: str) -> None:
        self._shown = len(self.stack.log())
        (self.stack.folder / name).write_text(source)

    async def until_shown(self, words: str) -> None:
        """Wait for words in the terminal, from the last save on."""
        await soon(lambda: words in self.stack.log()[self._shown :], f"{words!r} is shown")

    async def reloaded(self) -> None:
        """Return once a run has the code as it is; old workers may still take one before."""

        async def new() -> bool:
            return await self.answer() == self.own_words

        await self.until_shown("| reloaded ")
        await eventually(new, "a run takes the new code")

    async def answer(self, prompt: str = "now") -> str:
        """Return what a new run says."""
        sent = await self.shop.send(prompt)
        assert sent.status_code == httpx.codes.OK, sent.text
        return text_of(sent.json()["task"])

    async def started(self, prompt: str) -> str:
        """Start a run that outlasts the timeout of a request, and return its task."""
        sent = await self.shop.send(prompt, returnImmediately=True)
        return str(sent.json()["task"]["id"])

    async def ended(self, task: str) -> str:
        """Return what the run of `task` said once it has ended."""

        async def look() -> Json | None:
            found: Json = (await self.shop.get(task)).json()
            return None if found["status"]["state"] in UNENDED else found

        return text_of(await eventually(look, "the run ends"))

    @property
    def own_words(self) -> str:
        """What a run on the code as it is says."""
        return " ".join([f"{self.versions['shop.py']} {self.versions['prices.py']}"] * 2)


def text_of(task: Json) -> str:
    assert task["status"]["state"] == "TASK_STATE_COMPLETED", task
    return "".join(part["text"] for each in task["artifacts"] for part in each["parts"])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("project")
    for name, source in SOURCES.items():
        (folder / name).write_text(source.format(version=1))
    with Stack(folder, environment={"HEADRACE_OBSERVE": "1"}) as stack:
        yield Project(stack)


@pytest.fixture
async def project(served: Project) -> AsyncIterator[Project]:
    async with httpx.AsyncClient(timeout=90, verify=NO_TLS) as http:
        served.connect(http)
        yield served


@pytest.mark.soak
@pytest.mark.timeout(sized(300, 1800))
async def test_saves_under_load_lose_no_run_and_mix_no_code(project: Project) -> None:
    states, answers, is_over = [project.own_words], list[str](), asyncio.Event()

    async def keep_sending() -> None:
        while not is_over.is_set():
            answers.append(await project.answer())

    go, first_worker = project.stack.folder / "go", set(targets(project.stack)["worker"])
    long_run = await project.started(str(go))
    load = [asyncio.create_task(keep_sending()) for _ in range(SENDERS)]
    await soon(lambda: len(answers) >= SENDERS, "runs are answered")
    for number, name in zip(range(SAVES), cycle(SOURCES), strict=False):
        project.save(name)
        states.append(project.own_words)
        if number % 2 == 0:  # The next save comes in the midst of this one's reload.
            await project.reloaded()
    await project.reloaded()
    is_over.set()
    await asyncio.gather(*load)
    scraped = set(targets(project.stack)["worker"])
    go.touch()

    assert await project.ended(long_run) == states[0]
    assert scraped > first_worker
    assert len(set(states)) == SAVES + 1
    assert [output for output in answers if output not in states] == []
    assert len(set(answers)) > 1


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        ("PRICE = (\n", "prices.py:1: '(' was never closed"),
        (
            "import os\nPRICE = os.no_such\n",
            "AttributeError: module 'os' has no attribute 'no_such' (prices.py:2)",
        ),
    ],
)
async def test_code_with_an_error_changes_nothing_and_states_where(
    project: Project, broken: str, error: str
) -> None:
    project.write("prices.py", broken)
    await project.until_shown(f"not reloaded, the old code stays in use: {error}")
    assert await project.answer() == project.own_words

    project.save("prices.py")
    await project.reloaded()


async def test_an_added_agent_is_served_and_its_errors_are_shown_with_traceback(
    project: Project,
) -> None:
    async def failed() -> bool:
        sent = await project.agent("till").send("now")
        return sent.status_code == httpx.codes.OK and "TASK_STATE_FAILED" in sent.text

    project.write(
        "till.py",
        "from headrace import agent\n@agent\nasync def till(ctx):\n    raise ValueError('empty')\n",
    )
    await project.until_shown("| reloaded till.py")
    await eventually(failed, "the gateway knows it, and its run fails")
    await project.until_shown("ValueError: empty")
    assert 'till.py", line 4, in till' in project.stack.log()


async def test_what_is_declared_beside_the_agents_is_applied_again_when_they_are_saved(
    project: Project,
) -> None:
    source = """\
from headrace import RunContext, agent, on, schedule


@on("orders.{version}", stream="ORDERS")
@schedule("count", every="{version}h")
@agent()
async def shop(ctx: RunContext):
    yield "counted"
"""

    async def shown(path: str, name: str) -> object:
        return (await project.http.get(f"{project.stack.url}/v1/{path}/shop")).json().get(name)

    found = list[object]()
    for version in ("24", "48"):
        project.write("shop.py", source.format(version=version))
        await project.until_shown("| schedules shop")
        found += [await shown("triggers", "subject"), await shown("schedules", "every")]
    for path in ("triggers", "schedules"):
        await project.http.delete(f"{project.stack.url}/v1/{path}/shop")
    project.save("shop.py")
    await project.reloaded()
    assert found == ["orders.24", "24h", "orders.48", "48h"]


def targets(stack: Stack) -> dict[str, list[str]]:
    """Return what Prometheus is to scrape, by job."""
    found = dict[str, list[str]]()
    for group in json.loads((stack.data_dir / "prometheus" / "targets.json").read_text()):
        found.setdefault(group["labels"]["job"], []).extend(group["targets"])
    return found


async def test_after_a_reload_the_targets_are_those_of_the_services_that_run(
    project: Project,
) -> None:
    async def settled() -> dict[str, list[str]] | None:
        """Return the targets once the replaced worker has ended."""
        found = targets(project.stack)
        return found if len(found["worker"]) == 1 else None

    before = await eventually(settled, "one worker is a target")
    project.save("shop.py")
    await project.reloaded()
    after = await eventually(settled, "the old worker is none any more")
    assert after["worker"] != before["worker"]
    assert after | {"worker": []} == before | {"worker": []}
    pages = {job: await project.http.get(f"http://{one}/metrics") for job, [one] in after.items()}
    named = {job: f'service="{job}"' in page.text for job, page in pages.items()}
    assert named == {"gateway": True, "worker": True, "task-state": True}


@needs_prometheus
async def test_prometheus_scrapes_the_worker_of_the_new_code(project: Project) -> None:
    [url] = [line.split()[1] for line in project.stack.said if line.startswith("prometheus ")]
    project.save("prices.py")
    await project.reloaded()

    async def scraped() -> bool:
        up = query(url, 'up{job="worker"} == 1')
        return [one["metric"]["instance"] for one in up] == targets(project.stack)["worker"]

    await eventually(scraped, "the new worker is scraped, and the old one no longer")
