"""Whether a connection is encrypted, where the settings require it."""

from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest

from headrace.jetstream.client import NatsClient


@pytest.mark.parametrize(
    ("url", "is_encrypted"),
    [(None, False), ("ws://nats:80", False), ("wss://nats:443", True), ("nats://nats", False)],
)
def test_a_web_socket_is_encrypted_by_its_scheme(url: str | None, *, is_encrypted: bool) -> None:
    client: Any = NatsClient()
    client._transport = object()
    client._current_server = None if url is None else SimpleNamespace(uri=urlsplit(url))
    assert client._is_encrypted() is is_encrypted
