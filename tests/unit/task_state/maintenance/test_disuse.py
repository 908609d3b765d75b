"""Queues that are used no more."""

from headrace.model.events import Json
from headrace_task_state.maintenance.queue_upkeep import QueueIdleTracker


def consumer(delivered: int, *, created: str = "1", **waiting: object) -> Json:
    figures = {"num_pending": 0, "num_ack_pending": 0, **waiting}
    return {"created": created, "delivered": {"consumer_seq": delivered}, **figures}


def test_a_queue_is_unused_since_it_last_handed_something_out() -> None:
    disuse = QueueIdleTracker()
    assert disuse.seconds("a", consumer(1), 100.0) == 0
    assert disuse.seconds("a", consumer(1), 160.0) == 60
    assert disuse.seconds("a", consumer(2), 200.0) == 0
    assert disuse.seconds("a", consumer(2), 230.0) == 30


def test_a_queue_with_runs_that_wait_or_are_at_work_is_used() -> None:
    for used in (consumer(1, num_pending=1), consumer(1, num_ack_pending=1)):
        disuse = QueueIdleTracker()
        disuse.seconds("a", consumer(1), 0.0)
        assert disuse.seconds("a", used, 700.0) == 0
        assert disuse.seconds("a", consumer(1), 710.0) == 10


def test_a_queue_that_was_made_again_begins_anew_though_it_has_handed_out_as_much() -> None:
    disuse = QueueIdleTracker()
    disuse.seconds("a", consumer(1, created="1"), 0.0)
    assert disuse.seconds("a", consumer(1, created="2"), 5000.0) == 0


def test_a_queue_that_is_gone_is_forgotten() -> None:
    disuse = QueueIdleTracker()
    disuse.seconds("a", consumer(1), 0.0)
    disuse.keep({"b"})
    assert disuse.seconds("a", consumer(1), 5000.0) == 0
