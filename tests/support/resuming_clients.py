"""Many clients of tasks that continue until a test has caused its failures."""

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from tests.support.resuming import Client, round_robin
from tests.support.resuming_log import whole_log
from tests.support.resuming_protocols import A2A
from tests.support.resuming_wire import ConnectionCut, Request, answered
from tests.support.waiting import eventually

_AGENT = "counter"
_TEXT = "1000000 100"
"""Far more than any test waits for: the tasks end when they are cancelled. While a test waits for a
process, each event costs all of the task's clients."""

_BEGUN = 5
_TIMEOUT = 120.0
_OK = 200


class ResumingClients:
    """Tasks with three clients each: one started it, one follows from its first event, one joined.

    They reconnect over all gateways in turn, each time in another protocol.
    """

    def __init__(self, gateways: Sequence[str], nats_url: str | list[str], tasks: int) -> None:
        """Have `tasks` tasks at `gateways`, whose logs are at `nats_url`."""
        self._gateways, self._nats_url = list(gateways), nats_url
        self.starters = [Client(_AGENT, _TEXT) for _ in range(tasks)]
        self.clients = list(self.starters)
        self._following: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        """Return once all clients have seen some events."""
        for starter in self.starters:
            self._follow(starter)
        await self.until_received(_BEGUN)
        for starter in self.starters:
            cursor = starter.received[0].cursor
            self.join(Client(_AGENT, task=starter.task, cursor=cursor))
            self.join(Client(_AGENT, task=starter.task))
        await self.until_received(_BEGUN)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        for following in self._following:
            following.cancel()
        await asyncio.gather(*self._following, return_exceptions=True)

    def join(self, client: Client) -> None:
        """Let one more client follow."""
        self.clients.append(client)
        self._follow(client)

    def joiner(self, number: int = 0) -> Client:
        """Return a client that joins the task of that number, if `join` lets it."""
        return Client(_AGENT, task=self.starters[number].task)

    async def until_received(self, number: int) -> None:
        """Return once every client has `number` events.

        Raises:
            AssertionError: some have not, in all the time that servers need to come back.
        """

        async def have_received() -> bool:
            for following in self._following:
                if following.done():
                    following.result()
            return all(len(client.received) >= number for client in self.clients)

        what = f"all {len(self.clients)} clients have {number} events"
        await eventually(have_received, what, _TIMEOUT)

    async def until_all_went_on(self, events: int = 10) -> None:
        """Return once every client has seen `events` more than any of them has now."""
        now = max(len(client.received) for client in self.clients)
        await self.until_received(now + events)

    async def end(self) -> None:
        """Cancel the tasks; return once every client has seen it and is found to be exact."""
        await asyncio.gather(*map(self._cancel, self.starters))
        async with asyncio.timeout(_TIMEOUT):
            await asyncio.gather(*self._following)
        for starter in self.starters:
            log = await whole_log(self._nats_url, _AGENT, starter.task)
            for client in (each for each in self.clients if each.task == starter.task):
                client.assert_exact(log)

    def _follow(self, client: Client) -> None:
        steps = round_robin(self._gateways, A2A, len(self._following))
        self._following.append(asyncio.create_task(client.follow(steps)))

    async def _cancel(self, starter: Client) -> None:
        request = Request("POST", f"/v1/agents/{_AGENT}/tasks/{starter.task}:cancel", body={})
        for gateway in self._gateways * 20:
            try:
                async with answered(gateway, request) as answer:
                    if answer.status == _OK:
                        return
            except ConnectionCut:
                pass
            await asyncio.sleep(0.2)
        raise AssertionError(f"no gateway cancels {starter.task}")
