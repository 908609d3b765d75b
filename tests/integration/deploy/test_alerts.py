"""Each alert rule on made-up series, by promtool: what makes it fire, and what does not."""

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.compose_file import ROOT
from tests.support.prometheus import needs_prometheus, promtool

RULES = ROOT / "deploy" / "alerts.yml"
PAGE = ROOT / "docs" / "run" / "runbooks.md"


FIRST = "first"
"""A first occurrence, or a disturbance that is short."""
BURST = "burst"
"""Many occurrences at once, or a disturbance that lasts."""
RETIRED = "retired"
"""The worker of a retired agent ends, and its series with it."""
OTHER = "other"
RECOVERY = "recovery"
"""The alert ends after it has fired: any case may contain it."""


@dataclass(frozen=True)
class Case:
    """Series with one value a minute, in promtool's notation, and when the alert fires."""

    kind: str
    what: str
    series: dict[str, str]
    fires: tuple[int, ...] = ()
    """Minutes at which it fires."""
    silent: tuple[int, ...] = ()
    """Minutes at which it does not."""

    @property
    def recovers(self) -> bool:
        return bool(self.fires) and max(self.silent, default=0) > max(self.fires)


def never(kind: str, what: str, series: dict[str, str]) -> Case:
    return Case(kind, what, series, silent=tuple(range(30)))


_ENDED, _FAILED = "headrace_runs_ended_total", "state='TASK_STATE_FAILED'"

