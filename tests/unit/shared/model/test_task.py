"""A task's id names its shard, and cannot be guessed or mistaken."""

import re

import pytest

from headrace.model import task
from headrace.model.delegation import child_task_id
from headrace.model.errors import InvalidName
from headrace.model.task import (
    TaskKey,
    check_task_id,
    derive_task_id,
    mint_log_id,
    mint_task_id,
    thread_in,
    thread_token,
)


@pytest.mark.parametrize("shard", [0, 15, 16, 1023])
def test_a_task_id_carries_its_shard(shard: int) -> None:
    minted = mint_task_id(shard)
    assert check_task_id(minted) == minted
    assert TaskKey("tenant", "agent", minted).shard == shard


def test_task_ids_do_not_repeat() -> None:
    assert len({mint_task_id(0) for _ in range(1000)}) == 1000


def test_a_derived_task_id_is_the_same_for_the_same_question_only() -> None:
    first = derive_task_id(3, "parent", "key", "0" * 12)
    assert check_task_id(first) == derive_task_id(3, "parent", "key", "0" * 12)
    others = [("parent", "other"), ("other", "key"), ("paren", "tkey")]
    assert first not in [derive_task_id(3, *other, "0" * 12) for other in others]


def test_a_task_id_carries_the_thread_of_its_owner_and_context() -> None:
    thread = thread_token("ann", "c")
    # BLAKE2b, as other languages have it: `printf 'ann\0c' | b2sum -l 48`.
    assert thread == "ef1747f4f35e"
    assert thread not in {
        thread_token("an", "nc"),
        thread_token("bob", "c"),
        thread_token("", "annc"),
    }
    ids = mint_task_id(3, thread), mint_task_id(3, thread), derive_task_id(3, "of", "key", thread)
    assert len({*ids}) == 3
    child = child_task_id(ids[0], 1, "agent", "name")
    assert {thread_in(check_task_id(one)) for one in (*ids, child)} == {thread}
    assert child not in {*ids, child_task_id(ids[1], 1, "agent", "name")}
    assert len({TaskKey("t", "a", mint_task_id(3)).thread for _ in range(9)}) == 9


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "0-",
        "-" + "0" * 32,
        "00-" + "0" * 32,
        "01-" + "0" * 32,
        "0-" + "0" * 31,
        "0-" + "0" * 33,
        "0-" + "A" * 32,
        "99999-" + "0" * 32,
        "0-" + "0" * 32 + "\n",
        "٣-" + "0" * 32,
    ],
)
def test_what_no_task_can_be_called_is_refused(text: str) -> None:
    with pytest.raises(InvalidName):
        check_task_id(text)


def test_log_ids_fit_a_cursor_and_do_not_repeat() -> None:
    minted = {mint_log_id() for _ in range(1000)}
    assert len(minted) == 1000
    assert all(re.fullmatch("[0-9a-z]{4,16}", log) for log in minted)


def test_states_are_those_of_a2a_each_in_its_place() -> None:
    assert not task.TERMINAL & task.INTERRUPTED
    assert task.AUTH_REQUIRED not in task.RUN_ENDED, "its holder waits on"
    assert task.RUN_ENDED <= task.STATES
    assert len(task.STATES) == 8
