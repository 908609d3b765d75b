"""A nats-server that another one replaces once it has many streams."""

import itertools
from pathlib import Path

from headrace.settings import BusSettings
from tests.support.servers import NatsProcess
from tests.support.successive_servers import SuccessiveServers
from tests.support.task_submitter import fresh_names, open_submitter


async def make_streams(server: NatsProcess) -> None:
    """Make those of one fleet."""
    settings = BusSettings.model_validate({"nats_url": server.url, **fresh_names()})
    async with open_submitter(settings):
        pass


async def test_a_server_is_kept_until_it_has_many_streams(tmp_path: Path) -> None:
    numbers = itertools.count()
    with SuccessiveServers(lambda: tmp_path / str(next(numbers)), many=12) as servers:
        first = servers.current()
        await make_streams(first)  # These are eleven.
        assert servers.current() is first
        await make_streams(first)
        second = servers.current()
        assert second is not first
        assert not first.is_running
        await make_streams(second)
        await make_streams(second)
        third = servers.current()
        assert third is not second
        await make_streams(third)
    assert not third.is_running
    assert next(numbers) == 3
