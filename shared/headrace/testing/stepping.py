"""Steps: a worker gets no further in a log than the test that reads its events."""

from collections.abc import Callable

from headrace.jetstream.connection import INBOX
from headrace_worker.settings import WorkerSettings

type _Send = Callable[[], None]


_OF_WORKERS = f"{INBOX}.{WorkerSettings.role}."


class AckGate:
    """Holds acknowledgements of workers' appends back, by log.

    A worker has one message in flight per task: while its acknowledgement is held back, nothing
    more is appended. So the test decides between which two messages something happens.
    """

    def __init__(self) -> None:
        """Hold nothing back."""
        self._held: dict[str, list[_Send]] = {}

    def close(self, subject: str) -> None:
        """Hold workers' acknowledgements for the log on `subject` back."""
        self._held.setdefault(subject, [])

    def hold(self, subject: str, reply: str, send: _Send) -> bool:
        """Keep `send` for later if it is held back (see `HoldAck`)."""
        held = self._held.get(subject)
        if held is None or not reply.startswith(_OF_WORKERS):
            return False
        held.append(send)
        return True

    def step(self, subject: str) -> None:
        """Send what was held back for `subject`, and hold back what comes next."""
        if subject in self._held:
            held, self._held[subject] = self._held[subject], []
            for send in held:
                send()

    def open(self, subject: str) -> None:
        """Hold nothing more back for `subject`."""
        for send in self._held.pop(subject, []):
            send()
