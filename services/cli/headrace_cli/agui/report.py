"""The output of a check: a line per event, then a summary."""

from collections import Counter

from headrace.model.events import Json
from headrace_cli.agui.events import DEPRECATED, FIELDS
from headrace_cli.agui.finding import RULES, Finding
from headrace_cli.printer import Printer
from headrace_cli.tables import one_line

_MARKS = {"kept": "ok", "doubtful": "DOUBTFUL", "broken": "BROKEN"}


class Report:
    """Prints findings as they occur, and counts them."""

    def __init__(self, printer: Printer, *, explain: bool) -> None:
        """Print with `printer`; with `explain`, also list rules that are kept."""
        self._printer, self._explain = printer, explain
        self._counts: Counter[str] = Counter()
        self._seen: Counter[str] = Counter()
        self._number = 0

    @property
    def broken(self) -> int:
        """How often a rule was broken."""
        return self._counts["broken"]

    @property
    def doubtful(self) -> int:
        """How often a finding was one that clients tolerate."""
        return self._counts["doubtful"]

    def event(self, event: Json, findings: list[Finding]) -> None:
        """Report one event."""
        self._number += 1
        kind = str(event.get("type"))
        self._seen[kind] += 1
        about = {"event": self._number, "type": kind}
        self._findings(about, f"{self._number:5}  {kind:<26}", findings)

    def section(self, what: str, findings: list[Finding]) -> None:
        """Report findings about something other than an event."""
        self._findings({"section": what}, f"    -  {what:<26}", findings)

    def end(self) -> None:
        """Print the summary."""
        missing = [kind for kind in FIELDS if kind not in self._seen.keys() | DEPRECATED]
        summary = (
            f"{self._number} events: {self._counts['kept']} rules kept, "
            f"{self.doubtful} doubtful, {self.broken} broken"
        )
        counts = {level: self._counts[level] for level in _MARKS}
        self._printer.record({"events": self._number, **counts, "notSeen": missing}, summary)
        self._printer.remark(f"not seen in this run: {', '.join(missing) or 'nothing'}")

    def _findings(self, about: Json, head: str, findings: list[Finding]) -> None:
        self._counts.update(finding.level for finding in findings)
        kept = sorted({finding.rule for finding in findings if finding.level == "kept"})
        others = [finding for finding in findings if finding.level != "kept"]
        levels = {finding.level for finding in others}
        worst = next((level for level in ("broken", "doubtful") if level in levels), "kept")
        explanation = f" {' '.join(kept)}" if self._explain and kept else ""
        shown = [finding._asdict() for finding in (findings if self._explain else others)]
        text = f"{head} {_MARKS[worst]}{explanation}".rstrip()
        self._printer.record({**about, "findings": shown}, text)
        for finding in others:
            mark = _MARKS[finding.level]
            rule = f"{finding.rule} ({RULES[finding.rule]})"
            self._printer.remark(one_line(f"       {mark} {rule}: {finding.why}"))
