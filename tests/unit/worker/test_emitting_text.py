"""Which output of an agent may wait for other runs' output, and which is appended at once."""

import pytest

from headrace import Emission, Status, Text, ToolCall
from headrace_worker.append_ticks import AppendTicks
from headrace_worker.blocks import RunIds
from headrace_worker.emitter import Emitter
from headrace_worker.encoder import Encoder, Endings
from headrace_worker.usage import Prices
from tests.unit.worker.test_appender import FakeTicks, FakeWriter, make, settle


def emitter_of(writer: FakeWriter, ticks: AppendTicks) -> Emitter:
    ids = RunIds("0-task", 1)
    return Emitter(
        Encoder("0-task", "context", ids),
        Endings("0-task", "context", ids),
        make(writer, ticks=ticks),
        prices=Prices(),
        used=None,
        may_answer=False,
    )


async def test_the_first_token_is_appended_at_once_and_the_next_ones_at_the_tick() -> None:
    writer, ticks = FakeWriter(), FakeTicks()
    emitter = emitter_of(writer, ticks)
    emitter.emit("first ")
    await settle()
    assert writer.sizes == [1]
    emitter.emit("second ")
    emitter.emit("third ")
    await settle()
    assert writer.sizes == [1]
    ticks.tick()
    await settle()
    assert writer.sizes == [1, 2]


@pytest.mark.parametrize(
    "output", [ToolCall("search", {"q": "x"}), Status("searching"), Text("new", block="another")]
)
async def test_other_output_is_appended_at_once_with_the_text_before_it(output: Emission) -> None:
    writer, ticks = FakeWriter(), FakeTicks()
    emitter = emitter_of(writer, ticks)
    emitter.emit("first ")
    await settle()
    emitter.emit("second ")
    emitter.emit(output)
    await settle()
    assert [line for lines, _ in writer.appends for line in lines][1].count(b"second ") == 1
    assert writer.asked == 2


async def test_the_first_token_after_other_output_is_appended_at_once() -> None:
    writer, ticks = FakeWriter(), FakeTicks()
    emitter = emitter_of(writer, ticks)
    emitter.emit("first ")
    emitter.emit(ToolCall("search", {"q": "x"}))
    await settle()
    emitter.emit("found ")
    await settle()
    assert writer.asked == 2
