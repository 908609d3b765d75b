"""Names are looked up in threads that end."""

import asyncio
import socket
import threading
from typing import Any

import httpcore
import pytest

from headrace_task_state.webhooks import network
from headrace_task_state.webhooks.network import AllowedDestinations, GuardedNetwork
from tests.support.waiting import soon

AT_ONCE = 4


class SlowNames:
    """Answers for no name before it is told to."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.under_way = self.most = self.questions = 0
        self._lock = threading.Lock()

    def addresses(self, host: str, *_: object, **__: object) -> Any:  # noqa: ANN401 - as socket's
        with self._lock:
            self.under_way += 1
            self.questions += 1
            self.most = max(self.most, self.under_way)
        assert self.may_answer.wait(60)
        with self._lock:
            self.under_way -= 1
        raise socket.gaierror(f"no address of {host}")


def look_ups() -> int:
    return sum(thread.name == "look-up" for thread in threading.enumerate())


async def test_of_many_look_ups_some_run_at_once_and_no_thread_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = SlowNames()
    monkeypatch.setattr(socket, "getaddrinfo", names.addresses)
    monkeypatch.setattr(network, "_LOOK_UPS", AT_ONCE)
    guarded = GuardedNetwork(AllowedDestinations(), public=True)
    hosts = [f"h{number}.example" for number in range(3 * AT_ONCE)]
    connecting = [asyncio.create_task(guarded.connect_tcp(host, 443)) for host in hosts * 2]
    await soon(lambda: names.under_way == AT_ONCE, "as many names as may are looked up")
    names.may_answer.set()
    outcomes = await asyncio.gather(*connecting, return_exceptions=True)
    assert [type(one) for one in outcomes] == [httpcore.ConnectError] * len(connecting)
    assert (names.most, names.questions) == (AT_ONCE, len(hosts))
    await soon(lambda: look_ups() == 0, "all look-ups have ended")
