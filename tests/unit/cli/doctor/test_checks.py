"""What `headrace doctor` concludes from what servers report."""

import pytest

from headrace.model.events import Json
from headrace_cli.doctor.clocks import check_clock
from headrace_cli.doctor.diagnosis import Level
from headrace_cli.doctor.nats import check_rights, check_stream
from headrace_cli.doctor.redis import check_info
from headrace_cli.doctor.settings import check_settings

VALKEY = {"valkey_version": "9.1.0", "redis_version": "7.2.4", "maxmemory_policy": "noeviction"}


@pytest.mark.parametrize(
    ("before", "there", "after", "level"),
    [
        (100.0, 100.5, 101.0, "ok"),
        # A slow answer proves nothing about the clock.
        (100.0, 100.0, 130.0, "ok"),
        (100.0, 98.0, 130.0, "problem"),
        (100.0, 103.0, 101.0, "problem"),
    ],
)
def test_a_clock_is_wrong_only_if_the_answers_delay_does_not_explain_it(
    before: float, there: float, after: float, level: Level
) -> None:
    assert check_clock("NATS", before, there, after).level == level


@pytest.mark.parametrize(
    ("rights", "level"),
    [
        (None, "ok"),
        ({}, "warning"),
        ({"publish": {"deny": ["other.live.>", "headrace.live.x"]}}, "warning"),
        ({"publish": {"allow": ["headrace.>"]}}, "warning"),
        ({"publish": {"allow": ["headrace.>"], "deny": ["*.live.>"]}}, "ok"),
        ({"publish": {"allow": ["headrace.run.>", "$JS.API.>"]}}, "ok"),
    ],
)
def test_a_login_that_may_publish_where_only_jetstream_should_is_reported(
    rights: Json | None, level: Level
) -> None:
    assert check_rights(rights, "headrace.live.>").level == level


@pytest.mark.parametrize(
    ("used", "levels"), [(79, []), (80, ["warning"]), (95, ["problem"]), (100, ["problem"])]
)
def test_a_stream_that_fills_up_is_reported(used: int, levels: list[Level]) -> None:
    info = {"config": {"name": "EVENTS", "max_bytes": 100}, "state": {"bytes": used}}
    assert [finding.level for finding in check_stream(info)] == levels


def test_a_stream_without_a_limit_is_never_full() -> None:
    info = {"config": {"name": "EVENTS", "max_bytes": -1}, "state": {"bytes": 10**15}}
    assert list(check_stream(info)) == []


def test_replicas_that_are_away_or_behind_are_named() -> None:
    replicas = [
        {"name": "n1", "current": True},
        {"name": "n2", "current": False, "offline": True},
        {"name": "n3", "current": False},
    ]
    info = {
        "config": {"name": "RUNS"},
        "state": {"bytes": 1},
        "cluster": {"leader": "n0", "replicas": replicas},
    }
    assert [finding.text for finding in check_stream(info)] == [
        "RUNS: the replica on n2 is offline",
        "RUNS: the replica on n3 is behind",
    ]


@pytest.mark.parametrize(
    ("changes", "levels"),
    [
        ({}, ["ok"]),
        ({"redis_version": "6.2.1"}, ["problem"]),
        ({"maxmemory_policy": "allkeys-lru"}, ["ok", "problem"]),
        ({"maxmemory": 100, "used_memory": 80}, ["ok"]),
        ({"maxmemory": 100, "used_memory": 81}, ["ok", "warning"]),
    ],
)
def test_a_redis_that_loses_keys_is_reported(
    changes: dict[str, object], levels: list[Level]
) -> None:
    assert [finding.level for finding in check_info(VALKEY | changes)] == levels


def test_a_valkey_is_named_with_its_own_version() -> None:
    assert [finding.text for finding in check_info(VALKEY)] == ["valkey 9.1.0 answered"]


def test_settings_are_checked_for_every_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_REPLICAS", "many")
    monkeypatch.setenv("HEADRACE_PUSH_ATTEMPTS", "0")
    found = list(check_settings({"HEADRACE_RETENTON": "secret"}))
    assert [(finding.level, finding.text.split()[0]) for finding in found] == [
        ("problem", "HEADRACE_REPLICAS:"),
        ("problem", "HEADRACE_PUSH_ATTEMPTS:"),
        ("warning", "HEADRACE_RETENTON"),
    ]
    assert "secret" not in str(found)
