"""Rules about a run as a whole: its start, its end, and its own description."""

from collections.abc import Iterator

from headrace.model.events import Json
from headrace_cli.agui.finding import Finding, required

LAST = frozenset({"RUN_FINISHED", "RUN_ERROR"})


class Lifecycle:
    """Checks the RUN events of one run."""

    def __init__(self, run_input: Json) -> None:
        """Check the run that the RunAgentInput `run_input` starts."""
        self._run_input = run_input
        self._has_started = self._over = False

    def check(self, event: Json) -> Iterator[Finding]:
        """Check the next event."""
        kind = event.get("type")
        if not self._has_started:
            is_first = kind in {"RUN_STARTED", "RUN_ERROR"}
            yield required(is_first, "run.first", f"the first event is {kind}")
        yield required(not self._over, "run.ends", f"{kind} after the end")
        if kind == "RUN_STARTED":
            yield from self._started(event)
        if kind == "RUN_FINISHED":
            yield self._names(event)
            yield from _outcome(event)
        self._has_started, self._over = True, self._over or kind in LAST

    def end(self) -> Iterator[Finding]:
        """Check that the stream has ended correctly."""
        yield required(
            self._over, "run.ends", "no RUN_FINISHED or RUN_ERROR; clients treat that as success"
        )

    def _started(self, event: Json) -> Iterator[Finding]:
        yield required(not self._has_started, "run.once", "the run has already started")
        yield self._names(event)
        if self._run_input.get("protocolVersion") is not None:
            version = event.get("protocolVersion")
            yield required(version == "1.0", "run.version", f"protocolVersion is {version!r}")

    def _names(self, event: Json) -> Finding:
        wrong = [name for name in ("threadId", "runId") if event.get(name) != self._run_input[name]]
        return required(not wrong, "run.names", f"different {' and '.join(wrong)}")


def _outcome(event: Json) -> Iterator[Finding]:
    outcome = event.get("outcome")
    if not isinstance(outcome, dict):
        return
    match outcome.get("type"):
        case "interrupt":
            interrupts = outcome.get("interrupts")
            is_fine = (
                isinstance(interrupts, list) and interrupts and all(map(_is_interrupt, interrupts))
            )
            yield required(is_fine, "run.outcome", "an interrupt needs interrupts: id and reason")
        case "success":
            calls = outcome.get("pendingToolCallIds", [])
            yield required(
                isinstance(calls, list), "run.outcome", "pendingToolCallIds is not a list"
            )
        case other:
            yield required(other == "cancelled", "run.outcome", f"unknown outcome {other!r}")


def _is_interrupt(interrupt: object) -> bool:
    return isinstance(interrupt, dict) and all(
        isinstance(interrupt.get(key), str) for key in ("id", "reason")
    )
