"""The connections to NATS that a test's own process makes."""

from typing import Any

import pytest

from headrace.jetstream.client import NatsClient


def connections(monkeypatch: pytest.MonkeyPatch) -> list[NatsClient]:
    """Return a list that gets each connection that is made from now on, in order."""
    made, original = list[NatsClient](), NatsClient.__init__

    def noted(client: NatsClient, *args: Any, **options: Any) -> None:  # noqa: ANN401 - its own
        original(client, *args, **options)
        made.append(client)

    monkeypatch.setattr(NatsClient, "__init__", noted)
    return made
