"""Which keys are renewed: by what a reader sees of them, not by their expiring.

A nats-server that was killed may bring keys back that had expired or been deleted, and then keeps
them for ever (seen on 2.15, with keys whose last message was a deletion that had expired too).
"""

from collections.abc import Mapping


class Renewals:
    """What a reader has seen of some keys."""

    def __init__(self) -> None:
        """Have seen none."""
        self._seen: dict[str, tuple[int, float]] = {}

    def fresh(self, keys: Mapping[str, int], now: float, patience: float) -> set[str]:
        """Return those of `keys` that are new, or have been renewed within `patience` seconds.

        `keys` are all there are now, with their messages' sequences; `now` is the reader's own
        monotonic clock, seconds.
        """
        self._seen = {
            key: (sequence, self._since(key, sequence, now)) for key, sequence in keys.items()
        }
        return {key for key, (_, since) in self._seen.items() if now - since <= patience}

    def _since(self, key: str, sequence: int, now: float) -> float:
        known, since = self._seen.get(key, (0, now))
        return since if known == sequence else now
