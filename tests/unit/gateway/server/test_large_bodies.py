"""Large bodies of requests that are not counted yet, by the rates of their callers and agents."""

from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.requests import Request
from starlette.types import Message

from headrace_gateway.call import caller_of
from headrace_gateway.refusals import Malformed, RateLimited, Violation
from headrace_gateway.server.auth.access import Access, RateLimits
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.server.body import SMALL, BodyLimits, HeldBodies, read_body
from headrace_gateway.server.open_requests import OpenRequests
from headrace_gateway.services import Services
from headrace_gateway.settings import GatewaySettings
from tests.support.fake_bus import FakeBus

ANN, BOB = Caller("acme", "ann"), Caller("acme", "bob")
LIMITS = BodyLimits(10 * SMALL, 10 * SMALL, HeldBodies(-1, -1, 10 * SMALL))


class Gateway:
    """A gateway with rates; `reads` are the sizes of what it asked a client for."""

    def __init__(self, **rates: int) -> None:
        self.rates = RateLimits(FakeBus(), GatewaySettings(**cast("Any", rates)), interval=3600.0)
        self.access = Access(self.rates, cast("Any", None))
        self.reads = list[int]()

    async def read(self, caller: Caller, size: int, *, agent: str = "", declared: int = 0) -> bytes:
        """Read a body of `size` bytes, which comes in pieces of 1 KB."""
        callers = SimpleNamespace(everyone=caller)
        services = cast("Services", SimpleNamespace(callers=callers, access=self.access))
        left = size

        async def receive() -> Message:
            nonlocal left
            piece = b" " * min(left, 1024)
            left -= len(piece)
            self.reads.append(len(piece))
            return {"type": "http.request", "body": piece, "more_body": left > 0}

        scope = {
            "type": "http",
            "headers": [(b"content-length", b"%d" % declared)] if declared else [],
            "path_params": {"agent": agent} if agent else {},
        }
        request = Request(scope, receive)
        async with OpenRequests().one("a2a", "jsonrpc"):
            caller_of(services, request)
            return await read_body(request, LIMITS)


async def test_a_callers_rate_bounds_what_is_read() -> None:
    gateway = Gateway(owner_requests_per_minute=1)
    assert len(await gateway.read(ANN, 2 * SMALL)) == 2 * SMALL
    gateway.rates.count(ANN)
    gateway.reads.clear()
    with pytest.raises(RateLimited, match="you may send 1 request"):
        await gateway.read(ANN, 2 * SMALL)
    assert SMALL < sum(gateway.reads) <= SMALL + 1024
    gateway.reads.clear()
    with pytest.raises(RateLimited, match="you may send 1 request"):
        await gateway.read(ANN, 2 * SMALL, declared=2 * SMALL)
    assert gateway.reads == []
    assert len(await gateway.read(ANN, SMALL, declared=SMALL)) == SMALL
    assert len(await gateway.read(BOB, 2 * SMALL)) == 2 * SMALL


async def test_so_does_the_rate_of_the_agent_in_the_path() -> None:
    gateway = Gateway(agent_requests_per_minute=1)
    gateway.rates.count(BOB, "shop")
    with pytest.raises(RateLimited, match="to agent shop"):
        await gateway.read(ANN, 2 * SMALL, agent="shop", declared=2 * SMALL)
    assert gateway.reads == []
    assert len(await gateway.read(ANN, 2 * SMALL, agent="faq")) == 2 * SMALL


class Rate:
    """Counts requests, of which none may be sent."""

    def __init__(self) -> None:
        self.taken = 0

    def check(self) -> None:
        raise RateLimited("you may send 1 request per minute")

    def count(self) -> None:
        self.taken += 1


async def taken(error: Exception | None = None) -> int:
    """Return how often a request counts that `error` ends, or else its check."""
    rate = Rate()
    with suppress(RateLimited, Malformed):
        async with OpenRequests().one("a2a", "jsonrpc") as request:
            request.rate = rate
            if error is not None:
                raise error
            request.check_rate()
    return rate.taken


async def test_what_is_refused_for_its_rate_is_not_counted() -> None:
    assert await taken(error=Malformed([Violation("id", "is required")])) == 1
    assert await taken() == 0


async def test_what_is_counted_is_not_checked() -> None:
    async with OpenRequests().one("a2a", "jsonrpc") as request:
        request.rate, request.is_counted = Rate(), True
        request.check_rate()
