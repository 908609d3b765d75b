"""What `headrace doctor` concludes from what servers report."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.jetstream.permissions import Permissions
from headrace.model.events import Json
from headrace.model.messages import ProcessFound
from headrace.settings import BusSettings
from headrace_cli.doctor import settings as checks
from headrace_cli.doctor.command import user_in_settings
from headrace_cli.doctor.diagnosis import Level, check_clock
from headrace_cli.doctor.nats import check_rights, check_stream, check_version
from headrace_cli.doctor.redis import check_info
from headrace_cli.doctor.rights import check_role
from headrace_cli.doctor.settings import check_files, check_settings
from headrace_cli.doctor.versions import check_versions
from headrace_cli.settings_table import settings_classes

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


@pytest.mark.parametrize(
    "case",
    [
        ("QUOTAS", None, "No such file", "headrace gateway and headrace triggers do"),
        ("QUOTAS", "[[quota]]\nruns = -1", "quota.0.runs: ", "headrace gateway and"),
        ("CREDENTIALS", "[[credential]]\nowner = ''", "credential.0.owner: ", "gateway does"),
        ("SIGNING_KEYS", "none", "PEM", "headrace gateway and headrace task-state do"),
        ("PRICES", "[[price]", "line 1", "headrace worker does"),
    ],
)
def test_files_are_checked_as_services_check_them(
    case: tuple[str, str | None, str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting, content, rule, services = case
    file = tmp_path / "file"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv(f"HEADRACE_{setting}", str(file))
    [found] = check_files()
    assert (found.level, found.subject) == ("problem", "settings")
    assert str(file) in found.text
    assert rule in found.text
    assert services in found.remedy


def test_files_that_are_sound_are_not_mentioned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quotas = tmp_path / "quotas.toml"
    quotas.write_text('[[quota]]\nname = "day"\nruns = 1\n')
    monkeypatch.setenv("HEADRACE_QUOTAS", str(quotas))
    assert list(check_files()) == []
    monkeypatch.setenv("HEADRACE_PUSH_ALLOW", "10.0.0.0/99")
    [found] = check_files()
    assert found.text.startswith("HEADRACE_PUSH_ALLOW: ")


def test_what_reads_a_setting_exists() -> None:
    classes = settings_classes()
    read = [(service, setting) for services, setting, _ in checks._READ for service in services]
    assert len(read) >= len(checks._READ) > 1
    assert [(of, name) for of, name in read if name not in classes[of].model_fields] == []
    assert all(callable(checks._load(reader)) for _, _, reader in checks._READ)


def test_files_of_invalid_settings_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_QUOTAS", "missing.toml")
    monkeypatch.setenv("HEADRACE_REPLICAS", "many")
    assert list(check_files()) == []


def process(service: str, name: str, release: str = "0.1.0", writes: str = "2") -> ProcessFound:
    found = {"service": service, "process": name, "release": release, "log_level": "info"}
    return ProcessFound.model_validate({**found, "reads": ["2", "3"], "writes": writes})


FLEET = [process("gateway", "g1"), process("task-state", "t1"), process("worker", "w1")]


def findings(found: list[ProcessFound], workers: list[str]) -> list[tuple[Level, str]]:
    return [(one.level, one.text) for one in check_versions(found, workers)]


@pytest.mark.parametrize("workers", [[], ["w1"]], ids=["draining", "live"])
def test_processes_of_one_release_are_counted(workers: list[str]) -> None:
    text = "release 0.1.0: 1 gateway, 1 task-state, 1 worker"
    assert findings(FLEET, workers) == [("ok", text)]


def test_several_releases_are_named_with_their_processes() -> None:
    found = [*FLEET, process("worker", "w2", "0.2.0")]
    text = "0.1.0: 1 gateway, 1 task-state, 1 worker; 0.2.0: 1 worker"
    assert findings(found, ["w1", "w2"]) == [("warning", f"several releases are running: {text}")]


def test_a_version_that_is_written_and_not_read_by_all_is_a_problem() -> None:
    found = [
        *FLEET,
        process("worker", "w2", "0.2.0", writes="4").model_copy(update={"reads": ["3", "4"]}),
    ]
    problems = [text for level, text in findings(found, ["w1", "w2"]) if level == "problem"]
    former, newer = "gateway g1 (0.1.0) and 2 more", "worker w2 (0.2.0)"
    assert problems == [
        f"{former} write version 2 of the bus contract, which {newer} do not read (3, 4)",
        f"{newer} write version 4 of the bus contract, which {former} do not read (2, 3)",
    ]


def test_processes_that_do_not_state_their_release_are_reported() -> None:
    assert findings([process("worker", "drains")], ["w1", "w2"])[1:] == [
        ("warning", "2 of 2 workers do not state their release"),
        ("warning", "no gateway states its release"),
    ]


SETTINGS = BusSettings()
NEEDED = Permissions(SETTINGS, ()).rights("gateway")


def role_findings(
    publish: list[str], subscribe: list[str], user: str = "gateway", deny: Sequence[str] = ()
) -> list[tuple[Level, str]]:
    permissions = {
        "publish": {"allow": publish, "deny": list(deny)},
        "subscribe": {"allow": subscribe},
    }
    return [(one.level, one.text) for one in check_role(SETTINGS, user, permissions)]


@pytest.mark.parametrize("role", ["gateway", "task-state", "triggers", "operator"])
def test_a_login_with_exactly_its_roles_rights_is_sound(role: str) -> None:
    rights = Permissions(SETTINGS, ()).rights(role)
    text = f"user {role!r} has the rights of {role}, and no other service's"
    found = role_findings(rights.publish, rights.subscribe, role, rights.never)
    assert found == [("ok", text)]


def test_a_right_that_a_role_needs_and_lacks_is_a_problem() -> None:
    fewer = [one for one in NEEDED.publish if one not in {"headrace.run.>", "headrace.push.>"}]
    [(level, text)] = role_findings(fewer, NEEDED.subscribe)
    assert level == "problem"
    assert text == (
        "user 'gateway' may not publish on headrace.run.>, headrace.push.>, as gateway needs"
    )


@pytest.mark.parametrize("deny", ["headrace.run.acme.>", "headrace.run.>", "headrace.*.acme.>"])
def test_a_deny_of_a_part_of_what_a_role_needs_is_a_problem(deny: str) -> None:
    found = role_findings(NEEDED.publish, NEEDED.subscribe, deny=[deny])
    [(level, text)] = found
    assert level == "problem"
    assert "may not publish on " in text
    assert "headrace.run.>" in text


def test_a_deny_of_a_part_of_what_other_services_need_leaves_the_rest() -> None:
    publish, subscribe = [*NEEDED.publish, "headrace.dead.>"], NEEDED.subscribe
    partly = role_findings(publish, subscribe, deny=["headrace.dead.acme.>"])
    assert [level for level, _ in partly] == ["warning"]
    fully = role_findings(publish, subscribe, deny=["headrace.dead.>"])
    assert [level for level, _ in fully] == ["ok"]


def test_a_right_that_only_another_service_needs_is_warned_of() -> None:
    found = role_findings(
        [*NEEDED.publish, "headrace.dead.>"], [*NEEDED.subscribe, "headrace.state.>"]
    )
    assert found == [
        ("warning", "user 'gateway' may publish on headrace.dead.>, as only other services need"),
        (
            "warning",
            "user 'gateway' may subscribe to headrace.state.>, as only other services need",
        ),
    ]
    everything = role_findings([">"], [">"])
    assert [level for level, _ in everything] == ["warning", "warning"]


@pytest.mark.parametrize(
    ("url", "user"),
    [
        (None, "gateway"),
        ("nats://task-state:s3cret@127.0.0.1", "task-state"),
        ("nats://127.0.0.1", ""),
    ],
)
def test_the_login_of_a_url_that_is_named_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, url: str | None, user: str
) -> None:
    monkeypatch.setenv("HEADRACE_NATS_URL", "nats://gateway:s3cret@127.0.0.1")
    assert user_in_settings(url) == user


def test_other_users_and_those_without_permissions_are_not_compared() -> None:
    assert role_findings([], [], "shop") == []
    assert list(check_role(SETTINGS, "gateway", {})) == []


@pytest.mark.parametrize(("version", "level"), [("2.13.4", "problem"), ("2.14.0", "ok")])
def test_a_nats_that_is_too_old_is_a_problem(version: str, level: Level) -> None:
    assert check_version(version, 1.0).level == level
