"""What the documents show, and what they leave to their readers."""

import tracemalloc
from pathlib import Path

import pytest
from starlette.requests import Request

from headrace.model import parts
from headrace.model.events import ATTEMPT, DISCARDED_AFTER, RETRACTED, Json
from headrace.model.task import CANCELED, FAILED, INPUT_REQUIRED, REJECTED, SUBMITTED, WORKING
from headrace_gateway.protocols.a2a.versions import forms_of
from headrace_gateway.protocols.hector.blocks import OpenToolCalls
from headrace_gateway.protocols.hector.events import HectorEvent, sse
from headrace_gateway.protocols.hector.fold import HectorFold
from headrace_gateway.protocols.hector.forms import completed
from headrace_gateway.protocols.hector.renderer import read_from
from tests.support.hector_log import HectorLog

_GOLDEN = Path(__file__).parent / "golden"


def golden(name: str, received: list[HectorEvent]) -> None:
    frames = sse("log00000", received).decode().split("\n\n")
    plain = "\n\n".join(frame.partition("\n")[2] for frame in frames)
    assert plain == (_GOLDEN / f"{name}.sse").read_text()


def names(received: list[HectorEvent]) -> list[str]:
    return [one.name for one in received]


def payloads(received: list[HectorEvent]) -> list[Json]:
    return [{key: value for key, value in one.payload.items() if value} for one in received]


def test_a_stream_is_as_documented() -> None:
    log = HectorLog().chunk(parts.text_part("Hello", "blk-1"))
    log.chunk(parts.text_part(" there!", "blk-1"), append=True).completed()
    golden("stream", log.events())


def test_tool_calls_are_as_documented_in_every_spelling() -> None:
    old = {"data": {"data": {"name": "web_search", "input": '{"query":"weather"}'}}}
    log = HectorLog().status(
        WORKING, {**old, "metadata": {"part_type": "tool_call", "tool_call_id": "tc-123"}}
    )
    metadata = {"agui_event_type": "tool_call", "agui_tool_call_id": "call-9abc"}
    call = {
        "id": "call-9abc",
        "name": "search_code",
        "arguments": {"query": "authentication logic"},
    }
    log.status(WORKING, {"data": {"data": call}, "metadata": metadata})
    content = "Found 5 files matching 'authentication'..."
    result = {"tool_call_id": "call-9abc", "content": content, "error": ""}
    log.status(
        WORKING, {"data": {"data": result}, "metadata": {**metadata, "agui_is_error": False}}
    )
    golden("tool_call", log.events(after=2))


def calls_of(log: HectorLog) -> list[tuple[str, str]]:
    """Return the starts and stops of calls, with their ids."""
    tools = [one for one in log.events() if one.name.startswith("tool_call_st")]
    return [(one.name.removeprefix("tool_call_"), one.payload["toolCallId"]) for one in tools]


def test_two_open_calls_with_one_id_are_two() -> None:
    log = HectorLog()
    for number in (1, 2):
        log.status(WORKING, parts.tool_call_part("look", {"n": number}, "call_1"))
    for number in (1, 2):
        log.status(WORKING, parts.tool_result_part("call_1", f"r{number}"))
    log.status(WORKING, parts.tool_call_part("look", {"n": 3}, "call_1"))
    begun = [("start", "call_1"), ("start", "call_1_2")]
    ended = [("stop", "call_1"), ("stop", "call_1_2"), ("start", "call_1")]
    assert calls_of(log) == begun + ended
    results = [one.payload["result"] for one in log.events() if one.name == "tool_call_stop"]
    assert results == ["r1", "r2"]


def test_a_new_attempts_call_is_another_than_the_discarded_one() -> None:
    log = HectorLog().status(WORKING, parts.tool_call_part("look", {}, "kept"))
    log.status(WORKING, parts.tool_call_part("look", {}, "call_1"))
    log.status(WORKING, metadata={ATTEMPT: 2, DISCARDED_AFTER: 3})
    log.status(WORKING, parts.tool_call_part("look", {}, "call_1"))
    for name in ("call_1", "kept"):
        log.status(WORKING, parts.tool_result_part(name, "found"))
    assert calls_of(log) == [
        ("start", "kept"),
        ("start", "call_1"),
        ("start", "call_1"),
        ("stop", "call_1"),
        ("stop", "kept"),
    ]


