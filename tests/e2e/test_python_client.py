"""`headrace.client` with real gateways: one of them dies, and the page's examples run."""

import ast
import asyncio
import inspect
from collections.abc import AsyncIterator
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

from headrace.client import Client, RunEvent, RunStream, StreamEvent
from tests.architecture.tree import ROOT
from tests.support.document import examples
from tests.support.fleet import Fleet
from tests.support.stored_log import lines_of

_AWAITS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_COUNT = 150


async def killing(stream: AsyncIterator[StreamEvent], fleet: Fleet) -> list[StreamEvent]:
    """Read a stream; kill its gateway in the middle."""
    events = list[StreamEvent]()
    async for event in stream:
        events.append(event)
        if len(events) == 10:
            fleet.stack.kill("gateway", 0)
    return events


async def test_a_killed_gateways_streams_go_on_at_the_other_without_loss_or_repetition(
    fleet: Fleet,
) -> None:
    text = f"{_COUNT} 20"
    whole = "".join(f"{number} " for number in range(1, _COUNT + 1))
    pid = fleet.stack.pids("gateway")[0]
    async with Client(*fleet.gateways) as client:
        stream = client.stream("counter", text)
        run = client.run("counter", text)
        events, frames = await asyncio.gather(killing(stream, fleet), _all(run))
    fleet.stack.until_restarted("gateway", 0, pid)
    lines = await lines_of(fleet.nats_url, "counter", stream.task)
    assert [event.generation for event in events] == list(range(1, len(lines) + 1))
    assert "".join(event.text for event in events) == whole
    assert "".join(frame.text for frame in frames) == whole
    kinds = [frame.type for frame in frames]
    assert [kinds.count(kind) for kind in ("RUN_STARTED", "TEXT_MESSAGE_START")] == [1, 1]
    assert run.task != stream.task
    assert await lines_of(fleet.nats_url, "counter", run.task)
    assert (kinds[-1], stream.state) == ("RUN_FINISHED", "completed")


async def _all(run: RunStream) -> list[RunEvent]:
    return [event async for event in run]


async def test_every_example_of_the_page_prints_what_it_states(fleet: Fleet) -> None:
    first, *rest = examples(ROOT / "docs" / "client.md", "python")
    assert len(rest) == 9
    found = dict[str, str]()
    async with Client(fleet.gateways[0]) as client:
        names: dict[str, Any] = {"client": client}
        for code, _ in rest:
            found[code] = await _run(code, names)
    assert found == dict(rest)
    program = first[0].replace("http://127.0.0.1:8080", fleet.gateways[0])
    assert await asyncio.to_thread(_program, program) == first[1]


async def _run(code: str, names: dict[str, Any]) -> str:
    output = StringIO()
    with redirect_stdout(output):
        running = eval(compile(code, "client.md", "exec", flags=_AWAITS), names)  # noqa: S307
        if inspect.isawaitable(running):
            await running
    return output.getvalue()


def _program(code: str) -> str:
    output = StringIO()
    with redirect_stdout(output):
        exec(compile(code, "client.md", "exec"), {})  # noqa: S102
    return output.getvalue()
