"""Rules about a run as a whole: its start, its end, and its own description."""

from collections.abc import Iterator

from headrace_cli.agui.finding import Finding, kept_if
from headrace_cli.client import Json

LAST = frozenset({"RUN_FINISHED", "RUN_ERROR"})


class Lifecycle:
    """Checks the RUN events of one run."""

    def __init__(self, asked: Json) -> None:
        """Check the run that the RunAgentInput `asked` starts."""
        self._asked = asked
        self._begun = self._over = False

    def check(self, event: Json) -> Iterator[Finding]:
        """Check the next event."""
        kind = event.get("type")
        if not self._begun:
            is_first = kind in {"RUN_STARTED", "RUN_ERROR"}
            yield kept_if(is_first, "run.first", f"the first event is {kind}")
        yield kept_if(not self._over, "run.ends", f"{kind} after the end")
        if kind == "RUN_STARTED":
            yield from self._started(event)
        if kind == "RUN_FINISHED":
            yield self._names(event)
            yield from _outcome(event)
        self._begun, self._over = True, self._over or kind in LAST

    def end(self) -> Iterator[Finding]:
        """Check that the stream has ended correctly."""
        yield kept_if(
            self._over, "run.ends", "no RUN_FINISHED or RUN_ERROR; clients treat that as success"
        )

    def _started(self, event: Json) -> Iterator[Finding]:
        yield kept_if(not self._begun, "run.once", "the run has already started")
        yield self._names(event)
        if self._asked.get("protocolVersion") is not None:
            version = event.get("protocolVersion")
            yield kept_if(version == "1.0", "run.version", f"protocolVersion is {version!r}")

    def _names(self, event: Json) -> Finding:
        wrong = [name for name in ("threadId", "runId") if event.get(name) != self._asked[name]]
        return kept_if(not wrong, "run.names", f"different {' and '.join(wrong)}")


def _outcome(event: Json) -> Iterator[Finding]:
    outcome = event.get("outcome")
    if not isinstance(outcome, dict):
        return
    match outcome.get("type"):
        case "interrupt":
            asked = outcome.get("interrupts")
            is_fine = isinstance(asked, list) and asked and all(map(_is_interrupt, asked))
            yield kept_if(is_fine, "run.outcome", "an interrupt needs interrupts: id and reason")
        case "success":
            calls = outcome.get("pendingToolCallIds", [])
            yield kept_if(
                isinstance(calls, list), "run.outcome", "pendingToolCallIds is not a list"
            )
        case other:
            yield kept_if(other == "cancelled", "run.outcome", f"unknown outcome {other!r}")


def _is_interrupt(said: object) -> bool:
    return isinstance(said, dict) and all(
        isinstance(said.get(key), str) for key in ("id", "reason")
    )
