import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.model.events import AGUI, Json
from headrace_gateway.json_errors import InputInvalid
from headrace_gateway.protocols.agui.run import AguiRun
from headrace_gateway.protocols.agui.run_input import RunInput

USER: Json = {"id": "u-1", "role": "user", "content": "hello"}
CALL = {"id": "c-1", "type": "function", "function": {"name": "paint", "arguments": "{}"}}
ASSISTANT: Json = {"id": "a-1", "role": "assistant", "toolCalls": [CALL]}
INPUT: Json = {"threadId": "t-1", "runId": "r-1", "messages": [USER]}


def read(**changes: Any) -> RunInput:  # noqa: ANN401
    return RunInput.read(json.dumps(INPUT | changes).encode())


def test_the_last_user_message_is_the_agents_input() -> None:
    run_input = read(messages=[{**USER, "id": "u-0", "content": "before"}, ASSISTANT, USER])
    assert run_input.thread == "t-1"
    assert run_input.message == {
        "messageId": "u-1",
        "role": "ROLE_USER",
        "parts": [{"text": "hello"}],
    }


def test_what_else_the_client_sent_is_kept_beside_it() -> None:
    sent = {
        "protocolVersion": "1.0",
        "parentRunId": "r-0",
        "state": {"n": 1},
        "tools": [{"name": "paint", "description": "paints", "parameters": {"type": "object"}}],
        "context": [{"description": "where", "value": "here"}],
        "forwardedProps": {"a": None},
        "resume": [{"interruptId": "i-1", "status": "resolved", "payload": 1}],
    }
    kept = read(**sent).metadata[AGUI]
    message = {"id": "u-1", "role": "user", "content": "hello"}
    assert kept == sent | {"runId": "r-1", "messages": [message]}


def test_answers_to_interrupts_are_the_message() -> None:
    resume = [
        {"interruptId": "a", "status": "resolved", "payload": "yes"},
        {"interruptId": "b", "status": "resolved", "payload": [1]},
        {"interruptId": "c", "status": "cancelled"},
    ]
    run_input = read(resume=resume)
    assert run_input.resumes == {"a", "b", "c"}
    assert [part.get("text", part.get("data")) for part in run_input.message["parts"]] == [
        *["yes", [1], ""]
    ]
    assert run_input.message["parts"][2]["metadata"]["agui_resume_status"] == "cancelled"


def test_fields_without_a_value_are_as_if_they_were_not_there() -> None:
    run_input = read(state=None, tools=None, parentRunId=None, messages=[{**USER, "name": None}])
    assert run_input.metadata[AGUI] == {
        "runId": "r-1",
        "messages": [{"id": "u-1", "role": "user"}],
    }


def test_tool_results_that_end_the_conversation_are_the_input() -> None:
    results: list[Json] = [
        {"id": "x-1", "role": "tool", "toolCallId": "c-1", "content": "done"},
        {"id": "x-2", "role": "tool", "toolCallId": "c-2", "content": "", "error": "no"},
    ]
    message = read(messages=[USER, ASSISTANT, *results]).message
    assert message["messageId"] == "x-2"
    assert [part["data"] for part in message["parts"]] == [
        {"tool_call_id": "c-1", "content": "done", "error": ""},
        {"tool_call_id": "c-2", "content": "", "error": "no"},
    ]


def test_an_agent_may_speak_first() -> None:
    run_input = read(messages=[])
    assert run_input.message["parts"] == [{"text": ""}]
    assert run_input.metadata[AGUI]["messages"] == []


def test_all_seven_roles_are_taken() -> None:
    messages = [
        {"id": "1", "role": "developer", "content": "d"},
        {"id": "2", "role": "system", "content": "s"},
        ASSISTANT,
        {"id": "3", "role": "tool", "toolCallId": "c-1", "content": "ok"},
        {"id": "4", "role": "activity", "activityType": "PLAN", "content": {}},
        {"id": "5", "role": "reasoning", "content": "hm"},
        USER,
    ]
    kept = read(messages=messages).metadata[AGUI]["messages"]
    assert kept == [*messages[:-1], {"id": "u-1", "role": "user"}]


def test_metadata_of_messages_is_kept() -> None:
    messages = [{**ASSISTANT, "metadata": {"model": "m"}}, {**USER, "metadata": {"page": [1]}}]
    run_input = read(messages=messages)
    task = {
        "id": "0-1",
        "contextId": "t-1",
        "history": [run_input.message],
        "metadata": run_input.metadata,
    }
    assert AguiRun.of_input({"task": task}, 1).messages == messages


