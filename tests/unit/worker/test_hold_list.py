"""What a watcher makes of a worker's answers is what the worker holds, whatever it has missed."""

import random

import pytest

from headrace.model.messages import Holds
from headrace_worker import hold_list
from headrace_worker.hold_list import HoldList


class Reader:
    """A watcher's copy of the list."""

    def __init__(self) -> None:
        self.holds: dict[int, str] = {}
        self.tasks: dict[int, str] = {}
        self.number = 0

    def take(self, answer: Holds) -> None:
        """Apply an answer, as it comes over the bus."""
        read = Holds.decode("holds", answer.encode())
        if read.whole:
            self.holds.clear()
            self.tasks.clear()
        self.holds.update(read.taken)
        self.tasks.update(read.tasks)
        for number in read.released:
            self.holds.pop(number, None)
            self.tasks.pop(number, None)
        self.number = read.number


@pytest.mark.parametrize(
    ("most", "remembered"), [(5000, 8192), (3, 8192), (5000, 4), (3, 4), (1, 1)]
)
def test_a_reader_has_the_holds_of_the_worker(
    monkeypatch: pytest.MonkeyPatch, most: int, remembered: int
) -> None:
    monkeypatch.setattr(hold_list, "_MOST", most)
    monkeypatch.setattr(hold_list, "_REMEMBERED", remembered)
    chance, held, listed = random.Random(1), dict[int, str](), HoldList(2.0)
    claimed = set[str]()
    readers = [Reader(), Reader()]
    for step in range(2000):
        if held and (len(held) > 20 or chance.random() < 0.5):
            number = chance.choice(list(held))
            reply = held.pop(number)
            if reply in claimed or chance.random() < 0.5:
                listed.remove(number)
            else:
                claimed.add(reply)
                held[listed.claimed(number, f"task of {reply}")] = reply
        elif chance.random() < 0.5:
            held[listed.add(f"ack.{step}")] = f"ack.{step}"
        else:
            held[listed.add(f"ack.{step}", f"task of ack.{step}")] = f"ack.{step}"
            claimed.add(f"ack.{step}")
        reader = readers[chance.random() < 0.1]
        if chance.random() < 0.3:
            reader.take(listed.changes(reader.number, 0.0))
        if chance.random() < 0.01:
            for _ in range(50):
                reader.take(listed.changes(reader.number, 0.0))
            assert reader.holds == held
            assert reader.tasks == {
                number: f"task of {reply}" for number, reply in held.items() if reply in claimed
            }
            assert all(listed.is_known(number, 0.0) for number in held)


@pytest.mark.parametrize("watchers", [1, 2])
def test_long_holds_become_known_while_short_ones_come_and_go(
    monkeypatch: pytest.MonkeyPatch, watchers: int
) -> None:
    monkeypatch.setattr(hold_list, "_MOST", 3)
    monkeypatch.setattr(hold_list, "_REMEMBERED", 4)
    listed, readers = HoldList(2.0), [Reader() for _ in range(watchers)]
    held = {listed.add(f"ack.{number}"): f"ack.{number}" for number in range(20)}
    for _ in range(10):
        for reader in readers:
            listed.remove(listed.add("ack.short"))
            listed.remove(listed.add("ack.short"))
            reader.take(listed.changes(reader.number, 0.0))
    assert all(reader.holds == held for reader in readers)
    assert all(listed.is_known(number, 0.0) for number in held)


def test_an_answer_that_is_lost_is_repeated_and_one_lost_long_ago_is_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hold_list, "_MOST", 1)
    monkeypatch.setattr(hold_list, "_CUT_SHORT", 2)
    listed = HoldList(2.0)
    for number in range(5):
        listed.add(f"ack.{number}")
    first = listed.changes(0, 0.0).number
    lost = listed.changes(first, 0.0)
    assert listed.changes(first, 0.0).taken == lost.taken == {2: "ack.1"}
    assert listed.changes(first, 0.0).whole


def test_only_what_a_watcher_has_read_is_known_and_only_while_it_watches() -> None:
    listed = HoldList(watched=2.0)
    first = listed.add("ack.1")
    assert not listed.is_watched(0.0)
    number = listed.changes(0, 0.0).number
    assert not listed.is_known(first, 0.0)
    second = listed.add("ack.2")
    listed.changes(number, 0.5)
    assert listed.is_known(first, 1.0)
    assert not listed.is_known(second, 1.0)
    assert not listed.is_known(first, 2.6)
    # Another watcher has read nothing.
    listed.changes(0, 3.0)
    assert not listed.is_known(first, 3.0)


def test_a_hold_that_is_not_listed_may_be_removed() -> None:
    listed = HoldList(2.0)
    listed.remove(0)
    assert listed.changes(0, 0.0) == Holds(number=0, whole=True)


def test_a_claim_of_a_hold_that_is_not_listed_or_whose_task_is_known_changes_nothing() -> None:
    listed = HoldList(2.0)
    assert listed.claimed(0, "task") == 0
    known = listed.add("ack.1", "task")
    assert listed.claimed(known, "task") == known
    assert listed.changes(0, 0.0).number == known