def test_calls_with_results_take_no_memory() -> None:
    calls = OpenToolCalls(lambda *_, **__: None)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(2000):
            calls.emit(parts.tool_call_part("look", {}, f"call_{number}"), "", 2 * number + 2)
            calls.emit(parts.tool_result_part(f"call_{number}", "found"), "", 2 * number + 3)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 50_000


def test_thinking_is_as_documented() -> None:
    text = "Let me analyze this step by step..."
    part = {"text": text, "metadata": {"part_type": "thinking", "title": "Planning"}}
    golden("thinking", HectorLog().status(WORKING, part, message="think-123").events(after=2))


def test_the_metadata_pages_stream_comes_from_the_parts_that_it_shows() -> None:
    log = HectorLog()
    log.entries.clear()
    thought = {
        "text": "Analyzing request...",
        "metadata": {
            "agui_event_type": "thinking",
            "agui_block_type": "thinking",
            "agui_block_id": "think-789",
        },
    }
    text = {
        "text": "Hello! How can I help?",
        "metadata": {
            "agui_event_type": "content_block",
            "agui_block_type": "text",
            "agui_block_id": "block-abc",
            "agui_block_end": True,
        },
    }
    thought["metadata"]["agui_block_end"] = True  # type: ignore[index]
    message = {"messageId": "msg-123", "contextId": "ctx-456", "parts": [thought, text]}
    golden("metadata_page", log.event({"message": message}).events())


def test_a_stream_that_breaks_off_ends_with_the_metadata_pages_error_event() -> None:
    golden("error", HectorFold().broken("log_lost", "the log is gone"))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"message": {"parts": [{"text": "Hello"}]}},
            {"role": "ROLE_USER", "parts": [{"text": "Hello"}]},
        ),
        (
            {"request": {"role": "user", "parts": [{"text": "Hello"}]}},
            {"role": "ROLE_USER", "parts": [{"text": "Hello"}]},
        ),
        (
            {"message": {"messageId": "m", "role": "ROLE_USER", "parts": []}},
            {"messageId": "m", "role": "ROLE_USER", "parts": []},
        ),
        ({"message": {"role": 3}}, {"role": 3}),
    ],
)
def test_requests_may_be_as_short_as_the_documents_have_them(params: Json, message: Json) -> None:
    whole = completed(params)
    assert whole.keys() == {"message"}
    assert whole["message"].pop("messageId")
    assert whole["message"] == {key: message[key] for key in message if key != "messageId"}


def test_what_is_no_request_stays_for_a2a_to_refuse() -> None:
    assert completed({"message": 3}) == {"message": 3}
    assert completed({}) == {}


def test_thinking_streams_and_is_signed() -> None:
    log = HectorLog().status(WORKING, parts.thinking_part("a", "t"))
    end = parts.thinking_part("b", "t", end=True)
    end["metadata"]["agui_signature"] = "sealed"
    events = log.status(WORKING, end).events(after=2)
    assert names(events) == ["thinking_start", *["thinking_delta"] * 2, "thinking_stop"]
    assert events[-1].payload["signature"] == "sealed"


def test_arguments_stream_and_a_failed_result_reports_it() -> None:
    log = HectorLog().status(WORKING, parts.tool_arguments_part('{"a":', "c", "tool"))
    log.status(WORKING, parts.tool_arguments_part("1}", "c", end=True))
    events = log.status(WORKING, parts.tool_result_part("c", {"n": 1}, "boom")).events(after=2)
    assert payloads(events) == [
        {"toolCallId": "c", "toolName": "tool"},
        {"toolCallId": "c", "partialInput": '{"a":'},
        {"toolCallId": "c", "partialInput": "1}"},
        {
            "toolCallId": "c",
            "finalInput": {"a": 1},
            "result": '{"n":1}',
            "error": "boom",
            "isError": True,
        },
    ]


