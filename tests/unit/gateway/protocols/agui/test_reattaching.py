"""A client that comes back, wherever it was cut off, ends where one that stayed does."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.model.cursor import FrameCursor
from headrace.model.entry import Entry
from headrace.model.events import Json
from headrace.model.parts import STEP_STARTED, text_part, thinking_part, tool_arguments_part
from headrace_gateway.protocols.agui.frame import AguiFrame
from headrace_gateway.protocols.agui.run_frames import AfterCursor, RunFrames, SnapshotStart
from headrace_gateway.protocols.agui.thread_messages import ThreadMessages
from headrace_gateway.protocols.agui.view import View
from tests.support.agui.client_rules import Client
from tests.support.agui.logs import (
    GIVEN,
    RUN_METADATA,
    AguiLog,
    agui_logs,
    as_agent_named,
    hinted,
    unhurried,
)
from tests.unit.gateway.protocols.agui.test_subagents import asked, child


def client_of(frames: list[AguiFrame]) -> Client:
    return Client(GIVEN, RUN_METADATA["state"]).take_all([frame.event for frame in frames])


def agui_events(frames: RunFrames, entries: list[Entry]) -> list[AguiFrame]:
    return [frame for entry in entries for frame in frames.read(entry)]


def after(entries: list[Entry], place: tuple[int, int]) -> list[AguiFrame]:
    return agui_events(RunFrames(1, AfterCursor(FrameCursor("log00000", *place))), entries)


def joined(entries: list[Entry], head: int) -> list[AguiFrame]:
    return agui_events(RunFrames(1, SnapshotStart(head)), entries)


def held(client: Client) -> tuple[list[Json], object]:
    return client.messages, client.state


@unhurried
@given(agui_logs(), st.data())
def test_with_a_cursor_it_gets_what_is_open_and_the_rest(log: AguiLog, data: st.DataObject) -> None:
    uncut, entries = log.frames(), log.parsed()
    cut = data.draw(st.integers(0, len(uncut) - 1))
    again = after(entries, uncut[cut].place)
    rest = uncut[cut + 1 :] or (uncut[-1:] if client_of(uncut).ended else [])
    assert again[len(again) - len(rest) :] == rest
    lead = again[: len(again) - len(rest)]
    assert lead[0].event == uncut[0].event
    assert {frame.place for frame in lead} == {uncut[cut].place}
    first = client_of(uncut[: cut + 1])
    second = Client(first.messages, first.state).take_all([frame.event for frame in again])
    assert held(second) == held(client_of(uncut))


@unhurried
@given(agui_logs(), st.data())
def test_without_a_past_it_gets_a_snapshot_and_the_rest(log: AguiLog, data: st.DataObject) -> None:
    uncut, entries = log.frames(), log.parsed()
    head = data.draw(st.sampled_from(entries)).last_generation
    again = joined(entries, head)
    client = Client().take_all([frame.event for frame in again])
    assert held(client) == held(client_of(uncut))
    assert client.ended == client_of(uncut).ended


@unhurried
@given(agui_logs(), st.data())
def test_who_joined_goes_on_with_the_cursor_of_what_led(log: AguiLog, data: st.DataObject) -> None:
    entries = log.parsed()
    head = data.draw(st.sampled_from(entries)).last_generation
    again = joined(entries, head)
    rest = [frame for frame in log.frames() if frame.place > again[0].place]
    is_over = again[-1].place == again[0].place and not rest
    assert is_over or again[len(again) - len(rest) :] == rest


@unhurried
@given(agui_logs(), st.data())
def test_a_stream_that_breaks_off_before_its_lead_is_one_error(
    log: AguiLog, data: st.DataObject
) -> None:
    entries = log.parsed()
    frames = RunFrames(1, SnapshotStart(entries[-1].last_generation))
    assert agui_events(frames, entries[: data.draw(st.integers(0, len(entries) - 1))]) == []
    if not frames.over:
        [last] = frames.broken("log_lost", "the log is gone")
        assert last.event["type"] == "RUN_ERROR"


def test_everything_that_is_open_is_opened_again() -> None:
    log = AguiLog.started().say(thinking_part("Hm", "t"), message="t")
    log.say(tool_arguments_part('{"a":', "call-1", "tool"))
    log.show(text_part("Hel", "b"), artifact="b")
    entries = log.parsed()
    kinds = [frame.event["type"] for frame in joined(entries, entries[-1].last_generation)]
    assert kinds == [
        *["RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT"],
        *["REASONING_START", "REASONING_MESSAGE_START", "TOOL_CALL_START", "TEXT_MESSAGE_START"],
    ]


def test_steps_of_one_name_are_each_opened_again() -> None:
    log = AguiLog.started()
    step = hinted(STEP_STARTED, agui_step_name="s")
    for task in ("c-1", "c-2"):
        asked(log, task=task)
        child(log, step, task=task)
    log.say(step)
    entries = log.parsed()
    again = [frame.event for frame in joined(entries, entries[-1].last_generation)]
    steps = [e.get("subagentRunId", "") for e in again if e["type"] == "STEP_STARTED"]
    assert steps == ["c-1", "c-2", ""]
    Client().take_all([frame.event for frame in joined(log.end().parsed(), 4)])


def test_earlier_runs_messages_lead_once() -> None:
    log = AguiLog.started().show(text_part("Hello", "b"), artifact="b").end()
    thread = ThreadMessages()
    thread.add(View.at_start([{"id": "old", "role": "user", "content": "before"}, GIVEN[0]], {}))
    entries = log.parsed()
    lead = SnapshotStart(entries[-1].last_generation, thread.merged)
    snapshot = as_agent_named(agui_events(RunFrames(1, lead), entries)[2].event)
    assert [message["id"] for message in snapshot["messages"]] == ["old", "s", "u", "b"]
