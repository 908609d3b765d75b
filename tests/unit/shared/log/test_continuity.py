"""No event may be missing between two entries, and the log must stay the same one."""

import pytest

from headrace.log.read import Continuity, LogMessage
from headrace.model.entry import Entry, Stamp
from headrace.model.errors import LogLost, LogTooNew
from headrace.model.task import (
    AUTH_REQUIRED,
    BARE_MESSAGE,
    COMPLETED,
    FAILED,
    INPUT_REQUIRED,
    SUBMITTED,
    TERMINAL,
    WORKING,
    TaskKey,
    mint_task_id,
)

KEY = TaskKey("tenant", "agent", mint_task_id(0))

LATER = LogMessage(99, 0, None, newer="Headrace-Version is 99")


def entry(generation: int, events: int = 1, log: str = "abcd", state: str = WORKING) -> Entry:
    stamp = Stamp(log, generation, "writer", state, 1)
    return Entry(stamp, [b"{}"] * events, sequence=generation * 10, time="")


def stored(*entries: Entry) -> list[LogMessage]:
    return [LogMessage(one.sequence, 0, one) for one in entries]


def check(entries: list[Entry], after: int = 0) -> None:
    assert Continuity(KEY, after).entries_in(stored(*entries)) == entries


def test_entries_in_a_row_are_continuous() -> None:
    check([entry(1), entry(2, 3), entry(5), entry(6, 2)])


def test_a_reader_that_begins_in_the_middle_takes_what_comes_first() -> None:
    check([entry(17, 3), entry(20)], after=99)


@pytest.mark.parametrize(
    "entries",
    [
        [entry(2)],
        [entry(1), entry(3)],
        [entry(1, 3), entry(3)],
        [entry(1), entry(1)],
        [entry(1), entry(2, log="efgh")],
    ],
    ids=["no first", "a hole", "an overlap", "a duplicate", "another log"],
)
def test_anything_else_is_a_loss(entries: list[Entry]) -> None:
    with pytest.raises(LogLost):
        check(entries)


def test_a_hole_behind_the_first_is_a_loss_wherever_one_begins() -> None:
    with pytest.raises(LogLost, match=r"generation 20 .* is gone: the next entry begins with 22"):
        check([entry(17, 3), entry(22)], after=99)


@pytest.mark.parametrize("state", sorted(TERMINAL | {BARE_MESSAGE}))
@pytest.mark.parametrize("after", [0, 99])
def test_nothing_behind_an_end_belongs_to_the_log(state: str, after: int) -> None:
    continuity = Continuity(KEY, after)
    assert len(continuity.entries_in(stored(entry(1), entry(2, state=state)))) == 2
    behind = [
        entry(3),
        entry(1, log="efgh"),
        entry(9),
        entry(2, state=state),
        entry(3, state=FAILED),
    ]
    assert not continuity.entries_in([*stored(*behind), LATER])


def test_an_entry_of_a_later_version_is_no_message_to_skip() -> None:
    with pytest.raises(LogTooNew):
        Continuity(KEY, 0).entries_in([*stored(entry(1)), LATER])


@pytest.mark.parametrize("state", [WORKING, INPUT_REQUIRED, AUTH_REQUIRED])
def test_a_log_goes_on_behind_what_is_no_end(state: str) -> None:
    check([entry(1, state=state), entry(2, state=SUBMITTED), entry(3, state=COMPLETED)])