def test_unknown_roles_and_parts_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    content = [
        {"type": "hologram", "depth": 3},
        {"type": "image", "source": {"type": "dream", "value": "x"}},
        {"type": "text", "text": "hello"},
    ]
    wizard = {"id": "w", "role": "wizard", "content": "abracadabra"}
    run_input = read(messages=[wizard, {**USER, "content": content}])
    assert [part["text"] for part in run_input.message["parts"]] == ["hello"]
    assert [m["id"] for m in run_input.metadata[AGUI]["messages"]] == ["u-1"]
    assert "messages.0 (role wizard)" in caplog.text
    assert "messages.1.content.0 (part hologram)" in caplog.text


def test_parts_of_0_x_clients_become_todays() -> None:
    content = [
        {"type": "binary", "mimeType": "image/png", "data": "YQ=="},
        {"type": "binary", "mimeType": "audio/ogg", "url": "http://x/a"},
        {"type": "binary", "mimeType": "text/csv", "id": "f-1", "filename": "a.csv"},
    ]
    image, sound, table = read(messages=[{**USER, "content": content}]).message["parts"]
    assert (image["raw"], image["mediaType"]) == ("YQ==", "image/png")
    assert sound["url"] == "http://x/a"
    assert table["data"] == {"type": "file", "value": "f-1", "mimeType": "text/csv"}
    kinds = [part["metadata"]["agui_part_type"] for part in (image, sound, table)]
    assert kinds == ["image", "audio", "document"]


WRONG: list[tuple[Json, str]] = [
    ({"threadId": 3}, "threadId: Input should be a valid string"),
    ({"threadId": ""}, "threadId: must not be empty"),
    ({"runId": None}, "runId: Input should be a valid string"),
    ({"runId": ""}, "runId: must not be empty"),
    ({"threadId": "x" * 257}, "threadId: must not be longer than 256 characters"),
    ({"runId": "x" * 257}, "runId: must not be longer than 256 characters"),
    ({"parentRunId": "x" * 257}, "parentRunId: must not be longer than 256 characters"),
    ({"messages": None}, "messages: Input should be a valid list"),
    ({"messages": {}}, "messages: Input should be a valid list"),
    ({"messages": [7]}, "messages.0: "),
    ({"messages": [{"id": "1"}]}, "messages.0.role: Field required"),
    ({"messages": [{"id": "1", "role": 5}]}, "messages.0.role: Input should be one of"),
    ({"messages": [{**USER, "id": 1}]}, "messages.0.id: Input should be a valid string"),
    ({"messages": [USER, {**USER, "id": 1}]}, "messages.1.id: Input should be a valid string"),
    ({"messages": [{**USER, "content": 3}]}, "messages.0.content: Input should be a valid"),
    (
        {"messages": [{**USER, "content": [{"type": "text"}]}]},
        "messages.0.content.0.text: Field required",
    ),
    (
        {"messages": [{**USER, "content": [{"type": "image", "source": {"value": "x"}}]}]},
        "messages.0.content.0.source.type: Field required",
    ),
    (
        {
            "messages": [
                {
                    **USER,
                    "content": [
                        {
                            "type": "image",
                            "source": {
                                "type": "url",
                                "value": "headrace-file:a/tasks/0-1/files/ab",
                            },
                        }
                    ],
                }
            ]
        },
        "messages.0.content.0.source.value: must not begin with headrace-file:",
    ),
    (
        {"messages": [{"id": "1", "role": "tool", "content": "x"}]},
        "messages.0.toolCallId: Field required",
    ),
    (
        {"messages": [{**ASSISTANT, "toolCalls": [{**CALL, "function": {"name": "n"}}]}]},
        "messages.0.toolCalls.0.function.arguments: Field required",
    ),
    (
        {"messages": [{"id": "1", "role": "activity", "activityType": "x", "content": "no"}]},
        "messages.0.content: Input should be a valid dictionary",
    ),
    ({"messages": [{"id": "1", "role": "wizard", "content": "x"}]}, "messages: unknown roles"),
    ({"messages": [{**USER, "content": []}]}, "messages.0.content: must have a part"),
    (
        {"messages": [{**USER, "content": [{"type": "smell", "source": {}}]}]},
        "messages.0.content: must have a part of a known AG-UI type",
    ),
    (
        {"resume": [{"interruptId": "x", "status": "resolved"}] * 2},
        "resume.1.interruptId: x has two answers",
    ),
    *(
        (
            {"forwardedProps": {"a2uiAction": {"userAction": {"name": name}}}},
            "forwardedProps.a2uiAction.userAction.name: must be a text that is not empty",
        )
        for name in (None, "", 1)
    ),
    *(
        (
            {"forwardedProps": {"a2uiAction": action}},
            "forwardedProps.a2uiAction: must be an object with userAction, an object",
        )
        for action in (1, {}, {"userAction": "book"})
    ),
    ({"protocolVersion": 1}, "protocolVersion: Input should be a valid string"),
    ({"parentRunId": []}, "parentRunId: Input should be a valid string"),
    ({"tools": "x"}, "tools: Input should be a valid list"),
    ({"tools": [{"name": "x"}]}, "tools.0.description: Field required"),
    (
        {"tools": [{"name": "x", "description": "", "parameters": {}}, {"name": "y"}]},
        "tools.1.description: Field required",
    ),
    ({"context": [{"description": "x"}]}, "context.0.value: Field required"),
    ({"resume": {}}, "resume: Input should be a valid list"),
    (
        {"resume": [{"interruptId": "x", "status": "maybe"}]},
        "resume.0.status: Input should be 'resolved' or 'cancelled'",
    ),
]