CASES: dict[str, list[Case]] = {
    "GatewayWithoutNats": [
        Case(BURST, "outage", {"headrace_nats_connected": "1x4 0x9 1x9"}, (6, 14), (4, 5, 15)),
        never(FIRST, "reconnect", {"headrace_nats_connected": "1x4 0 1x30"}),
    ],
    "NoGateway": [
        Case(BURST, "all gone", {"headrace_nats_connected": "1x2 _x10 1x5"}, (9, 12), (2, 6, 13)),
        Case(OTHER, "none ever", {"up": "1x9"}, (1, 9), (0,)),
        never(FIRST, "restarted", {"headrace_nats_connected": "1x4 stale 1x30"}),
    ],
    "LogsFull": [
        Case(
            FIRST, "first", {'headrace_appends_total{outcome="full"}': "0x5 1x30"}, (6, 9), (5, 12)
        ),
        Case(
            BURST,
            "burst",
            {'headrace_appends_total{outcome="full"}': "0x3 0+99x5 495x30"},
            (5, 12),
            (16,),
        ),
        never(OTHER, "others", {'headrace_appends_total{outcome="stored"}': "0+100x30"}),
    ],
    "GatewayErrors": [
        Case(
            FIRST,
            "first",
            {'headrace_refusals_total{reason="INTERNAL_ERROR"}': "0x5 1x40"},
            (6, 14),
            (5, 17),
        ),
        Case(
            BURST,
            "every request",
            {'headrace_refusals_total{reason="INTERNAL_ERROR"}': "0x3 0+99x5 495x40"},
            (5, 17),
            (3, 20),
        ),
        never(
            OTHER,
            "clients' faults, and NATS'",
            {
                'headrace_refusals_total{reason="TASK_NOT_FOUND"}': "0+99x30",
                'headrace_refusals_total{reason="UNAVAILABLE"}': "0+99x30",
                'headrace_refusals_total{reason="INTERNAL_ERROR"}': "3x30",
            },
        ),
    ],
    "NatsReplicaMissing": [
        Case(
            BURST,
            "node lost",
            {
                'headrace_stream_replicas{stream="EVENTS"}': "3x30",
                'headrace_stream_current_replicas{stream="EVENTS"}': "3x4 2x10 3x10",
            },
            (10, 15),
            (4, 9, 16),
        ),
        never(
            FIRST,
            "node restarted",
            {
                'headrace_stream_replicas{stream="EVENTS"}': "3x30",
                'headrace_stream_current_replicas{stream="EVENTS"}': "3x4 2x2 3x30",
            },
        ),
        never(
            OTHER,
            "single node",
            {
                'headrace_stream_replicas{stream="EVENTS"}': "1x30",
                'headrace_stream_current_replicas{stream="EVENTS"}': "1x30",
            },
        ),
    ],
    "NatsUnstable": [
        Case(BURST, "burst", {"headrace_nats_disturbances_total": "0x5 30x30"}, (6, 14), (5, 17)),
        never(FIRST, "now and then", {"headrace_nats_disturbances_total": "0+1x30"}),
    ],
    "AppendsUnanswered": [
        Case(
            BURST,
            "lasting",
            {'headrace_appends_total{outcome="unknown"}': "0x2 0+120x15 1800x20"},
            (12, 18),
            (5, 26),
        ),
        never(FIRST, "first", {'headrace_appends_total{outcome="unknown"}': "0x2 5x30"}),
    ],
    "AgentWithoutWorker": [
        Case(
            BURST,
            "lost",
            {'headrace_agent_available{agent="a"}': "1x5 0x20 1x5"},
            (11, 26),
            (10, 27),
        ),
        Case(
            RETIRED,
            "retired",
            {'headrace_agent_available{agent="a"}': "1x5 0x1600"},
            (60, 1440),
            (1447,),
        ),
        never(FIRST, "restarted", {'headrace_agent_available{agent="a"}': "1x5 0x3 1x30"}),
        never(
            OTHER,
            "seen by another gateway",
            {
                'headrace_agent_available{agent="a",instance="1"}': "1x30",
                'headrace_agent_available{agent="a",instance="2"}': "1x2 0x30",
            },
        ),
        Case(
            OTHER,
            "one of two",
            {
                'headrace_agent_available{agent="a"}': "1x30",
                'headrace_agent_available{agent="b"}': "1x2 0x30",
            },
            (9, 20),
            (2, 5),
        ),
    ],
    "RangeWithoutTaskState": [
        Case(BURST, "outage", {'headrace_following{range="0"}': "1x4 0x9 1x9"}, (6, 14), (5, 15)),
        never(FIRST, "short", {'headrace_following{range="0"}': "1x4 0 1x30"}),
        never(
            OTHER,
            "handed over",
            {
                'headrace_following{range="0",instance="1"}': "1x4 0x30",
                'headrace_following{range="0",instance="2"}': "0x4 1x30",
            },
        ),
    ],
    "NoTaskState": [
        Case(
            BURST,
            "all gone",
            {'headrace_following{range="0"}': "1x2 _x10 1x5"},
            (9, 12),
            (2, 6, 13),
        ),
        never(FIRST, "restarted", {'headrace_following{range="0"}': "1x4 stale 1x30"}),
    ],
    "RedisDown": [
        Case(BURST, "outage", {"headrace_redis_writable": "1x4 0x9 1x9"}, (6, 14), (5, 15)),
        never(FIRST, "short", {"headrace_redis_writable": "1x4 0 1x30"}),
        never(
            OTHER,
            "one replica cut off",
            {
                'headrace_redis_writable{instance="1"}': "1x4 0x30",
                'headrace_redis_writable{instance="2"}': "1x30",
            },
        ),
    ],
    "RedisFills": [
        Case(
            BURST,
            "nearly full",
            {"headrace_redis_bytes": "50x4 90x10 50x9", "headrace_redis_max_bytes": "100x30"},
            (10, 15),
            (9, 16),
        ),
        never(
            FIRST,
            "short",
            {"headrace_redis_bytes": "50x4 90x4 50x30", "headrace_redis_max_bytes": "100x40"},
        ),
        never(
            OTHER,
            "unlimited",
            {"headrace_redis_bytes": "90x30", "headrace_redis_max_bytes": "0x30"},
        ),
    ],
    "TaskStateBehind": [
        Case(BURST, "behind", {'headrace_lag{range="0"}': "0x4 5000x10 0x9"}, (10, 15), (9, 16)),
        never(FIRST, "burst", {'headrace_lag{range="0"}': "0x4 5000x3 0x30"}),
    ],
    "WorkersDie": [
        Case(
            BURST,
            "one worker dies with 21 runs",
            {'headrace_runs_taken_over_total{agent="a"}': "0x5 21x30"},
            (6, 14),
            (5, 17),
        ),
        Case(
            OTHER,
            "spread over agents and a worker that has just started",
            {
                'headrace_runs_taken_over_total{agent="a"}': "0x5 6x30",
                'headrace_runs_taken_over_total{agent="b"}': "_x4 0x1 6x30",
            },
            (7,),
            (5, 18),
        ),
        never(FIRST, "few", {'headrace_runs_taken_over_total{agent="a"}': "0x5 3x30"}),
        Case(
            RETIRED,
            "retired",
            {'headrace_runs_taken_over_total{agent="a"}': "0x5 21 stale"},
            (6, 14),
            (5, 17, 60),
        ),
    ],
    "DeadLetters": [
        Case(
            FIRST,
            "first",
            {'headrace_dead_letters_total{kind="run"}': "0x5 1x100"},
            (6, 60),
            (5, 67),
        ),
        Case(
            BURST,
            "burst",
            {'headrace_dead_letters_total{kind="push"}': "0x5 500x100"},
            (6, 60),
            (5, 67),
        ),
    ],
    "TriggersFailing": [
        Case(
            BURST,
            "without a stream",
            {
                'headrace_triggers_failing{instance="a"}': "0x3 2x9 0x9",
                'headrace_triggers_failing{instance="b"}': "0x4 1x8 0x9",
            },
            (10, 12),
            (3, 8, 14),
        ),
        never(FIRST, "until its stream is made", {"headrace_triggers_failing": "0x3 1x3 0x30"}),
    ],
    "EventsDropped": [
        Case(
            FIRST,
            "no room for a letter",
            {'headrace_trigger_events_total{outcome="dropped"}': "0x5 1x100"},
            (6, 60),
            (5, 67),
        ),
        Case(
            BURST,
            "a flood over core NATS",
            {
                "headrace_messages_dropped_total": "0x3 0+9999x5 49995x100",
                'headrace_trigger_events_total{outcome="dropped"}': "0x120",
            },
            (5, 60),
            (3, 70),
        ),
        never(
            OTHER,
            "events that begin tasks, wait or are kept",
            {
                'headrace_trigger_events_total{outcome="began"}': "0+99x100",
                'headrace_trigger_events_total{outcome="waits"}': "0+99x100",
                'headrace_trigger_events_total{outcome="letter"}': "0+99x100",
                'headrace_trigger_events_total{outcome="dropped"}': "3x100",
                "headrace_messages_dropped_total": "7x100",
            },
        ),
    ],
    "DeadLettersDropped": [
        Case(
            FIRST,
            "first",
            {'headrace_dead_letters_dropped_total{kind="run"}': "0x5 1x100"},
            (6, 60),
            (5, 67),
        ),
        Case(
            BURST,
            "burst",
            {'headrace_dead_letters_dropped_total{kind="push"}': "0x3 0+99x5 495x100"},
            (5, 60),
            (3, 70),
        ),
        never(
            OTHER,
            "letters that are stored",
            {
                'headrace_dead_letters_total{kind="run"}': "0x5 9x100",
                'headrace_dead_letters_dropped_total{kind="run"}': "3x100",
            },
        ),
    ],
    "RunsFail": [
        Case(
            OTHER,
            "a new version that gets a hundredth of the runs",
            {
                f"{_ENDED}{{{_FAILED}, agent='a', version='1'}}": "0x30",
                f"{_ENDED}{{agent='a', version='1'}}": "0+99x30",
                f"{_ENDED}{{{_FAILED}, agent='a', version='2'}}": "0x5 0+1x5 5x30",
            },
            (8, 14),
            (5, 24),
        ),
        Case(
            FIRST,
            "first",
            {
                'headrace_runs_ended_total{agent="a",state="TASK_STATE_FAILED"}': "0x5 1x30",
                'headrace_runs_ended_total{agent="a",state="TASK_STATE_COMPLETED"}': "0x30",
            },
            (6, 14),
            (5, 17),
        ),
        Case(
            BURST,
            "burst",
            {
                'headrace_runs_ended_total{agent="a",state="TASK_STATE_FAILED"}': "0x5 500x30",
                'headrace_runs_ended_total{agent="a",state="TASK_STATE_COMPLETED"}': "0x5 1000x30",
            },
            (6, 14),
            (5, 17),
        ),
        never(
            OTHER,
            "few of many",
            {
                'headrace_runs_ended_total{agent="a",state="TASK_STATE_FAILED"}': "0+1x30",
                'headrace_runs_ended_total{agent="a",state="TASK_STATE_COMPLETED"}': "0+99x30",
            },
        ),
        Case(
            RETIRED,
            "retired",
            {
                'headrace_runs_ended_total{agent="a",state="TASK_STATE_FAILED"}': "0x5 3 stale",
                'headrace_runs_ended_total{agent="a",state="TASK_STATE_COMPLETED"}': "0x5 1 stale",
                'headrace_runs_ended_total{agent="b",state="TASK_STATE_COMPLETED"}': "0+9x60",
            },
            (6, 14),
            (5, 17, 60),
        ),
        never(
            OTHER,
            "no runs",
            {'headrace_runs_ended_total{agent="a",state="TASK_STATE_FAILED"}': "5x30"},
        ),
    ],
    "LoopBlocked": [
        Case(
            BURST,
            "an agent computes",
            {
                'headrace_loop_lag_seconds_bucket{le="1"}': "0x15 0+120x30",
                'headrace_loop_lag_seconds_bucket{le="2.5"}': "0+120x45",
                'headrace_loop_lag_seconds_bucket{le="+Inf"}': "0+120x45",
            },
            (8, 16),
            (2, 5, 26),
        ),
        never(
            FIRST,
            "one pause",
            {
                'headrace_loop_lag_seconds_bucket{le="1"}': "0+120x5 719+120x40",
                'headrace_loop_lag_seconds_bucket{le="2.5"}': "0+120x45",
                'headrace_loop_lag_seconds_bucket{le="+Inf"}': "0+120x45",
            },
        ),
    ],
    "RunsWaitLong": [
        Case(
            BURST,
            "waiting",
            {'headrace_oldest_run_seconds{agent="a"}': "0x3 400x5 0x9"},
            (5, 9),
            (4, 10),
        ),
        never(OTHER, "busy", {'headrace_oldest_run_seconds{agent="a"}': "0x3 200x30"}),
        never(FIRST, "short", {'headrace_oldest_run_seconds{agent="a"}': "0x3 400 0x30"}),
        Case(
            RETIRED,
            "retired",
            {'headrace_oldest_run_seconds{agent="a"}': "0x3 400x5 stale"},
            (5, 9),
            (4, 10, 60),
        ),
    ],
    "StreamFills": [
        Case(
            BURST,
            "nearly full",
            {
                'headrace_stream_bytes{stream="EVENTS"}': "50x4 90x10 50x9",
                'headrace_stream_max_bytes{stream="EVENTS"}': "100x30",
            },
            (10, 15),
            (9, 16),
        ),
        never(
            FIRST,
            "short",
            {
                'headrace_stream_bytes{stream="EVENTS"}': "50x4 90x4 50x30",
                'headrace_stream_max_bytes{stream="EVENTS"}': "100x40",
            },
        ),
        never(OTHER, "unlimited", {'headrace_stream_bytes{stream="EVENTS"}': "90x30"}),
    ],
    "RunsRefused": [
        Case(
            BURST,
            "lasting",
            {'headrace_refusals_total{reason="TOO_MANY_WAITING"}': "0x3 0+10x10 100x20"},
            (10, 16),
            (8, 20),
        ),
        never(FIRST, "burst", {'headrace_refusals_total{reason="TOO_MANY_WAITING"}': "0x3 10x30"}),
    ],
    "WebhooksFail": [
        never(
            FIRST,
            "first",
            {
                'headrace_push_seconds_count{outcome="failed"}': "0x5 1x30",
                'headrace_push_seconds_count{outcome="delivered"}': "0x40",
            },
        ),
        Case(
            BURST,
            "receiver down",
            {
                'headrace_push_seconds_count{outcome="failed"}': "0x2 0+6x30 180x30",
                'headrace_push_seconds_count{outcome="delivered"}': "0x2 0+1x60",
            },
            (14, 30),
            (10, 48),
        ),
        never(
            OTHER,
            "few of many",
            {
                'headrace_push_seconds_count{outcome="failed"}': "0+1x30",
                'headrace_push_seconds_count{outcome="delivered"}': "0+9x30",
            },
        ),
    ],
}

