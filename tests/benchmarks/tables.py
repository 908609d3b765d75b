"""The tables that people read, made of the report's JSON: for a terminal, and for the page."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.benchmarks.contestants import FASTA2A, HEADRACE, OFFICIAL, PEERS, PLAIN, SERVERS
from tests.benchmarks.measure import COST
from tests.benchmarks.report import Json

_TITLES = {
    OFFICIAL: "official SDK",
    PLAIN: "plain route",
    FASTA2A: "fasta2a",
    HEADRACE: "Headrace",
}
_PRECISE_BELOW = 100
"""Figures below have two decimals."""

_FINE_BELOW = 0.1
"""Figures below have three."""

_BY_PROCESS = ("run", "read", "token")

_FIRST_LOOK = (
    "many-streams",
    "short-runs",
    "short-runs-awaited",
    "first-event",
    "hundred",
    "other-replica",
    "resume",
)
"""Measures in the summary, in its order."""

_HEADLINE = ("many-streams", "other-replica", "resume")
"""Measures of the three figures."""


@dataclass(frozen=True, slots=True)
class Table:
    """A header and rows of as many cells."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: int
    """How many columns, from the first, are text; the others are figures."""

    def as_text(self) -> str:
        """Return the table in aligned columns."""
        widths = [max(map(len, column)) for column in zip(self.header, *self.rows, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(width) if column < self.texts else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in (self.header, *self.rows)
        ]
        return "".join(f"{line}\n" for line in lines)

    def as_markdown(self) -> str:
        """Return the table for a page."""
        rule = ["---" if column < self.texts else "---:" for column in range(len(self.header))]
        rows = (self.header, rule, *([cell.strip() or " " for cell in row] for row in self.rows))
        return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def comparison(report: Json) -> Table:
    """Return what was measured, and what each run or event cost: a row per figure."""
    peers = [f"beside {_TITLES[peer]}" for peer in PEERS]
    header = ["", "", *(_TITLES[server] for server in SERVERS), *peers, "goal"]
    rows = [row for measure in report["measures"] for row in _rows(measure)]
    return Table(header, rows, texts=2)


def _rows(measure: Json) -> Iterator[list[str]]:
    for figure, by_server in measure["figures"].items():
        ratios = measure["ratios"][figure]
        title, unit = f"  {figure}", measure["unit"]
        if not figure:
            title = measure["title"]
        elif figure == COST:
            title, unit = f"  {COST} per {measure['each']}", "µs"
        goals = [_goal(goal, unit) for goal in measure["goals"] if goal["figure"] == figure]
        yield [
            title,
            unit,
            *(_spread(by_server.get(server)) for server in SERVERS),
            *(_spread(ratios.get(peer), " x") for peer in PEERS),
            ", ".join(goals),
        ]


def _spread(of: Json | None, unit: str = "") -> str:
    if of is None:
        return ""
    median, least, most = (_number(of[name]) for name in ("median", "least", "most"))
    return f"{median}{unit}" if least == most else f"{median}{unit} ({least} to {most})"


def _number(value: float) -> str:
    if value < _FINE_BELOW:
        return f"{value:.3f}"
    return f"{value:.2f}" if value < _PRECISE_BELOW else f"{value:,.0f}"


def _goal(goal: Json, unit: str) -> str:
    sign = "≥" if goal["is_floor"] else "≤"
    verdict = {None: "not measured", True: "met", False: "missed"}[goal["met"]]
    of = f"x {_TITLES[goal['of']]}" if goal["of"] else unit
    return f"{sign} {goal['bound']:g} {of}: {verdict}"


def summary(report: Json) -> Table:
    """Return the medians that a first look needs, beside the official SDK's server."""
    measures = {measure["name"]: measure for measure in report["measures"]}
    return Table(
        ["", _TITLES[OFFICIAL], _TITLES[HEADRACE], "ratio"],
        [_median_row(measures[name]) for name in _FIRST_LOOK],
        texts=1,
    )


def headline(report: Json) -> str:
    """Return three figures, rounded, as a list."""
    measures = {measure["name"]: measure for measure in report["measures"]}
    streams, replica, resume = (measures[name] for name in _HEADLINE)
    return (
        f"- **{_rounded(streams, HEADRACE)} events a second** to 50 streams at once:"
        f" {streams['ratios'][''][OFFICIAL]['median']:.0f} times as many\n"
        f"- **{_rounded(replica, HEADRACE)} ms** from an agent to a client of another replica,"
        f" instead of {_rounded(replica, OFFICIAL)} ms by two of those that poll a database\n"
        f"- **{_rounded(resume, HEADRACE)} ms** to resume a stream of 10,000 events, which that"
        " server can't\n"
    )


def _rounded(measure: Json, server: str) -> str:
    """Return a median with two digits."""
    return f"{float(f'{measure["figures"][""][server]["median"]:.2g}'):,g}"


def _median_row(measure: Json) -> list[str]:
    servers, ratio = measure["figures"][""], measure["ratios"][""].get(OFFICIAL)
    figures = [servers.get(server) for server in (OFFICIAL, HEADRACE)]
    return [
        f"{measure['title']}, {measure['unit']}",
        *("not possible" if one is None else _number(one["median"]) for one in figures),
        "" if ratio is None else f"{_number(ratio['median'])} x",
    ]


def processes(report: Json) -> Table:
    """Return the processor time of a run, a read and a token by process, for each server."""
    header = ["", "", "together", "by process"]
    rows = [
        [
            f"{measure['title']}, per {measure['each']}",
            _TITLES[server],
            f"{sum(by_role.values()):,.0f} µs",
            ", ".join(_roles(by_role)),
        ]
        for measure in report["measures"]
        if measure["each"] in _BY_PROCESS
        for server, by_role in measure["processes"].items()
    ]
    return Table(header, rows, texts=4)


def _roles(by_role: dict[str, float]) -> list[str]:
    """Return what each process took; those that had next to nothing to do are left out."""
    least = sum(by_role.values()) / 100
    return [f"{role} {cost:,.0f}" for role, cost in by_role.items() if cost >= least]


def circumstances(report: Json) -> str:
    """Return what the figures depend on, as one sentence."""
    machine = report["machine"]
    libraries = ", ".join(f"{name} {version}" for name, version in machine["libraries"].items())
    return (
        f"Python {machine['python']} ({', '.join(machine['flags'])}), {machine['cores']} cores, "
        f"load {machine['load']:g} at the end; {libraries}."
    )
