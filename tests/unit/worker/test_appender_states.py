"""Which states of an appender lead to which; no other move goes unnoticed."""

import itertools

import pytest

from headrace_worker.appender import IllegalMove, State

LEGAL = {
    State.IDLE: {"WAITING_TICK", "DUE", "CLOSED", "ABORTED"},
    State.WAITING_TICK: {"IDLE", "DUE", "SENDING", "CATCHING_UP", "CLOSED", "ABORTED"},
    State.DUE: {"IDLE", "SENDING", "CATCHING_UP", "CLOSED", "ABORTED"},
    State.SENDING: {"IDLE", "WAITING_TICK", "SENDING", "CATCHING_UP", "CLOSED", "ABORTED"},
    State.CATCHING_UP: {"IDLE", "WAITING_TICK", "SENDING", "CATCHING_UP", "CLOSED", "ABORTED"},
    State.CLOSED: {"CLOSED", "ABORTED"},
    State.ABORTED: {"ABORTED"},
}


@pytest.mark.parametrize(("before", "after"), list(itertools.product(State, State)))
def test_only_the_moves_of_the_table_are_made(before: State, after: State) -> None:
    if after.name in LEGAL[before]:
        assert before.to(after) is after
    else:
        with pytest.raises(IllegalMove, match=after.name):
            before.to(after)


def test_only_what_is_closed_or_aborted_accepts_nothing() -> None:
    assert [state for state in State if state.is_closed] == [State.CLOSED, State.ABORTED]
