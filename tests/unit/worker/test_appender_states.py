"""Which states of an appender lead to which; no other move goes unnoticed."""

import itertools

import pytest

from headrace_worker.appender import AppenderState, IllegalMove

BUSY = {"IDLE", "SENDING", "CATCHING_UP", "CLOSED"}
LEGAL = {
    AppenderState.IDLE: {"WAITING_TICK", "DUE", "CLOSED"},
    AppenderState.WAITING_TICK: {"DUE", *BUSY},
    AppenderState.DUE: BUSY,
    AppenderState.SENDING: {"WAITING_TICK", *BUSY},
    AppenderState.CATCHING_UP: {"WAITING_TICK", *BUSY},
    AppenderState.CLOSED: {"CLOSED"},
}


@pytest.mark.parametrize(("before", "after"), list(itertools.product(AppenderState, AppenderState)))
def test_only_the_moves_of_the_table_are_made(before: AppenderState, after: AppenderState) -> None:
    if after.name in LEGAL[before]:
        assert before.to(after) is after
    else:
        with pytest.raises(IllegalMove, match=after.name):
            before.to(after)
