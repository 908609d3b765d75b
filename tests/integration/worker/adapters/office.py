"""The tools that every adapter's agent has in the behaviour suite, and the traces they leave."""

import asyncio
from pathlib import Path

from tests.support.gates import opened


class Office:
    """Works in a folder: what was done stands there, whichever process did it."""

    def __init__(self, folder: Path) -> None:
        """Work in `folder`."""
        self.folder = folder

    async def mail(self, to: str) -> str:
        """Send a mail.

        A test holds it with a file ``hold-<to>``, until there is a file ``go-<to>``.
        """
        await self._note("begun", to)
        if await asyncio.to_thread((self.folder / f"hold-{to}").exists):
            await opened(self.folder / f"go-{to}")
        await self._note("sent", to)
        return f"sent to {to}"

    async def refund(self, order: str, amount: int = 1) -> str:
        """Refund an order; somebody must approve it."""
        await self._note("refunded", f"{order}:{amount}")
        return f"refunded {order}"

    def done(self, what: str) -> list[str]:
        """Return what was ``begun``, ``sent`` or ``refunded``, in order."""
        file = self.folder / what
        return file.read_text().split() if file.exists() else []

    def hold(self, to: str) -> None:
        """Hold mails to `to`."""
        (self.folder / f"hold-{to}").touch()

    def release(self, to: str) -> None:
        """Let mails to `to` go."""
        (self.folder / f"go-{to}").touch()

    async def _note(self, what: str, who: str) -> None:
        def append() -> None:
            with (self.folder / what).open("a") as file:
                file.write(f"{who}\n")

        await asyncio.to_thread(append)
