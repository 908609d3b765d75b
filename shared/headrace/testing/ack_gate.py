"""Stepping: a worker appends the next message only when the test has read the previous one."""

from collections.abc import Callable

from headrace.jetstream.connection import INBOX
from headrace_worker.settings import WorkerSettings

type _Send = Callable[[], None]


_OF_WORKERS = f"{INBOX}.{WorkerSettings.role}."


class AckGate:
    """Delays acknowledgements of workers' appends, per log.

    A worker has one message in flight per task: until it is acknowledged, nothing more is appended.
    This lets a test act between two messages.
    """

    def __init__(self) -> None:
        """Start without delays."""
        self._held: dict[str, list[_Send]] = {}

    def close(self, subject: str) -> None:
        """Delay workers' acknowledgements for the log on `subject`."""
        self._held.setdefault(subject, [])

    def hold(self, subject: str, reply: str, send: _Send) -> bool:
        """Store `send` and return True if the acknowledgement is delayed (see `HoldAck`)."""
        held = self._held.get(subject)
        if held is None or not reply.startswith(_OF_WORKERS):
            return False
        held.append(send)
        return True

    def step(self, subject: str) -> None:
        """Send the delayed acknowledgement for `subject`, and delay the next one."""
        if subject in self._held:
            held, self._held[subject] = self._held[subject], []
            for send in held:
                send()

    def open(self, subject: str) -> None:
        """Send delayed acknowledgements for `subject`, and stop delaying them."""
        for send in self._held.pop(subject, []):
            send()