@pytest.mark.parametrize(("state", "code"), [(FAILED, "failed"), (REJECTED, "rejected")])
def test_a_failure_closes_everything_before(state: str, code: str) -> None:
    log = HectorLog().chunk(parts.text_part("Hel", "b"))
    events = log.status(state, parts.notice_part("because", parts.ERROR)).events(after=3)
    assert names(events) == ["content_block_stop", "message_stop", "task_error"]
    assert payloads(events)[-1] == {
        "taskId": "task-123",
        "error": "because",
        "errorMessage": "because",
        "errorCode": code,
    }


def test_a_question_and_a_cancellation_are_updates_behind_the_message() -> None:
    request = HectorLog().status(INPUT_REQUIRED, {"text": "Which?"}).events(after=2)
    assert names(request)[-2:] == ["message_stop", "task_update"]
    assert request[1].payload["delta"] == "Which?"
    assert names(HectorLog().status(CANCELED).events(after=2)) == ["message_stop", "task_update"]


def test_a_follow_up_begins_a_message_of_its_own() -> None:
    log = HectorLog().status(INPUT_REQUIRED).status(SUBMITTED, {"text": "this"})
    assert names(log.events(after=3)) == ["task_update", "message_start"]


def test_the_users_own_messages_are_not_rendered_as_the_agents() -> None:
    message = {"messageId": "u", "role": "ROLE_USER", "parts": [{"text": "and this"}]}
    status = {"state": WORKING, "message": message}
    update = {"taskId": "task-123", "contextId": "ctx-456", "status": status}
    assert names(HectorLog().event({"statusUpdate": update}).events(after=2)) == ["task_update"]


def test_a_new_attempt_begins_its_message_anew() -> None:
    log = HectorLog().chunk(parts.text_part("lost", "b"))
    log.status(WORKING, metadata={ATTEMPT: 2, DISCARDED_AFTER: 1})
    log.event({"artifactUpdate": {"metadata": {RETRACTED: True}}})
    events = log.events(after=3)
    assert names(events) == ["content_block_stop", "message_stop", "task_update", "message_start"]
    assert events[2].payload["metadata"] == {"attempt": 2}


def test_files_keep_their_name_and_type_and_can_be_shown_as_they_are() -> None:
    log = HectorLog().chunk(parts.file_part(b"abc", "a.png", "image/png"), "f")
    log.chunk(parts.link_part("https://files.example/a.pdf", "a.pdf", "application/pdf"), "g")
    events = log.chunk(parts.data_part({"n": 1}), "d").events(after=2)
    assert (
        names(events)
        == [
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
        ]
        * 3
    )
    assert [one.payload for one in events if one.name == "content_block_start"] == [
        {
            "blockId": "f",
            "blockType": "image",
            "filename": "a.png",
            "mediaType": "image/png",
            "index": 0,
        },
        {
            "blockId": "g",
            "blockType": "file",
            "filename": "a.pdf",
            "mediaType": "application/pdf",
            "index": 1,
        },
        {"blockId": "d", "blockType": "data", "filename": None, "mediaType": None, "index": 2},
    ]
    assert [one.payload["delta"] for one in events if one.name == "content_block_delta"] == [
        "data:image/png;base64,YWJj",
        "https://files.example/a.pdf",
        '{"n":1}',
    ]


def indices(log: HectorLog) -> list[int]:
    return [one.payload["index"] for one in log.events() if one.name == "content_block_start"]


def test_each_block_of_a_message_has_an_index_of_its_own() -> None:
    log = HectorLog().status(WORKING, parts.thinking_part("a", "t", 0))
    log.chunk(parts.text_part("b", "b", 1)).chunk({"text": "none"}, "c")
    log.chunk(parts.text_part("d", "d", 1)).chunk({"text": "none"}, "e")
    assert indices(log) == [1, 2, 3, 4]
    log.status(INPUT_REQUIRED).status(SUBMITTED, {"text": "on"}).chunk({"text": "f"}, "f")
    assert indices(log) == [1, 2, 3, 4, 0]


