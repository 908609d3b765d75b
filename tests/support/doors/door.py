"""What the table of doors asks of each (`tests/e2e/test_doors.py`)."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import NamedTuple, Protocol


class Answer(Protocol):
    """What a client reads of one answer, as it comes."""

    @property
    def text(self) -> str:
        """All of the agent's text that the client has received, in the order in which it came."""

    @property
    def task(self) -> str:
        """The fleet's id of the task, once the client knows it."""

    async def until(self, text: str) -> None:
        """Read until `text` has been received."""

    async def rest(self) -> None:
        """Read to the end.

        Raises:
            Exception: what the client raises if the answer breaks off.
        """

    async def resume(self, url: str) -> None:
        """Go on at the gateway at `url`, after what has been received."""

    async def stop(self, url: str) -> None:
        """Stop the agent as the door's clients do, at the gateway at `url`."""


class Refusal(NamedTuple):
    """An error as a client gets it."""

    kind: str
    """Its class in the client's language, or the door's code."""
    message: str


class Hostile(NamedTuple):
    """A request that no client would send."""

    path: str
    body: bytes
    status: int
    """The status of its refusal."""
    says: str
    """What the refusal's body contains."""


class Door(Protocol):
    """A door, and its client."""

    @property
    def name(self) -> str:
        """Its name in the table."""

    @property
    def can_resume(self) -> bool:
        """Whether its clients can continue an answer that broke off."""

    @property
    def hostile(self) -> Sequence[Hostile]:
        """What is refused."""

    def begin(
        self, url: str, agent: str, text: str, token: str = ""
    ) -> AbstractAsyncContextManager[Answer]:
        """Send `text` to the agent."""

    async def converse(self, url: str, agent: str, texts: Sequence[str]) -> list[str]:
        """Send each text after the answer to the one before; return the agent's texts."""

    async def send_file(self, url: str, agent: str, content: bytes) -> str:
        """Send a file; return the agent's text."""

    async def refusal(self, url: str, agent: str, token: str = "") -> Refusal:
        """Send a text that is refused; return the error.

        Raises:
            AssertionError: it is not refused.
        """

    async def can_read(self, url: str, task: str, agent: str, token: str) -> bool:
        """Return whether the token's holder gets another's answer."""
