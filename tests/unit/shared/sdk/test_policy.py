"""A run is attempted again after the errors that its agent's retry names, also in groups."""

import pytest

from headrace import Retry, Retryable, StepChanged
from headrace.model.errors import BusUnavailable

RETRY = Retry(on=(OSError,))

TIMEOUT, BUSY, AWAY = TimeoutError("slow"), Retryable("busy"), BusUnavailable("no answer")

FOLLOWED = [
    (BUSY, "busy"),
    (TIMEOUT, "TimeoutError: slow"),
    (AWAY, AWAY.public),
    (ExceptionGroup("both", [TIMEOUT, BUSY]), "TimeoutError: slow"),
    (ExceptionGroup("outer", [ExceptionGroup("inner", [BUSY])]), "busy"),
]

FINAL = [
    None,
    KeyError("x"),
    ExceptionGroup("both", [TIMEOUT, KeyError("x")]),
    ExceptionGroup("outer", [ExceptionGroup("inner", [KeyError("x")]), TIMEOUT]),
    BaseExceptionGroup("exit", [SystemExit()]),
]


@pytest.mark.parametrize(("error", "reason"), FOLLOWED, ids=repr)
def test_an_error_or_a_group_of_such_errors_is_followed_by_another_attempt(
    error: Exception, reason: str
) -> None:
    assert str(RETRY.reason(error)) == reason


@pytest.mark.parametrize("error", FINAL, ids=repr)
def test_any_other_error_is_final_also_in_a_group(error: BaseException | None) -> None:
    assert RETRY.reason(error) is None


def test_what_the_author_has_to_put_right_is_final_whatever_is_named() -> None:
    everything, changed = Retry(on=(Exception,)), StepChanged("step 'pay' has no record")
    assert everything.reason(changed) is None
    assert not everything.names(changed)
    assert everything.names(KeyError("x"))


def test_what_a_named_error_says_is_told_apart_also_in_a_group() -> None:
    named = [TIMEOUT, ExceptionGroup("both", [BUSY, TIMEOUT])]
    assert [RETRY.names(error) for error in named] == [True, True]
    others = [None, BUSY, KeyError("x"), ExceptionGroup("one", [BUSY])]
    assert [RETRY.names(error) for error in others] == [False] * 4
    assert not Retry().names(ExceptionGroup("one", [BUSY]))