_FLEET = "its series describe no single agent"

NOT_TESTED: dict[str, dict[str, str]] = {
    "GatewayWithoutNats": {RETIRED: _FLEET},
    "NoGateway": {RETIRED: _FLEET},
    "LogsFull": {RETIRED: _FLEET},
    "NatsReplicaMissing": {RETIRED: _FLEET},
    "NatsUnstable": {RETIRED: _FLEET},
    "AppendsUnanswered": {RETIRED: _FLEET},
    "RangeWithoutTaskState": {RETIRED: _FLEET},
    "NoTaskState": {RETIRED: _FLEET},
    "RedisDown": {RETIRED: _FLEET},
    "RedisFills": {RETIRED: _FLEET},
    "TaskStateBehind": {RETIRED: _FLEET},
    "DeadLetters": {RETIRED: _FLEET},
    "DeadLettersDropped": {RETIRED: _FLEET},
    "TriggersFailing": {RETIRED: _FLEET},
    "EventsDropped": {RETIRED: _FLEET},
    "LoopBlocked": {RETIRED: _FLEET},
    "StreamFills": {RETIRED: _FLEET},
    "RunsRefused": {RETIRED: _FLEET},
    "GatewayErrors": {RETIRED: _FLEET},
    "WebhooksFail": {RETIRED: _FLEET},
}
"""Why a rule has no case of a kind."""


