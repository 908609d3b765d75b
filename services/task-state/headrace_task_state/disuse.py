"""For how long each lane has handed out nothing."""

from collections.abc import Container

from headrace.model.events import Json


class Disuse:
    """What lanes looked like when they were last seen to be used, and when that was."""

    def __init__(self) -> None:
        """Know of no lane."""
        self._seen: dict[str, tuple[object, float]] = {}

    def seconds(self, lane: str, consumer: Json, now: float) -> float:
        """Return for how long the lane is known to be unused, in seconds.

        `consumer` is JetStream's ConsumerInfo of it, as of `now` (loop time in seconds).
        """
        is_empty = consumer.get("num_pending") == 0 == consumer.get("num_ack_pending")
        # A lane that was let go and made again may have handed out as much as the one before.
        looks = consumer.get("created"), consumer.get("delivered", {}).get("consumer_seq")
        seen, since = self._seen.get(lane, (None, now))
        if not is_empty or looks != seen:
            since = now
        self._seen[lane] = looks, since
        return now - since

    def keep(self, lanes: Container[str]) -> None:
        """Forget all lanes but these."""
        self._seen = {lane: seen for lane, seen in self._seen.items() if lane in lanes}
