"""Which keys count as renewed."""

from headrace.directory import Renewals


def test_a_key_counts_while_its_sequence_moves() -> None:
    renewals = Renewals()
    assert [renewals.fresh({"a": 10 + n}, 3.0 * n, 13.0) for n in range(20)] == [{"a"}] * 20


def test_a_key_that_is_not_renewed_no_longer_counts_though_it_remains() -> None:
    renewals = Renewals()
    kept = [renewals.fresh({"a": 10, "b": 20 + n}, 3.0 * n, 13.0) for n in range(6)]
    assert kept == [{"a", "b"}] * 5 + [{"b"}]


def test_a_key_that_is_renewed_at_last_counts_again() -> None:
    renewals = Renewals()
    renewals.fresh({"a": 10}, 0.0, 13.0)
    assert renewals.fresh({"a": 10}, 60.0, 13.0) == set()
    assert renewals.fresh({"a": 11}, 61.0, 13.0) == {"a"}


def test_a_key_that_went_and_came_back_is_new() -> None:
    renewals = Renewals()
    renewals.fresh({"a": 10}, 0.0, 13.0)
    renewals.fresh({}, 1.0, 13.0)
    assert renewals.fresh({"a": 10}, 60.0, 13.0) == {"a"}


def test_a_key_that_is_heard_counts_as_renewed_though_it_is_not_read_again() -> None:
    renewals = Renewals()
    renewals.fresh({"a": 10, "b": 20}, 0.0, 13.0)
    renewals.hear("a", 10.0)
    assert renewals.age("a", 12.0) == 2.0
    assert renewals.fresh({"a": 10, "b": 20}, 20.0, 13.0) == {"a"}


def test_only_a_key_that_was_read_is_heard() -> None:
    renewals = Renewals()
    renewals.hear("a", 0.0)
    assert renewals.fresh({"a": 10}, 60.0, 13.0) == {"a"}
    assert renewals.age("a", 60.0) == 0.0
