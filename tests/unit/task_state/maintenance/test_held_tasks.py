"""Which tasks need no question to their holders, and when they are looked at again."""

from dataclasses import dataclass

from headrace_task_state.maintenance.held_tasks import HeldTask, HeldTasks


@dataclass(eq=False)
class StubHolder:
    """A worker that answers unless told otherwise."""

    answers: bool = True


def test_a_task_is_held_while_its_worker_answers() -> None:
    held, worker = HeldTasks(), StubHolder()
    assert held.find("a") is None
    held.record("a", worker)
    assert held.find("a") is not None
    worker.answers = False
    assert held.find("a") is None
    worker.answers = True
    held.release("a", worker)
    assert held.find("a") is None


def test_no_task_is_known_before_the_first_is_taken_and_after_the_last_is_released() -> None:
    held, worker = HeldTasks(), StubHolder()
    empty = [held.is_empty]
    held.record("a", worker)
    empty.append(held.is_empty)
    held.release("a", worker)
    assert [*empty, held.is_empty] == [True, False, True]


def test_a_worker_that_lost_a_task_to_another_does_not_release_it() -> None:
    held, first, second = HeldTasks(), StubHolder(), StubHolder()
    held.record("a", first)
    held.record("a", second)
    held.release("a", first)
    assert held.find("a") is not None
    held.release("a", second)
    assert held.find("a") is None


def test_the_pause_doubles_until_the_log_goes_on() -> None:
    task = HeldTask(StubHolder())
    silent = [task.next_pause("7", 30.0, 300.0) for _ in range(6)]
    assert silent == [30.0, 60.0, 120.0, 240.0, 300.0, 300.0]
    assert [task.next_pause("8", 30.0, 300.0) for _ in range(2)] == [30.0, 60.0]
