"""Inputs on a WebSocket of an AG-UI client."""

from types import SimpleNamespace
from typing import Any, cast

import orjson

from headrace_gateway.protocols.agui.run_socket import RunSession
from headrace_gateway.refusals import RateLimited, TooManyBytesOfOwner


class Connection:
    """Keeps what is written."""

    jobs = 0

    def __init__(self) -> None:
        self.refusals, self.written = list[Exception](), list[bytes]()

    def refused(self, error: Exception) -> None:
        """Keep `error`."""
        self.refusals.append(error)

    async def write(self, messages: list[bytes]) -> None:
        """Keep `messages`."""
        self.written += messages


async def test_an_input_for_which_its_owner_has_no_bytes_left_counts() -> None:
    limited, counted = RateLimited("you may send 1 request per minute", 60), list[Exception]()

    def hold(*_: object) -> None:
        raise TooManyBytesOfOwner("your requests in progress have 5 bytes, the limit")

    def count(error: Exception) -> Exception:
        counted.append(error)
        return limited

    connection = Connection()
    services = SimpleNamespace(body_limits=SimpleNamespace(held=SimpleNamespace(hold=hold)))
    calls = SimpleNamespace(caller=None, counted=count)
    session = RunSession(
        cast("Any", services), cast("Any", calls), cast("Any", None), cast("Any", connection)
    )
    await session.handle("{}")
    assert [type(one) for one in counted] == [TooManyBytesOfOwner]
    assert connection.refusals == [limited]
    assert orjson.loads(connection.written[0])["code"] == "rate_limited"
