"""What of a server's URL may stand in a log."""

import pytest

from headrace.settings import without_credentials


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("nats://fleet:s3cret@nats:4222", "nats://nats:4222"),
        ("nats://t0ken@nats:4222", "nats://nats:4222"),
        ("tls://a:s3cret@one:4222, nats://b:s3cret@two", "tls://one:4222,nats://two"),
        ("redis://:s3/cr@et@valkey:6379/0", "redis://valkey:6379/0"),
        ("fleet:s3cret@nats:4222", "nats:4222"),
        ("nats://127.0.0.1:4222", "nats://127.0.0.1:4222"),
    ],
)
def test_a_log_shows_where_a_server_is_and_not_the_credentials(url: str, shown: str) -> None:
    assert without_credentials(url) == shown
