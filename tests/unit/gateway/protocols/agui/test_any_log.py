"""Whatever an agent says, in whatever order, a client can read the stream."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.entry import Entry
from headrace_gateway.protocols.agui.fold import Fold
from headrace_gateway.protocols.agui.frame import AguiFrame, sse
from tests.support.agui.client_rules import Client
from tests.support.agui.hard_logs import HARD_LOGS
from tests.support.agui.logs import GIVEN, RUN_METADATA, AguiLog, agui_logs, unhurried
from tests.support.legal_logs import LegalLog, legal_logs


def folded(fold: Fold, entries: list[Entry]) -> list[AguiFrame]:
    return [frame for entry in entries for frame in fold.read(entry)]


def client_of(frames: list[AguiFrame]) -> Client:
    return Client(GIVEN, RUN_METADATA["state"]).take_all([frame.event for frame in frames])


@unhurried
@given(agui_logs())
def test_a_client_accepts_the_stream_of_any_log(log: AguiLog) -> None:
    client = client_of(log.frames())
    assert client.ended == (log.state != "TASK_STATE_WORKING")


def assert_fold_knows(log: AguiLog) -> None:
    fold = Fold(1)
    client = client_of(folded(fold, log.parsed()))
    assert fold.view is not None
    assert fold.view.shown() == client.messages
    assert fold.view.state.value == client.state


@unhurried
@given(agui_logs())
def test_the_fold_knows_what_the_client_holds(log: AguiLog) -> None:
    assert_fold_knows(log)


@pytest.mark.parametrize("log", HARD_LOGS)
def test_the_fold_knows_what_the_client_holds_where_it_once_did_not(log: AguiLog) -> None:
    assert_fold_knows(log)


@unhurried
@given(agui_logs(), st.data())
def test_a_run_whose_log_breaks_off_still_ends_whole(log: AguiLog, data: st.DataObject) -> None:
    entries = log.parsed()
    fold = Fold(1)
    frames = folded(fold, entries[: data.draw(st.integers(0, len(entries)))])
    over = fold.over
    last = fold.broken("log_lost", "the log is gone")
    assert client_of(frames + last).ended
    assert bool(last) != over


@unhurried
@given(legal_logs())
def test_logs_of_other_protocols_fold_too(log: LegalLog) -> None:
    entries = log.parsed()
    runs = sorted({entry.stamp.run for entry in entries})
    assert runs[0] == 1
    for run in runs:
        frames = folded(Fold(run), entries)
        Client([{"id": "u", "role": "user", "content": ""}]).take_all([f.event for f in frames])
        assert frames[0].place == (run, 0)


@unhurried
@given(agui_logs(), st.integers(1, 4))
def test_resuming_after_any_frame_equals_the_uncut_stream(log: AguiLog, size: int) -> None:
    uncut, entries = log.frames(), log.parsed()
    again = folded(Fold(1), entries)
    assert uncut
    for cut in range(0, len(uncut), size):
        rest = [frame for frame in again if frame.place > uncut[cut].place]
        assert sse("log00000", rest) == sse("log00000", uncut[cut + 1 :])


@unhurried
@given(agui_logs())
def test_frames_are_numbered_from_0_in_each_generation(log: AguiLog) -> None:
    expected: dict[int, int] = {}
    for generation, number, _ in log.frames():
        assert number == expected.get(generation, 0)
        expected[generation] = number + 1
    assert list(expected) == sorted(expected)
