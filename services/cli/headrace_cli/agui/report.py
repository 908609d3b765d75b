"""The output of a check: a line per event, then a summary."""

from collections import Counter
from collections.abc import Callable

from headrace.model.events import Json
from headrace_cli.agui.events import DEPRECATED, FIELDS
from headrace_cli.agui.finding import RULES, Finding

_MARKS = {"kept": "ok", "doubtful": "DOUBTFUL", "broken": "BROKEN"}


class Report:
    """Writes findings as they occur, and counts them."""

    def __init__(self, say: Callable[[str], None], *, explain: bool) -> None:
        """Write lines with `say`; with `explain`, also list rules that are kept."""
        self._say, self._explain = say, explain
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
        self._line(f"{self._number:5}  {kind:<26}", findings)

    def section(self, what: str, findings: list[Finding]) -> None:
        """Report findings about something other than an event."""
        self._line(f"    -  {what:<26}", findings)

    def end(self) -> None:
        """Write the summary."""
        missing = [kind for kind in FIELDS if kind not in self._seen.keys() | DEPRECATED]
        self._say(
            f"{self._number} events: {self._counts['kept']} rules kept, "
            f"{self.doubtful} doubtful, {self.broken} broken"
        )
        self._say(f"not seen in this run: {', '.join(missing) or 'nothing'}")

    def _line(self, head: str, findings: list[Finding]) -> None:
        self._counts.update(finding.level for finding in findings)
        kept = sorted({finding.rule for finding in findings if finding.level == "kept"})
        worst = next(
            (lv for lv in ("broken", "doubtful") if lv in {f.level for f in findings}), "kept"
        )
        explanation = f" {' '.join(kept)}" if self._explain and kept else ""
        self._say(f"{head} {_MARKS[worst]}{explanation}".rstrip())
        for finding in findings:
            if finding.level != "kept":
                mark = _MARKS[finding.level]
                self._say(f"       {mark} {finding.rule} ({RULES[finding.rule]}): {finding.why}")