@pytest.mark.parametrize(
    ("changes", "complaint"), WRONG, ids=map(json.dumps, [w for w, _ in WRONG])
)
def test_a_malformed_field_is_named_with_its_rule(changes: Json, complaint: str) -> None:
    with pytest.raises(InputInvalid) as raised:
        read(**changes)
    assert str(raised.value).startswith(complaint)


def test_many_answers_to_interrupts_take_no_longer_each() -> None:
    resume = [{"interruptId": f"{number}", "status": "cancelled"} for number in range(50_000)]
    began = time.process_time()
    run_input = read(resume=resume)
    assert len(run_input.resumes) == len(resume)
    # If each were compared with all before it, this would take 20 seconds.
    assert time.process_time() - began < 10


@pytest.mark.parametrize("field", ["threadId", "runId", "messages"])
def test_a_missing_field_is_named(field: str) -> None:
    body = {name: value for name, value in INPUT.items() if name != field}
    with pytest.raises(InputInvalid, match=f"{field}: Field required"):
        RunInput.read(json.dumps(body).encode())


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"3", b"null", b"\xff"])
def test_a_body_that_is_no_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(InputInvalid, match="the body"):
        RunInput.read(body)


SOURCES = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("data"), "value": st.text(), "mimeType": st.sampled_from(["a/b", ""])}
    ),
    st.fixed_dictionaries(
        {"type": st.just("url"), "value": st.text()}, optional={"mimeType": st.just("image/png")}
    ),
    st.fixed_dictionaries({"type": st.just("file"), "value": st.text(), "provider": st.text()}),
)
MORE = {
    "id": st.text(),
    "metadata": st.one_of(st.integers(), st.dictionaries(st.text(), st.none())),
}
PARTS = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": st.text()}, optional=MORE),
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["image", "audio", "video", "document"]),
            "source": SOURCES,
        },
        optional=MORE,
    ),
)
CONTENT = st.one_of(st.text(), st.lists(PARTS, min_size=1, max_size=3))


@settings(deadline=None)
@given(CONTENT)
def test_the_users_message_can_be_returned_unchanged(content: object) -> None:
    run_input = read(messages=[{**USER, "content": content}])
    task = {"id": "0-1", "contextId": "t-1", "history": [run_input.message]}
    run = AguiRun.of_input({"task": {**task, "metadata": run_input.metadata}}, 1)
    assert run.messages == [{**USER, "content": content}]
    assert (run.thread, run.id) == ("t-1", "r-1")


@pytest.mark.parametrize(
    ("state", "rule"),
    [
        ({"text": "x" * 1_000_000}, "takes 1000011 bytes of JSON; the limit is 1000000"),
        ([0] * 200_000, "has 200001 values; the limit is 200000"),
    ],
)
def test_a_state_that_is_too_large_is_refused_by_its_name(state: object, rule: str) -> None:
    with pytest.raises(InputInvalid, match=f"^state: {rule}$"):
        read(state=state)
    assert read(state={"text": "x" * 900_000}).run == "r-1"


def test_what_is_done_on_a_surface_is_the_input() -> None:
    action = {"name": "book", "surfaceId": "s", "context": {"n": 1}}
    run_input = read(forwardedProps={"a2uiAction": {"userAction": action}})
    [part] = run_input.message["parts"]
    assert part["data"] == [{"version": "v0.9", "action": action}]
    assert part["mediaType"] == "application/a2ui+json"
    assert run_input.metadata[AGUI]["messages"] == [USER]
