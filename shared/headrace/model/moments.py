"""Moments as whole microseconds since 1970, as lists are ordered by them."""

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_MICROSECOND = timedelta(microseconds=1)


def moment_of(microseconds: int) -> datetime:
    """Return the moment, in UTC."""
    return EPOCH + microseconds * _MICROSECOND


def microseconds_of(moment: datetime) -> int:
    """Return when the moment, which has a time zone, is."""
    return (moment - EPOCH) // _MICROSECOND
