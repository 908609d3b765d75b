"""Cutting long text into what one event holds."""

from collections.abc import Iterator

from headrace_worker.emission import Text, Thinking

PIECE = 64 * 1024
"""Characters of text in one event; longer text becomes several."""


def pieces(said: Text | Thinking) -> Iterator[tuple[str, bool]]:
    """Yield the text in pieces of at most `PIECE` characters, and whether each is the last."""
    last = max(len(said.text) - 1, 0) // PIECE
    for number in range(last + 1):
        yield said.text[number * PIECE : (number + 1) * PIECE], said.end and number == last