def rules() -> dict[str, dict[str, Any]]:
    [group] = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def kinds(cases: list[Case]) -> set[str]:
    """Return the kinds that the cases contain; one of a burst has to make the alert fire."""
    found = {one.kind for one in cases if one.kind != BURST or one.fires} - {OTHER}
    return found | {RECOVERY for one in cases if one.recovers}


def test_every_rule_has_a_case_of_each_kind_or_a_reason() -> None:
    assert {f"Headrace{name}" for name in CASES} == set(rules())
    missing = {
        name: lacking
        for name, cases in CASES.items()
        if (lacking := {FIRST, BURST, RECOVERY, RETIRED} - kinds(cases))
        != set(NOT_TESTED.get(name, {}))
    }
    assert not missing


def test_a_rule_about_agents_is_tested_with_a_retired_one() -> None:
    about_agents = {name for name, cases in CASES.items() if "agent=" in str(cases)}
    assert about_agents.isdisjoint(name for name, of in NOT_TESTED.items() if RETIRED in of)


def runbooks() -> dict[str, str]:
    """Return the sections of the page of runbooks that are about an alert, by its name."""
    _, *sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    named = (section.partition("\n") for section in sections)
    return {name: text for name, _, text in named if name.startswith("Headrace")}


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    assert sorted(runbooks()) == sorted(rules())