SIGNALS: list[tuple[Json, Json]] = [
    (parts.state_part({}), {"state_snapshot": {}}),
    (parts.state_delta_part([]), {"state_delta": []}),
    (parts.messages_part([]), {"messages_snapshot": []}),
    (parts.step_part("plan"), {"step_started": {"name": "plan"}}),
    (parts.step_part("plan", finished=True), {"step_finished": {"name": "plan"}}),
    (parts.usage_part({"inputTokens": 3}), {"usage": {"inputTokens": 3}}),
    (parts.raw_part({"a": 1}, "other"), {"raw": {"source": "other", "event": {"a": 1}}}),
    (parts.custom_part("hey", [1]), {"custom": {"name": "hey", "value": [1]}}),
    (
        parts.activity_part("PLAN", {"n": 1}, "a"),
        {"activity_snapshot": {"id": "a", "type": "PLAN", "content": {"n": 1}}},
    ),
    (parts.activity_delta_part([], "a"), {"activity_delta": {"id": "a", "patch": []}}),
    (
        parts.subagent_part("s", "critic"),
        {"subagent_started": {"id": "s", "name": "critic"}},
    ),
    (parts.notice_part("half way"), {"message": "half way"}),
]
"""Parts that are no content, and the metadata that says what they say."""


@pytest.mark.parametrize(("part", "metadata"), SIGNALS, ids=lambda one: next(iter(one)))
def test_signals_are_metadata_of_the_tasks_updates_and_no_content(
    part: Json, metadata: Json
) -> None:
    [events] = HectorLog().status(WORKING, part).events(after=2)
    assert (events.name, events.payload) == (
        "task_update",
        {"taskId": "task-123", "status": WORKING, "metadata": metadata},
    )
    [by_artifact] = HectorLog().chunk(part).events(after=2)
    assert by_artifact.payload == events.payload


def test_text_that_is_a_messages_own_is_a_message_delta() -> None:
    text = {"text": "Hi", "metadata": {"agui_event_type": "message"}}
    assert names(HectorLog().status(WORKING, text).events(after=2)) == ["message_delta"]


def test_a_bare_message_is_a_message_and_nothing_else() -> None:
    log = HectorLog()
    log.entries.clear()
    message = {"messageId": "msg-123", "contextId": "ctx-456", "parts": [{"text": "Hello"}]}
    events = log.event({"message": message}).events()
    assert names(events) == [
        "message_start",
        *["content_block_start", "content_block_delta", "content_block_stop"],
        "message_stop",
    ]
    assert events[0].payload["messageId"] == events[-1].payload["messageId"] == "msg-123"


def test_an_event_of_another_shape_becomes_an_error() -> None:
    assert names(HectorLog().event({"artifactUpdate": {}}).events(after=2)) == ["error"]


@pytest.mark.parametrize(
    ("accept", "query", "requested"),
    [
        ("application/x-agui-events", "", True),
        ("text/event-stream, application/agui+json;q=0.5", "", True),
        ("text/event-stream", "format=agui", True),
        ("text/event-stream", "format=json", False),
        ("application/json", "", False),
    ],
)
def test_it_is_requested(accept: str, query: str, *, requested: bool) -> None:
    headers = [(b"accept", accept.encode())]
    scope = {"type": "http", "headers": headers, "query_string": query.encode()}
    assert forms_of(Request(scope)).events is requested


def test_it_is_requested_by_any_of_several_headers() -> None:
    accepts = (b"text/event-stream", b"application/x-agui-events")
    scope = {"type": "http", "headers": [(b"accept", one) for one in accepts], "query_string": b""}
    assert forms_of(Request(scope)).events


@pytest.mark.parametrize(
    ("cursor", "before"), [("log00000:7.2", "log00000:6"), ("log00000:7", "log00000:7")]
)
def test_the_log_is_read_from_before_the_event_of_a_cursor(cursor: str, before: str) -> None:
    assert read_from(cursor) == before
