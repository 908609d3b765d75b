"""On which terms an AG-UI run waits for a worker, as its ``forwardedProps.headrace`` wish."""

import httpx
import pytest

from headrace.jetstream.connection import Bus
from headrace.log import last_entry, replay
from headrace.model.events import PRIORITY, START_BY, Json
from headrace.model.task import TaskKey
from tests.support.agui.runs import path, run, run_input, run_of
from tests.support.scripted_fleet import ScriptedFleet


async def terms_of(bus: Bus, key: TaskKey) -> Json:
    """Return the metadata of a task's input, where its terms stand."""
    last = await last_entry(bus, key)
    assert last is not None
    async for batch in replay(bus, key, 0, last.sequence):
        metadata: Json = next(iter(batch[0].events[0].values()))["metadata"]
        return metadata
    raise AssertionError(f"the log of {key.task} is empty")


async def test_a_run_may_request_a_lower_priority_and_an_earlier_start(
    http: httpx.AsyncClient, bus: Bus, fleet: ScriptedFleet
) -> None:
    wishes = {"headrace": {"priority": "low", "startWithin": 30}}
    subjects = []
    for props in (wishes, {}):
        runs = await bus.connection.subscribe(f"{bus.subjects.prefix}.run.>")
        await bus.connection.flush()
        received = await run(http, "assistant", run_input(forwardedProps=props))
        assert received[-1].json["type"] == "RUN_FINISHED"
        subjects.append((await runs.next_msg(timeout=60)).subject)
        await runs.unsubscribe()
    assert [subject.endswith(".low") for subject in subjects] == [True, False]
    wished, usual = [await terms_of(bus, work.key) for work in fleet.runs[-2:]]
    assert wished[PRIORITY] == "low"
    assert wished[START_BY].endswith("Z")
    assert not {PRIORITY, START_BY} & usual.keys()
    assert (await run_of(fleet)).key == fleet.runs[-1].key


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        ({"priority": "high"}, "forwardedProps.headrace.priority"),
        ({"priority": ["low"]}, "forwardedProps.headrace.priority"),
        ({"startWithin": 0}, "forwardedProps.headrace.startWithin"),
        ({"startWithin": "soon"}, "forwardedProps.headrace.startWithin"),
        ({"startAt": "soon"}, "forwardedProps.headrace.startAt"),
    ],
)
async def test_a_request_beyond_the_allowed_priority_is_refused_by_its_field(
    http: httpx.AsyncClient, wish: Json, field: str
) -> None:
    body = run_input(forwardedProps={"headrace": wish})
    answer = await http.post(path("assistant"), json=body)
    assert answer.status_code == 400
    assert field in answer.text