@pytest.mark.parametrize("name", sorted(rules()))
def test_a_runbook_says_what_to_look_at_what_to_do_and_whom_to_wake(name: str) -> None:
    text = runbooks()[name]
    assert text.strip().startswith(f"*{rules()[name]['labels']['severity']}.* ")
    parts = ["**Users see:** ", "**Look at:**\n\n```sh\n", "**Do:**\n\n1. "]
    if rules()[name]["labels"]["severity"] == "page":
        parts.append("**Wake somebody")
    assert [part for part in parts if part not in text] == []
    assert parts == sorted(parts, key=text.index)


@pytest.mark.parametrize("name", sorted(rules()))
def test_an_alert_links_to_its_runbook(name: str) -> None:
    """A page served elsewhere is named by a label of Prometheus; else it is the file here."""
    start, file, end = '{{ or $externalLabels.headrace_runbooks "', "docs/run/runbooks.md", '" }}'
    assert rules()[name]["annotations"]["runbook_url"] == f"{start}{file}{end}#{name.lower()}"
    assert ROOT / file == PAGE


@needs_prometheus
def test_the_rules_are_valid() -> None:
    checked = promtool("check", "rules", str(RULES))
    assert checked.returncode == 0, checked.stderr


@needs_prometheus
@pytest.mark.parametrize(
    ("labels", "page"),
    [
        ({}, "docs/run/runbooks.md"),
        ({"headrace_runbooks": "https://docs.example/run/"}, "https://docs.example/run/"),
    ],
)
def test_prometheus_writes_the_link_to_where_the_page_is_served(
    labels: dict[str, str], page: str, tmp_path: Path
) -> None:
    alert = rules()["HeadraceNoGateway"]
    annotations = alert["annotations"] | {"runbook_url": f"{page}#headracenogateway"}
    fired = {"exp_labels": alert["labels"], "exp_annotations": annotations}
    expected = {"alertname": "HeadraceNoGateway", "eval_time": "2m", "exp_alerts": [fired]}
    case = {"interval": "1m", "alert_rule_test": [expected], "external_labels": labels}
    file = tmp_path / "cases.yml"
    file.write_text(json.dumps({"rule_files": [str(RULES)], "tests": [case]}))
    checked = promtool("test", "rules", str(file))
    assert checked.returncode == 0, checked.stdout + checked.stderr


