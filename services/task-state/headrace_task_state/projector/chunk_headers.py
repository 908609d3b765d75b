"""The headers of a stream of tokens: of each attempt's entries, they differ only in two numbers."""

import re
from typing import Self

from headrace.jetstream.headers import EXPECTED
from headrace.log.token_frame import OWN_HEADERS
from headrace.model.entry import Stamp

_EXPECTING = f"{EXPECTED}: ".encode()

_HEADERS = re.compile(OWN_HEADERS + _EXPECTING + rb"[0-9]{1,19}\r\n\r\n")

_END = b"\r\n\r\n"


class ChunkHeaders:
    """The headers of an attempt's entries that are output, around the numbers in them."""

    __slots__ = ("_before", "_between", "stamp")

    def __init__(self, stamp: Stamp, before: bytes, between: bytes) -> None:
        """Match what has `before`, a generation, `between` and an expected sequence."""
        self.stamp, self._before, self._between = stamp, before, between

    @classmethod
    def of(cls, block: bytes, stamp: Stamp) -> Self | None:
        """Return those of an entry with the header `block`; None: it has others, or is the first.

        `stamp` was read from `block`.
        """
        match = _HEADERS.fullmatch(block) if stamp.generation > 1 else None
        if match is None:
            return None
        before, between = match.groups()
        return cls(stamp, before, between + _EXPECTING)

    def fit(self, stamp: Stamp) -> bool:
        """Return whether `stamp` differs in its generation at most."""
        return stamp[2:] == self.stamp[2:] and stamp.log == self.stamp.log

    def begin(self, block: bytes, generation: int) -> bool:
        """Return whether the entry with the header `block` is such a one at `generation`."""
        before = b"%b%d%b" % (self._before, generation, self._between)
        return (
            block.startswith(before)
            and block.endswith(_END)
            and block[len(before) : -len(_END)].isdigit()
        )
