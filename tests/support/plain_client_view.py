"""What a client sees that knows A2A and nothing of attempts."""

from collections.abc import Iterable

from headrace.model.entry import Entry


def as_a_plain_client_sees(entries: Iterable[Entry]) -> dict[str, str]:
    """Return the artifacts' texts by id, without empty ones."""
    held: dict[str, str] = {}
    updates = (event.get("artifactUpdate") for entry in entries for event in entry.events)
    for update in filter(None, updates):
        name, text = update["artifact"]["artifactId"], update["artifact"]["parts"][0].get("text")
        held[name] = held[name] + text if update.get("append") else text
    return {name: text for name, text in held.items() if text}
