"""What a group of workers may use of the queues of versions."""

import pytest

from headrace.jetstream.client import in_domain
from headrace.jetstream.permissions import ROLES, Permissions, SubjectAccess, WorkerGroup
from headrace.settings import BusSettings

GROUP = WorkerGroup("shop", ("shop",), (("shop", "1.2"),))


def test_a_group_pulls_from_the_queues_of_its_versions_only() -> None:
    permissions = Permissions(BusSettings(), [GROUP])
    pulled = "$JS.API.CONSUMER.MSG.NEXT.RUNS."
    subjects = [one.subject for one in permissions.imported(GROUP)]
    assert [s.removeprefix(pulled) for s in subjects if s.startswith(pulled)] == [
        "shop@default@high",
        "shop",
        "shop@default@low",
        "shop@default@high@1_2e2",
        "shop@default@normal@1_2e2",
        "shop@default@low@1_2e2",
    ]


def test_all_roles_may_request_rechecks() -> None:
    permissions = Permissions(BusSettings(), [GROUP])
    imported = [one.subject for one in permissions.imported(GROUP)]
    for subject in ("recheck.*", "state.input.shop", "state.all.input.shop"):
        assert f"headrace.{subject}" in imported
    for role in ("gateway", "task-state", "triggers"):
        rights = permissions.rights(role)
        assert "headrace.recheck.>" in rights.publish
        assert "headrace.recheck.*" in rights.subscribe


@pytest.mark.parametrize("role", ["gateway", "triggers"])
def test_services_tell_operators_only_what_they_are(role: str) -> None:
    publish = Permissions(BusSettings(), [GROUP]).rights(role).publish
    told = [one for one in publish if one.startswith("_INBOX.operator")]
    assert told == ["_INBOX.operator.processes.>"]


def test_only_services_write_routes() -> None:
    permissions = Permissions(BusSettings(), [GROUP])
    routed = "$KV.AGENTS.route.*"
    assert routed in permissions.rights("gateway").publish
    assert not any("route" in one.subject for one in permissions.imported(GROUP))


def test_task_state_publishes_answers_and_no_other_role_does() -> None:
    permissions = Permissions(
        BusSettings(), [GROUP], answers=[SubjectAccess("orders.done", "ORDERS")]
    )
    roles = ("gateway", "task-state", "triggers")
    for subject in ("orders.done", "$JS.API.STREAM.MSG.GET.ORDERS"):
        may = [role for role in roles if subject in permissions.rights(role).publish]
        assert may == ["task-state"]


def test_triggers_take_the_events_that_they_may() -> None:
    events = [SubjectAccess("orders.*", "ORDERS"), SubjectAccess("bills.*")]
    rights = Permissions(BusSettings(), [GROUP], events=events).rights("triggers")
    pulled = [one for one in rights.publish if one.startswith("$JS.API.CONSUMER.MSG.NEXT.")]
    own = "$JS.API.CONSUMER.MSG.NEXT.SCHEDULES.>"
    assert pulled == [own, "$JS.API.CONSUMER.MSG.NEXT.ORDERS.>"]
    assert "$JS.ACK.ORDERS.>" in rights.publish
    assert "bills.*" in rights.subscribe
    assert "orders.*" not in rights.subscribe


@pytest.mark.parametrize("role", ROLES)
def test_users_of_a_domain_may_ask_under_its_subjects_only(role: str) -> None:
    plain = Permissions(BusSettings(), []).rights(role)
    within = Permissions(BusSettings(nats_jetstream_domain="hub"), []).rights(role)
    assert (within.subscribe, within.never) == (plain.subscribe, plain.never)
    assert within.publish == [in_domain("hub", subject) for subject in plain.publish]
    assert not any(subject.startswith(("$JS.API.", "$KV.")) for subject in within.publish)
    assert any(subject.startswith("$JS.hub.API.") for subject in within.publish)
