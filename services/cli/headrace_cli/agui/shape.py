"""Rules about one event by itself: its type, its fields, its time."""

from collections.abc import Iterator

from headrace_cli.agui.events import DEPRECATED, FIELDS, MODERN
from headrace_cli.agui.finding import Finding, kept_if, wise_if
from headrace_cli.client import Json


class Shape:
    """Checks that each event is what the protocol says it is."""

    def __init__(self, *, modern: bool) -> None:
        """Check for a client that speaks 1.0 if `modern`, else for one of 0.x."""
        self._modern = modern
        self._newest = 0.0

    def check(self, event: Json) -> Iterator[Finding]:
        """Check the next event."""
        kind = event.get("type")
        fields = FIELDS.get(kind) if isinstance(kind, str) else None
        yield kept_if(fields is not None, "event.type", f"{kind!r} is no event of the protocol")
        if fields is None or not isinstance(kind, str):
            return
        wrong = [
            name
            for name, field in fields.items()
            if (name in event or field.is_required) and not _fits(event, name)
        ]
        yield kept_if(not wrong, "event.fields", f"missing or of another type: {', '.join(wrong)}")
        unknown = sorted(event.keys() - fields.keys() - {"type"})
        yield wise_if(not unknown, "event.unknown", f"not of the protocol: {', '.join(unknown)}")
        yield self._version(kind)
        if "timestamp" in event and not isinstance(event["timestamp"], str | None):
            yield self._time(float(event["timestamp"]))

    def _version(self, kind: str) -> Finding:
        if self._modern:
            return wise_if(kind not in DEPRECATED, "event.version", f"{kind} left with 1.0")
        return kept_if(kind not in MODERN, "event.version", f"{kind} came with 1.0")

    def _time(self, time: float) -> Finding:
        before, self._newest = self._newest, max(self._newest, time)
        return wise_if(time >= before, "event.time", f"{time:.0f} after {before:.0f}")


def _fits(event: Json, name: str) -> bool:
    value, field = event.get(name), FIELDS[event["type"]][name]
    if name not in event or (value is None and field.kind != "any"):
        return not field.is_required
    return field.fits(value)
