"""Whatever is in a log, in whatever order, the client can read the stream, also once more."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.model.entry import Entry
from headrace_gateway.feeds import FeedBlock
from headrace_gateway.protocols.ai_sdk.fold import ChatFold
from headrace_gateway.protocols.ai_sdk.renderer import (
    Beginning,
    FromInput,
    MessageRenderer,
    WholeMessage,
)
from tests.support.agui.logs import KEY, AguiLog, agui_logs, unhurried
from tests.support.legal_logs import LegalLog, legal_logs
from tests.support.ui_messages import UiMessage, chunks_of


def read(entries: list[Entry], beginning: Beginning) -> UiMessage:
    """Return what a client holds that has read the stream of a log."""
    renderer = MessageRenderer(KEY.task, beginning)
    frames = [frame for one in entries for frame in renderer.render([FeedBlock(one)], 0)]
    return UiMessage().take_all(chunks_of(frames))


@unhurried
@given(agui_logs())
def test_a_client_accepts_the_stream_of_any_log(log: AguiLog) -> None:
    message = read(log.parsed(), FromInput(1))
    assert message.id == f"{log.key.task}.1"
    assert bool(message.finish) == (log.state != "TASK_STATE_WORKING")


@unhurried
@given(agui_logs(), st.data())
def test_a_resumed_stream_shows_the_same(log: AguiLog, data: st.DataObject) -> None:
    entries = log.parsed()
    head = data.draw(st.integers(1, entries[-1].last_generation))
    whole, again = read(entries, FromInput(1)), read(entries, WholeMessage(head))
    assert (again.id, again.text, again.finish) == (whole.id, whole.text, whole.finish)
    assert again.parts == whole.parts


@unhurried
@given(legal_logs())
def test_logs_of_several_runs_are_read_from_each_of_them(log: LegalLog) -> None:
    entries = log.parsed()
    runs = sorted({entry.stamp.run for entry in entries})
    assert runs[0] == 1
    for run in runs:
        fold = ChatFold(KEY.task)
        for entry in entries:
            fold.read(entry)
        last = read(entries, FromInput(run))
        assert last.id == fold.message
    head = entries[-1].last_generation
    assert read(entries, WholeMessage(head)).text == read(entries, FromInput(runs[-1])).text


@unhurried
@given(legal_logs(), st.data())
def test_a_log_without_its_head_is_read_from_what_is_left(
    log: LegalLog, data: st.DataObject
) -> None:
    left = log.parsed()[data.draw(st.integers(0, len(log.messages) - 1)) :]
    message = read(left, WholeMessage(left[-1].last_generation))
    assert message.id.startswith(f"{KEY.task}.")
