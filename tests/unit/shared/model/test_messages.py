"""Bodies on the bus: what was sent is read, by older and newer versions too."""

import pytest

from headrace.model.errors import UndecodableMessage
from headrace.model.messages import (
    BusMessage,
    Control,
    DeadLetter,
    GetTask,
    HolderReply,
    ListTasks,
    Refusal,
    RunRequest,
    TaskFound,
    TasksFound,
)

MESSAGES: list[BusMessage] = [
    RunRequest(log="abcd", context="c", owner="o"),
    HolderReply(writer="w", worker="i", run=1, attempt=2, accepted=False),
    Control(ask="cancel"),
    GetTask(tenant="t", owner="o", task="x", history_length=0),
    TaskFound(
        task={"id": "x", "data": {"null": None}},
        agent="a",
        log="l",
        generation=3,
        sequence=9,
        state="S",
    ),
    ListTasks(tenant="t", owner="o", page_size=100, include_artifacts=True),
    TasksFound(tasks=[{}], next_page_token="", page_size=1, total_size=1),
    Refusal(code="task_unknown", message="no"),
    DeadLetter(reason="r", subject="s", headers={"a": "b"}, body="eA==", at="now"),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_what_is_encoded_is_decoded(message: BusMessage) -> None:
    assert type(message).decode("subject", message.encode()) == message


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_what_a_newer_version_adds_is_passed_over(message: BusMessage) -> None:
    newer = message.encode()[:-1] + (b"," if len(message.encode()) > 2 else b"") + b'"new":[1]}'
    assert type(message).decode("subject", newer) == message


@pytest.mark.parametrize("body", [b"", b"{", b"null", b"[]", b"{}", b'{"log":1}', b"\xff"])
def test_a_body_of_another_shape_is_undecodable_and_states_where_it_was(body: bytes) -> None:
    with pytest.raises(UndecodableMessage) as error:
        RunRequest.decode("the.subject", body)
    assert error.value.subject == "the.subject"
    assert error.value.reason


def test_the_field_at_fault_is_named() -> None:
    with pytest.raises(UndecodableMessage, match=r"page_size: .*100"):
        ListTasks.decode("s", b'{"tenant":"t","owner":"o","page_size":101}')
    with pytest.raises(UndecodableMessage, match="ask: "):
        Control.decode("s", b'{"ask":"nonsense"}')
