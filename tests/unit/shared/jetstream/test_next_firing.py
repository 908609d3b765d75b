"""When schedules fire next; integration tests of schedules compare it with what JetStream says."""

from datetime import UTC, datetime, timedelta

import pytest

from headrace.jetstream.next_firing import (
    due_of_cron,
    firings_of_cron,
    next_of_cron,
    next_of_every,
)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("expression", "time_zone", "after", "due"),
    [
        ("0 0 2 * * *", None, "2026-11-24T01:00:00Z", "2026-11-24T02:00:00Z"),
        ("0 0 2 * * *", None, "2026-11-24T02:00:00Z", "2026-11-25T02:00:00Z"),
        ("0 0 2 * * *", "Europe/Paris", "2026-11-24T02:00:00Z", "2026-11-25T01:00:00Z"),
        ("0 */20 9-17 ? * MON-fri", None, "2026-11-20T17:40:00Z", "2026-11-23T09:00:00Z"),
        ("30 0 0 29 2 *", None, "2026-11-24T00:00:00Z", "2028-02-29T00:00:30Z"),
        ("@monthly", None, "2026-12-24T00:00:00Z", "2027-01-01T00:00:00Z"),
        # Both kinds of days are restricted: either will do. 2026-12-01 is a Tuesday.
        ("0 0 0 1 * sun", None, "2026-11-24T00:00:00Z", "2026-11-29T00:00:00Z"),
        ("0 0 0 1 * sun", None, "2026-11-29T00:00:00Z", "2026-12-01T00:00:00Z"),
        # A star restricts nothing, one with a step does.
        ("0 0 0 1 * *", None, "2026-11-24T00:00:00Z", "2026-12-01T00:00:00Z"),
        ("0 0 0 */10 * sun", None, "2026-11-24T00:00:00Z", "2026-11-29T00:00:00Z"),
        # Half past two does not exist on the day that summer time begins, and comes twice on the
        # day that it ends.
        ("0 30 2 * * *", "Europe/Paris", "2027-03-27T12:00:00Z", "2027-03-29T00:30:00Z"),
        ("0 30 2 * * *", "Europe/Paris", "2027-10-30T12:00:00Z", "2027-10-31T00:30:00Z"),
        ("0 30 2 * * *", "Europe/Paris", "2027-10-31T00:30:00Z", "2027-10-31T01:30:00Z"),
    ],
)
def test_cron_is_due_next(expression: str, time_zone: str | None, after: str, due: str) -> None:
    assert next_of_cron(expression, time_zone, at(after)) == at(due)


@pytest.mark.parametrize(
    ("expression", "time_zone"),
    [
        ("0 0 2 * * *", None),
        ("0 30 2 * * *", "Europe/Paris"),
        ("*/7 */20 9-17 ? * MON-fri", "America/New_York"),
        ("30 0 0 29 2 *", "Asia/Kolkata"),
        ("0 0 0 1 * sun", "Australia/Lord_Howe"),
        ("0 */10 1 * * *", "Australia/Lord_Howe"),
        ("@monthly", "Pacific/Kiritimati"),
    ],
)
def test_a_firing_by_cron_is_for_the_time_before_the_next_one(
    expression: str, time_zone: str | None
) -> None:
    due = next_of_cron(expression, time_zone, at("2027-03-20T00:00:00Z"))
    for _ in range(300):
        assert due is not None
        following = next_of_cron(expression, time_zone, due)
        if following is None:
            break
        stored = due + timedelta(seconds=0.2)
        assert due_of_cron(expression, time_zone, following, stored) == due
        due = following


@pytest.mark.parametrize(
    ("time_zone", "following"),
    [
        ("Mars/Base", "2026-11-25T02:00:00+05:00"),
        # The server's rules of the zone differ from this machine's.
        ("Europe/Paris", "2026-11-25T02:00:00+03:00"),
    ],
)
def test_a_firing_in_a_zone_that_is_not_known_is_for_the_time_of_its_storing(
    time_zone: str, following: str
) -> None:
    stored = at("2026-11-24T02:00:00.25+01:00")
    found = due_of_cron("0 0 2 * * *", time_zone, at(following), stored)
    assert found == at("2026-11-24T01:00:00Z")


def test_a_firing_whose_next_time_is_too_late_is_for_the_last_time_before_its_storing() -> None:
    # As nats-server states it at Lord Howe Island, whose clocks change by half an hour.
    stored, following = at("2027-04-03T15:00:00.3Z"), at("2027-04-04T14:00:00Z")
    found = due_of_cron("*/2 * 0 * * *", "Australia/Lord_Howe", following, stored)
    assert found == at("2027-04-03T13:59:58Z")


@pytest.mark.parametrize(
    ("start", "end", "most", "days"),
    [
        ("2026-11-24T02:00:00Z", "2026-11-26T02:00:00Z", 9, [24, 25, 26]),
        ("2026-11-24T02:00:00.5Z", "2026-11-26T01:59:59Z", 9, [25]),
        ("2026-11-24T03:00:00+01:00", "2026-11-30T00:00:00Z", 2, [24, 25]),
        ("2026-11-24T03:00:00Z", "2026-11-24T04:00:00Z", 9, []),
    ],
)
def test_cron_is_due_within_a_range(start: str, end: str, most: int, days: list[int]) -> None:
    found = firings_of_cron("0 0 2 * * *", None, at(start), at(end), most)
    assert found == [at(f"2026-11-{day}T02:00:00Z") for day in days]


def test_cron_is_due_from_1970_on() -> None:
    first, _ = firings_of_cron(
        "@daily", None, datetime.min.replace(tzinfo=UTC), datetime.now(UTC), 2
    )
    assert first == at("1970-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("expression", "time_zone"),
    [("0 0 0 31 2 *", None), ("0 0 9 * * *", "Mars/Base"), ("0 0 9 * * someday", None)],
)
def test_a_time_that_is_not_known_is_none(expression: str, time_zone: str | None) -> None:
    assert next_of_cron(expression, time_zone, datetime.now(UTC)) is None


@pytest.mark.parametrize(
    ("now", "known", "due"),
    [
        # It has not fired since it was stored, whatever was known before.
        ("00:00:59", None, "01:30:00"),
        ("00:00:59", "00:45:00", "01:30:00"),
        # It has fired: when NATS has said.
        ("01:45:00", "03:01:00", "03:01:00"),
        # It has fired, and nobody has recorded it.
        ("03:00:00", None, "04:30:00"),
        ("03:45:00", "03:01:00", "04:30:00"),
    ],
)
def test_every_so_often_is_due_next(now: str, known: str | None, due: str) -> None:
    def on_that_day(time: str) -> datetime:
        return at(f"2026-11-24T{time}Z")

    stored = on_that_day("00:00:00") + timedelta(milliseconds=400)
    following = None if known is None else on_that_day(known)
    found = next_of_every("1h29.5m30s", stored, following, on_that_day(now))
    assert found == on_that_day(due)
