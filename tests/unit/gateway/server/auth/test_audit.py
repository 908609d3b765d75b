"""The audit log: a line per audited request, with who did what with which task."""

import logging
import shlex
from typing import Any, cast

import pytest

from headrace.jetstream.connection import Bus
from headrace_gateway.refusals import NotPermitted
from headrace_gateway.server.auth.access import Access, RateLimits
from headrace_gateway.server.auth.audit import Audited, AuditLog
from headrace_gateway.server.auth.caller import FLEET, OPERATED, Caller, Grant
from headrace_gateway.settings import GatewaySettings

CHANGES = {
    "SendMessage",
    "SendStreamingMessage",
    "CancelTask",
    "ForkTask",
    "DeleteTask",
    "CreateTaskPushNotificationConfig",
    "DeleteTaskPushNotificationConfig",
}
READS = {"GetTask", "ListTasks", "SubscribeToTask", "GetTaskPushNotificationConfig"}
OPERATIONS = sorted(CHANGES | READS)

OPERATOR = Caller(
    "acme", "oncall", grants=(Grant(("*",), frozenset(OPERATED | FLEET), operator=True),)
)
OWNER = Caller("acme", "ann")


def access(audited: Audited) -> Access:
    settings = GatewaySettings(owner_requests_per_minute=-1, tenant_requests_per_minute=-1)
    return Access(RateLimits(cast("Bus", None), settings), AuditLog(audited))


def fields(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    assert all(one.name == "headrace.audit" for one in caplog.records)
    return [one.__dict__["audit"] for one in caplog.records]


@pytest.fixture(autouse=True)
def _all_levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "headrace.audit")


@pytest.mark.parametrize("operation", sorted(OPERATED | FLEET))
def test_each_operation_of_an_operator_is_a_line(
    operation: str, caplog: pytest.LogCaptureFixture
) -> None:
    if operation in FLEET:
        access(Audited.OPERATORS).check_operator(OPERATOR, operation, "shop", "t1")
    else:
        access(Audited.OPERATORS).check(OPERATOR, "shop", operation, "t1")
    [line] = fields(caplog)
    assert line == {
        "tenant": "acme",
        "owner": "oncall",
        "role": "operator",
        "operation": operation,
        "agent": "shop",
        "task": "t1",
        "outcome": "permitted",
    }
    assert caplog.messages == [" ".join(f"{name}={value}" for name, value in line.items())]


@pytest.mark.parametrize(
    ("audited", "expected"),
    [
        (Audited.OPERATORS, set[str]()),
        (Audited.CHANGES, CHANGES),
        (Audited.ALL, CHANGES | READS),
    ],
)
def test_the_setting_states_which_requests_of_owners_are_lines(
    audited: Audited, expected: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    checked = access(audited)
    for operation in OPERATIONS:
        checked.check(OWNER, "shop", operation, "t1")
    lines = fields(caplog)
    assert {line["operation"] for line in lines} == expected
    assert {line["role"] for line in lines} <= {"owner"}


@pytest.mark.parametrize("audited", list(Audited))
def test_a_denied_request_is_a_warning(audited: Audited, caplog: pytest.LogCaptureFixture) -> None:
    reader = Caller("acme", "eve", grants=(Grant(("*",), frozenset({"GetTask"})),))
    with pytest.raises(NotPermitted):
        access(audited).check(reader, "shop", "CancelTask", "t1")
    with pytest.raises(NotPermitted):
        access(audited).check_operator(reader, "FailTask", "shop", "t1")
    assert [line["outcome"] for line in fields(caplog)] == ["denied", "denied"]
    assert [one.levelname for one in caplog.records] == ["WARNING", "WARNING"]


def test_what_an_operation_concerns_is_a_field_also_of_a_denied_request(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reader = Caller("acme", "eve", grants=(Grant(("*",), frozenset({"GetTask"})),))
    with pytest.raises(NotPermitted):
        access(Audited.ALL).check(reader, "shop", "PutSchedule", schedule="nightly")
    access(Audited.ALL).check(OWNER, "shop", "PutTrigger", trigger="orders")
    access(Audited.ALL).check(OWNER, "shop", "GetTask", process="")
    denied, permitted, unnamed = fields(caplog)
    assert (denied["schedule"], permitted["trigger"]) == ("nightly", "orders")
    assert not {"schedule", "trigger", "process"} & unnamed.keys()


def test_what_a_client_names_is_one_field_of_the_line(caplog: pytest.LogCaptureFixture) -> None:
    forged = 't1 outcome=permitted owner="oncall"'
    access(Audited.ALL).check(OWNER, "shop", "GetTask", forged)
    [message] = caplog.messages
    assert shlex.split(message)[-2:] == [f"task={forged}", "outcome=permitted"]


def test_an_audit_line_is_never_left_out_but_denials_are_limited(
    caplog: pytest.LogCaptureFixture,
) -> None:
    checked = access(Audited.ALL)
    checked.check(OWNER, "shop", "GetTask", "t1")
    with pytest.raises(NotPermitted):
        checked.check_operator(OWNER, "FailTask", "shop", "t1")
    permitted, denied = caplog.records
    assert permitted.__dict__["is_unlimited"]
    assert "is_unlimited" not in denied.__dict__
