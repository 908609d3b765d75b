"""How pull subscriptions go on after a failure."""

import asyncio
import logging

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig
from nats.js.errors import BadRequestError, NotFoundError, ServiceUnavailableError

from headrace.jetstream.client import NatsClient
from headrace.jetstream.paced_pulls import PacedJetStream, PacedPulls


class ScriptedSource:
    """Raises or returns what its script says; its consumer may be gone until it is made."""

    def __init__(self, *script: Exception | list[Msg], is_gone: bool = False) -> None:
        self._script, self.is_gone = list(script), is_gone
        self.refusals = list[Exception]()
        """Why it can't be made, in turn."""
        self.made = 0

    async def fetch(self, *_: object) -> list[Msg]:
        found = self._script.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    async def consumer_info(self) -> None:
        if self.is_gone:
            raise NotFoundError

    async def make(self) -> None:
        if self.refusals:
            raise self.refusals.pop(0)
        self.is_gone = False
        self.made += 1

    async def unsubscribe(self) -> None:
        """Nothing to end."""


def pulls_of(source: ScriptedSource, pause: float = 0) -> PacedPulls:
    return PacedPulls(source, "orders.*", source.make, pause)


async def test_a_failure_is_logged_once_and_waited_out(caplog: pytest.LogCaptureFixture) -> None:
    gone, message = ServiceUnavailableError(), Msg(Client(), subject="orders")
    pulls = pulls_of(ScriptedSource(gone, gone, [message]))
    with caplog.at_level(logging.WARNING):
        assert [await pulls.fetch() for _ in range(3)] == [[], [], [message]]
    [messages] = caplog.messages
    assert messages.startswith("orders.*: ")


async def test_nothing_is_pulled_in_the_pause() -> None:
    pulls = pulls_of(ScriptedSource(ServiceUnavailableError()), 3600)
    fetching = asyncio.ensure_future(pulls.fetch())
    done, _ = await asyncio.wait([fetching], timeout=0.1)
    assert not done
    fetching.cancel()


async def test_no_message_in_time_ends_a_problem() -> None:
    gone = ServiceUnavailableError()
    pulls = pulls_of(ScriptedSource(gone, [], BadRequestError(description="broken")))
    assert await pulls.fetch() == []
    assert pulls.problem == "its consumer does not answer"
    assert await pulls.fetch() == []
    assert pulls.problem == ""
    assert await pulls.fetch() == []
    assert "broken" in pulls.problem


async def test_a_consumer_that_is_gone_is_made_again_and_no_other() -> None:
    gone, message = ServiceUnavailableError(), Msg(Client(), subject="orders")
    there = ScriptedSource(gone, [message])
    missing = ScriptedSource(gone, gone, gone, [message], is_gone=True)
    missing.refusals = [NotFoundError(description="stream not found"), BadRequestError()]
    pulls = pulls_of(missing)
    problems = list[str]()
    for _ in range(4):
        await pulls.fetch()
        problems.append(pulls.problem)
    assert "stream not found" in problems[0]
    assert all(problems[:3])
    assert (problems[3], missing.made) == ("", 1)
    assert [await pulls_of(there).fetch(), there.made] == [[], 0]


@pytest.mark.parametrize(
    ("config", "named"),
    [(None, "orders"), (ConsumerConfig(), "orders"), (ConsumerConfig(filter_subject="a.>"), "a.>")],
    ids=["no configuration", "no filter", "a filter"],
)
async def test_a_missing_consumer_is_made_with_its_filter(
    config: ConsumerConfig | None,
    named: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    source, asked = ScriptedSource(ServiceUnavailableError(), is_gone=True), list[object]()

    async def subscribe(_: object, subject: str, **options: object) -> ScriptedSource:
        asked.append((subject, options["stream"]))
        return source

    async def add(_: object, stream: str, config: object) -> None:
        asked.append((stream, config))

    monkeypatch.setattr(JetStreamContext, "pull_subscribe", subscribe)
    monkeypatch.setattr(JetStreamContext, "add_consumer", add)
    pulls = await PacedJetStream(NatsClient()).pull_subscribe("orders", config=config, stream="S")
    pulls._pause = 0.0
    assert await pulls.fetch() == []
    assert asked == [(named, "S"), ("S", config)]
    assert caplog.messages[-1] == f"{named}: its consumer was gone, and is made again"
