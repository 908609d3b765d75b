"""The official client reads what the fold makes of logs drawn at random."""

from typing import Any

from hypothesis import Phase, given, settings

from headrace.model.cursor import FrameCursor
from headrace.model.events import Json
from headrace_gateway.protocols.agui.fold import Fold
from headrace_gateway.protocols.agui.frame import AguiFrame, sse
from headrace_gateway.protocols.agui.run_frames import AfterCursor, RunFrames, SnapshotStart
from tests.support import javascript
from tests.support.agui.client_rules import Client
from tests.support.agui.hard_logs import HARD_LOGS
from tests.support.agui.logs import GIVEN, RUN_METADATA, AguiLog, agui_logs, unhurried
from tests.support.resuming_sizes import sized


def drawn_logs(number: int) -> list[AguiLog]:
    logs: list[AguiLog] = []

    @settings(unhurried, max_examples=number, phases=[Phase.generate], database=None)
    @given(agui_logs())
    def draw(log: AguiLog) -> None:
        logs.append(log)

    draw()
    return logs


def folded(log: AguiLog) -> tuple[list[AguiFrame], Fold]:
    fold = Fold(1)
    frames = [frame for entry in log.parsed() for frame in fold.read(entry)]
    return [*frames, *fold.broken("log_lost", "the log is gone")], fold


def read(bodies: list[bytes]) -> list[Json]:
    state = RUN_METADATA["state"]
    recorded = [{"body": b.decode(), "messages": GIVEN, "state": state} for b in bodies]
    held: list[Any] = javascript.run("read.mjs", recorded)
    return held


def test_it_holds_what_the_fold_states_and_complains_of_nothing() -> None:
    streams = [folded(log) for log in [*HARD_LOGS, *drawn_logs(sized(60, 150))]]
    held = read([sse("log00000", frames) for frames, _ in streams])
    for (_, fold), client in zip(streams, held, strict=True):
        assert fold.view is not None
        assert client == {
            "messages": fold.view.shown(),
            "state": fold.view.state.value,
            "failure": None,
            "warnings": [],
        }


def test_it_comes_back_to_runs_wherever_it_was_cut_off() -> None:
    orders: list[Json] = []
    expected: list[Json] = []
    logs = drawn_logs(sized(40, 80))
    for number, log in enumerate(logs):
        entries, (_, fold), uncut = log.parsed(), folded(log), log.frames()
        cut = uncut[number % len(uncut)]
        first = Client(GIVEN, RUN_METADATA["state"])
        first.take_all([frame.event for frame in uncut[: uncut.index(cut) + 1]])
        cursor = FrameCursor("log00000", *cut.place)
        head = entries[number % len(entries)].last_generation
        for lead, messages, state in (
            (AfterCursor(cursor), first.messages, first.state),
            (SnapshotStart(head), [], {}),
        ):
            if state is None:
                continue  # the client can't be made to begin with it
            frames = RunFrames(1, lead)
            received = [frame for entry in entries for frame in frames.read(entry)]
            received += frames.broken("log_lost", "the log is gone")
            body = sse("log00000", received).decode()
            orders.append({"body": body, "messages": messages, "state": state})
            assert fold.view is not None
            expected.append({"messages": fold.view.shown(), "state": fold.view.state.value})
    assert len(orders) == 2 * len(logs) > 0
    held: list[Any] = javascript.run("read.mjs", orders)
    for client, wanted in zip(held, expected, strict=True):
        assert client == {**wanted, "failure": None, "warnings": []}


def test_it_would_notice_a_rule_that_is_broken() -> None:
    log = AguiLog.started().show({"text": "hello"}).end()
    frames = [f for f in log.frames() if f.event["type"] != "TEXT_MESSAGE_END"]
    [client] = read([sse("log00000", frames)])
    assert "RUN_FINISHED" in client["failure"]
