"""A bus without a server, for conditions that are hard to produce with a real one."""

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import orjson
from nats.aio.msg import Msg

from headrace.jetstream.connection import TIMING, Bus, BusTiming
from headrace.model.errors import BusUnavailable
from headrace.settings import BusSettings

type Answerer = Callable[[str, bytes], dict[str, Any] | BusUnavailable]
"""Called with subject and payload of a request."""


class FakeBus(Bus):
    """Answers requests from a function and remembers what it was given."""

    def __init__(self, answer: Answerer | None = None, timing: BusTiming = TIMING) -> None:
        """Answer each request with what `answer` returns; without it, nobody answers."""
        super().__init__(BusSettings(), timing=timing)
        self.answer = answer or (lambda subject, _: BusUnavailable(f"{subject}: nobody"))
        self.asked: list[str] = []
        self.receivers: dict[str, Callable[[Msg], Awaitable[None]]] = {}

    async def request(
        self, subject: str, payload: bytes, timeout: float, headers: dict[str, str] | None = None
    ) -> Msg:
        """Answer at once."""
        del timeout, headers
        self.asked.append(subject)
        answer = self.answer(subject, payload)
        if isinstance(answer, BusUnavailable):
            raise answer
        return message(subject, orjson.dumps(answer))

    async def subscribe(self, subject: str, receive: Callable[[Msg], Awaitable[None]]) -> Any:  # noqa: ANN401 - a stand-in
        """Remember who receives."""
        self.receivers[subject] = receive
        return SimpleNamespace(subject=subject)

    async def unsubscribe(self, subscription: Any) -> None:  # type: ignore[override] # noqa: ANN401 - a stand-in
        """Forget who received."""
        del self.receivers[subscription.subject]

    async def deliver(self, subject: str, data: bytes = b"", **headers: str) -> None:
        """Have the receiver on `subject`, which may be a pattern, take a message."""
        msg = message(subject, data, {k.replace("_", "-"): v for k, v in headers.items()})
        pattern = subject.rpartition(".")[0] + ".*"
        await self.receivers.get(subject, self.receivers.get(pattern))(msg)  # type: ignore[misc]


def message(
    subject: str, data: bytes = b"", headers: dict[str, str] | None = None, reply: str = ""
) -> Msg:
    """Return a message as nats-py hands it out."""
    client = cast("Any", None)  # nobody answers it
    return Msg(_client=client, subject=subject, reply=reply, data=data, headers=headers)