@needs_prometheus
@pytest.mark.parametrize("name", CASES)
def test_an_alert_fires_when_it_should(name: str, tmp_path: Path) -> None:
    checked = checked_by_promtool(f"Headrace{name}", CASES[name], tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@needs_prometheus
def test_a_wrong_expectation_is_reported(tmp_path: Path) -> None:
    wrong = [Case(BURST, "outage", {"headrace_nats_connected": "1x4 0x9 1x9"}, fires=(4,))]
    assert checked_by_promtool("HeadraceGatewayWithoutNats", wrong, tmp_path).returncode == 1


def checked_by_promtool(
    alert: str, cases: list[Case], folder: Path
) -> subprocess.CompletedProcess[str]:
    """Return what promtool says of the alert on these cases.

    It reads that rule alone: it would evaluate all of them for each minute of a case.
    """
    file, rule = folder / "cases.yml", folder / "rule.yml"
    tests = [promtools_test(alert, case) for case in cases]
    rule.write_text(json.dumps({"groups": [{"name": "headrace", "rules": [rules()[alert]]}]}))
    file.write_text(json.dumps({"rule_files": [str(rule)], "tests": tests}))
    return promtool("test", "rules", str(file))


def promtools_test(alert: str, case: Case) -> dict[str, Any]:
    """Return a case as promtool reads it."""
    firing = f'count(ALERTS{{alertname="{alert}", alertstate="firing"}}) or vector(0)'
    at = dict.fromkeys(case.fires, 1) | dict.fromkeys(case.silent, 0)
    return {
        "name": case.what,
        "interval": "1m",
        "input_series": [{"series": name, "values": of} for name, of in case.series.items()],
        "promql_expr_test": [
            {
                "expr": firing,
                "eval_time": f"{minute}m",
                "exp_samples": [{"labels": "{}", "value": value}],
            }
            for minute, value in at.items()
        ],
    }
