"""How pull subscriptions go on after a failure."""

import asyncio
import logging

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import TimeoutError  # noqa: A004 - nats-py's own
from nats.js.errors import ServiceUnavailableError

from headrace.jetstream.paced_pulls import PacedPulls


class ScriptedSource:
    """Raises or returns what its script says."""

    def __init__(self, *script: Exception | list[Msg]) -> None:
        self._script = list(script)

    async def fetch(self, *_: object) -> list[Msg]:
        found = self._script.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    async def unsubscribe(self) -> None:
        """Nothing to end."""


async def test_a_failure_is_logged_once_and_waited_out(caplog: pytest.LogCaptureFixture) -> None:
    gone, message = ServiceUnavailableError(), Msg(Client(), subject="orders")
    pulls = PacedPulls(ScriptedSource(gone, gone, [message]), "orders.*", pause=0)
    with caplog.at_level(logging.WARNING):
        assert [await pulls.fetch() for _ in range(3)] == [[], [], [message]]
    [messages] = caplog.messages
    assert messages.startswith("orders.*: ")


async def test_nothing_is_pulled_in_the_pause() -> None:
    pulls = PacedPulls(ScriptedSource(ServiceUnavailableError()), "orders.*", pause=3600)
    fetching = asyncio.ensure_future(pulls.fetch())
    done, _ = await asyncio.wait([fetching], timeout=0.1)
    assert not done
    fetching.cancel()


async def test_no_message_in_time_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    pulls = PacedPulls(ScriptedSource(TimeoutError()), "orders.*", pause=3600)
    with pytest.raises(TimeoutError):
        await pulls.fetch()
    assert caplog.messages == []
