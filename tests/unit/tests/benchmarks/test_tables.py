"""The table has every server's figures with their spread, and says which goals are met."""

import re
from dataclasses import replace

from tests.benchmarks import report, tables
from tests.benchmarks.contestants import HEADRACE, OFFICIAL, PLAIN
from tests.benchmarks.measure import COST, Measure, Place, Sample, at_least, at_most
from tests.benchmarks.rounds import Result


async def nothing(place: Place) -> Sample:
    raise NotImplementedError(place)


SHORT_RUNS = Measure(
    "short-runs",
    "short runs",
    "runs/s",
    nothing,
    each="run",
    goals=[
        at_least(3.5, OFFICIAL),
        at_least(1.3, PLAIN),
        at_most(60, figure="p99"),
        at_most(0.5, OFFICIAL, COST),
    ],
    of=(OFFICIAL, PLAIN, HEADRACE),
)


def measured(*rates: float, role: str, cost: float) -> Result:
    samples = [Sample(rate, 10, {"p99": 2 * rate}) for rate in rates]
    return Result(samples, [{role: cost, "idle": cost / 1000} for _ in rates])


RESULTS = {
    "short-runs": {
        OFFICIAL: measured(10, 20, 10, role="official", cost=2500),
        PLAIN: measured(20, 20, 20, role="plain", cost=1000),
        HEADRACE: measured(40, 40, 20, role="gateway", cost=1500),
    }
}


def rows() -> dict[str, list[str]]:
    table = tables.comparison(report.as_json([SHORT_RUNS], RESULTS))
    return {row[0].strip(): list(row[1:]) for row in table.rows}


def test_a_row_has_the_median_and_the_spread_of_each_server_that_was_measured() -> None:
    unit, official, plain, fasta2a, headrace, *_ = rows()["short runs"]
    assert unit == "runs/s"
    assert official == "10.00 (10.00 to 20.00)"
    assert plain == "20.00"
    assert fasta2a == ""
    assert headrace == "40.00 (20.00 to 40.00)"


def test_ratios_are_of_one_round_each() -> None:
    *_, beside_official, beside_plain, beside_fasta2a, _ = rows()["short runs"]
    assert beside_official == "2.00 x (2.00 to 4.00)"
    assert beside_plain == "2.00 x (1.00 to 2.00)"
    assert beside_fasta2a == ""


def test_goals_stand_beside_what_they_are_for() -> None:
    goals = {title: row[-1] for title, row in rows().items()}
    assert goals == {
        "short runs": "≥ 3.5 x official SDK: missed, ≥ 1.3 x plain route: met",
        "p99": "≤ 60 runs/s: missed",
        "processor time per run": "≤ 0.5 x official SDK: missed",
    }


def test_a_goal_beside_a_server_that_was_not_measured_is_neither_met_nor_missed() -> None:
    alone = {"short-runs": {HEADRACE: RESULTS["short-runs"][HEADRACE]}}
    [measure] = report.as_json([SHORT_RUNS], alone)["measures"]
    assert [goal["met"] for goal in measure["goals"]] == [None, None, False, None]


def test_the_cost_of_a_run_is_shown_by_process_without_those_that_idled() -> None:
    table = tables.processes(report.as_json([SHORT_RUNS], RESULTS))
    assert [row[1:] for row in table.rows] == [
        ["official SDK", "2,502 µs", "official 2,500"],
        ["plain route", "1,001 µs", "plain 1,000"],
        ["Headrace", "1,502 µs", "gateway 1,500"],
    ]


def test_events_are_not_shown_by_process() -> None:
    measure = replace(SHORT_RUNS, each="event")
    assert tables.processes(report.as_json([measure], RESULTS)).rows == []


def test_the_markdown_has_as_many_cells_in_each_row() -> None:
    lines = tables.comparison(report.as_json([SHORT_RUNS], RESULTS)).as_markdown().splitlines()
    assert len(lines) == 5
    assert {line.count("|") for line in lines} == {11}


def test_the_interpreter_states_how_it_was_built() -> None:
    output = tables.circumstances(report.as_json([SHORT_RUNS], RESULTS))
    assert re.search(r"with(out)? profile-guided optimization, with(out)? link-time opt", output)
    assert "fasta2a 2." in output


def test_servers_are_named_in_one_order() -> None:
    header = tables.comparison(report.as_json([SHORT_RUNS], RESULTS)).header
    assert list(header[2:6]) == ["official SDK", "plain route", "fasta2a", "Headrace"]
