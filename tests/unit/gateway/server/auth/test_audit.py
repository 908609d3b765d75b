"""The audit log: a line per audited request, with who did what with which task."""

import logging
import shlex
from typing import Any, cast

import pytest

from headrace.jetstream.connection import Bus
from headrace.log_lines import LineFormatter
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


async def owner_of(caller: Caller, agent: str, task: str) -> str | None:
    assert (caller.tenant, agent) == ("acme", "shop")
    return {"t1": "ann"}.get(task)


def access(audited: Audited) -> Access:
    settings = GatewaySettings(owner_requests_per_minute=-1, tenant_requests_per_minute=-1)
    return Access(RateLimits(cast("Bus", None), settings), AuditLog(audited, owner_of))


async def check(
    access: Access, caller: Caller, agent: str, operation: str, task: str = "", **named: str
) -> None:
    access.admit(caller, agent, operation, task, **named)
    await access.permitted(caller, agent, operation, task, **named)


def fields(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    assert all(one.name == "headrace.audit" for one in caplog.records)
    return [one.__dict__["audit"] for one in caplog.records]


@pytest.fixture(autouse=True)
def _all_levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "headrace.audit")


@pytest.mark.parametrize("operation", sorted(OPERATED | FLEET))
async def test_each_operation_of_an_operator_is_a_line(
    operation: str, caplog: pytest.LogCaptureFixture
) -> None:
    if operation in FLEET:
        await access(Audited.OPERATORS).check_operator(OPERATOR, operation, "shop", "t1")
    else:
        await check(access(Audited.OPERATORS), OPERATOR, "shop", operation, "t1")
    [line] = fields(caplog)
    assert line == {
        "tenant": "acme",
        "owner": "oncall",
        "role": "operator",
        "operation": operation,
        "agent": "shop",
        "task": "t1",
        "target_owner": "ann",
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
async def test_the_setting_states_which_requests_of_owners_are_lines(
    audited: Audited, expected: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    checked = access(audited)
    for operation in OPERATIONS:
        await check(checked, OWNER, "shop", operation, "t1")
    lines = fields(caplog)
    assert {line["operation"] for line in lines} == expected
    assert {line["role"] for line in lines} <= {"owner"}


async def test_a_line_names_the_owner_of_what_is_reached(caplog: pytest.LogCaptureFixture) -> None:
    checked = access(Audited.ALL)
    await check(checked, OPERATOR, "shop", "CancelTask", "t1")
    await check(checked, OPERATOR, "shop", "CancelTask", "gone")
    await check(checked, OPERATOR, "shop", "ListTasks")
    await check(checked, OWNER, "shop", "CancelTask", "t2")
    await check(checked, OWNER, "shop", "SendMessage")
    await checked.record(OPERATOR, "shop", "PauseTrigger", target_owner="bea", trigger="orders")
    await checked.record(OPERATOR, "shop", "DropDeadLetter", "t1")
    owners = [line["target_owner"] for line in fields(caplog)]
    assert owners == ["ann", "-", "-", "ann", "-", "bea", "ann"]


@pytest.mark.parametrize("audited", list(Audited))
async def test_a_denied_request_is_a_warning(
    audited: Audited, caplog: pytest.LogCaptureFixture
) -> None:
    reader = Caller("acme", "eve", grants=(Grant(("*",), frozenset({"GetTask"})),))
    with pytest.raises(NotPermitted):
        await check(access(audited), reader, "shop", "CancelTask", "t1")
    with pytest.raises(NotPermitted):
        await access(audited).check_operator(reader, "FailTask", "shop", "t1")
    assert [line["outcome"] for line in fields(caplog)] == ["denied", "denied"]
    assert [one.levelname for one in caplog.records] == ["WARNING", "WARNING"]


async def test_what_an_operation_concerns_is_a_field_also_of_a_denied_request(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reader = Caller("acme", "eve", grants=(Grant(("*",), frozenset({"GetTask"})),))
    with pytest.raises(NotPermitted):
        await check(access(Audited.ALL), reader, "shop", "PutSchedule", schedule="nightly")
    await check(access(Audited.ALL), OWNER, "shop", "PutTrigger", trigger="orders")
    await check(access(Audited.ALL), OWNER, "shop", "GetTask", process="")
    denied, permitted, unnamed = fields(caplog)
    assert (denied["schedule"], permitted["trigger"]) == ("nightly", "orders")
    assert not {"schedule", "trigger", "process"} & unnamed.keys()


async def test_what_a_client_names_is_one_field_of_the_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    forged = 't1 outcome=permitted owner="oncall"'
    await check(access(Audited.ALL), OWNER, "shop", "GetTask", forged)
    [message] = caplog.messages
    assert shlex.split(message)[-3:] == [
        f"task={forged}",
        "target_owner=ann",
        "outcome=permitted",
    ]


async def test_a_long_name_pushes_no_field_off_the_line(caplog: pytest.LogCaptureFixture) -> None:
    agent, task = "a" * 60_000, "t" * 60_000
    with pytest.raises(NotPermitted):
        await access(Audited.ALL).check_operator(OWNER, "FailTask", agent, task, process=task)
    formatted = LineFormatter("%(message)s").format(caplog.records[0])
    assert " outcome=denied " in formatted
    [written] = fields(caplog)
    assert max(map(len, written.values())) < 300


async def test_an_audit_line_is_never_left_out_but_denials_are_limited(
    caplog: pytest.LogCaptureFixture,
) -> None:
    checked = access(Audited.ALL)
    await check(checked, OWNER, "shop", "GetTask", "t1")
    with pytest.raises(NotPermitted):
        await checked.check_operator(OWNER, "FailTask", "shop", "t1")
    permitted, denied = caplog.records
    assert permitted.__dict__["is_unlimited"]
    assert "is_unlimited" not in denied.__dict__
