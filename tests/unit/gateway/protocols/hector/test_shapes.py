"""Answers and events in the shapes of Hector's A2A."""

from collections.abc import Sequence

import orjson
import pytest

from headrace.model import parts
from headrace.model.entry import Entry, Stamp
from headrace.model.events import DISCARDED_AFTER, Json
from headrace.model.task import COMPLETED, FAILED, INPUT_REQUIRED, REJECTED, WORKING
from headrace_gateway.feeds import FeedBlock
from headrace_gateway.protocols.hector import shapes
from headrace_gateway.protocols.hector.tool_calls import WholeCalls
from headrace_gateway.streaming.renderer import Messages, Renderer

IDS = {"taskId": "t", "contextId": "c"}
CODES = {
    "OK": 200,
    "INVALID_ARGUMENT": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "RESOURCE_EXHAUSTED": 429,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
}
"""As Hector's documents pair them."""


def said(*output: Json, state: str = WORKING, metadata: Json | None = None) -> Json:
    message = {"messageId": "m", "role": "ROLE_AGENT", "parts": list(output)}
    status = {"state": state, **({"message": message} if output else {})}
    return {"statusUpdate": {**IDS, "status": status, "metadata": metadata or {}}}


def chunk(part: Json) -> Json:
    return {"artifactUpdate": {**IDS, "artifact": {"artifactId": "a", "parts": [part]}}}


def task(state: str, *last: Json, **more: object) -> Json:
    message = {"messageId": "m", "role": "ROLE_AGENT", "parts": list(last)}
    status = {"state": state, **({"message": message} if last else {})}
    return {"task": {"id": "t", "contextId": "c", "status": status, **more}}


def made(*texts: str) -> list[Json]:
    return [{"artifactId": text, "parts": [{"text": text}]} for text in texts]


def test_a_response_has_what_its_run_used() -> None:
    used = {"tokens_used": 150, "model": "large", "execution_time": 1.5}
    result = task(COMPLETED, {"text": "Response"}, metadata=used)
    assert shapes.answered("SendMessage", result)["response"]["metadata"] == used


def test_tool_calls_and_results_are_two_levels_deep() -> None:
    call = parts.tool_call_part("search", {"q": 1}, "c1")
    result = parts.tool_result_part("c1", "found")
    [first] = shapes.event(said(call))["message"]["parts"]
    [second] = shapes.event(said(result))["message"]["parts"]
    assert first["data"] == {"data": {"id": "c1", "name": "search", "arguments": {"q": 1}}}
    assert second["data"] == {"data": {"tool_call_id": "c1", "content": "found", "error": ""}}
    assert (first["metadata"], second["metadata"]) == (call["metadata"], result["metadata"])


def test_tool_calls_of_every_spelling_are_the_same() -> None:
    old: Json = {"data": {"data": {"name": "search", "input": '{"q":1}'}}}
    old["metadata"] = {"part_type": "tool_call", "tool_call_id": "c1"}
    [part] = shapes.event(said(old))["message"]["parts"]
    assert part["data"]["data"] == {"id": "c1", "name": "search", "arguments": {"q": 1}}
    assert part["metadata"]["agui_event_type"] == "tool_call"
    assert (part["metadata"]["agui_tool_call_id"], part["metadata"]["agui_tool_name"]) == (
        "c1",
        "search",
    )
    result = {"data": {"tool_call_id": "c1", "content": 1}, "metadata": {"part_type": "tool_call"}}
    [part] = shapes.event(said(result))["message"]["parts"]
    assert part["metadata"]["agui_is_error"] is False


@pytest.mark.parametrize(
    "part",
    [
        parts.file_part(b"abc", "a.png", "image/png"),
        parts.data_part({"data": {"n": 1}}),
        parts.state_part({}),
        parts.state_delta_part([]),
        parts.step_part("plan"),
        parts.usage_part({"inputTokens": 3}),
        parts.raw_part({}, "other"),
        parts.custom_part("hey", {}),
        parts.notice_part("half way"),
        parts.thinking_part("hm"),
        parts.tool_call_part("search", {}),
        parts.tool_arguments_part("{", "c1", "search"),
        {"text": "Hello"},
    ],
)
def test_the_first_content_of_everything_is_a_text(part: Json) -> None:
    for event in (said(part), chunk(part)):
        found = shapes.event(event)
        assert isinstance(found["response"]["content"][0]["text"], str)
        for shown in found["message"]["parts"]:
            of_tool = parts.event_type(shown) == parts.TOOL_CALL
            assert isinstance(shown["data"]["data"] if of_tool else shown["text"], dict | str)


def test_signals_are_the_tasks_metadata_and_no_output() -> None:
    found = shapes.event(said(parts.state_part({"n": 1})))
    assert found["message"]["parts"] == []
    assert found["response"]["content"] == [{"text": ""}]
    assert found["task"] == {
        "id": "t",
        "context_id": "c",
        "status": "running",
        "metadata": {"state_snapshot": {"n": 1}},
    }
    by_artifact = shapes.event(chunk(parts.usage_part({"n": 1})))
    assert by_artifact["task"]["metadata"] == {"usage": {"n": 1}}


def test_files_keep_their_name_and_type() -> None:
    found = shapes.event(chunk(parts.file_part(b"abc", "a.png", "image/png")))
    file = {"raw": "YWJj", "filename": "a.png", "mediaType": "image/png"}
    assert found["response"]["content"] == [{"text": ""}, file]
    assert found["message"]["parts"] == [{**file, "text": ""}]


@pytest.mark.parametrize(("state", "code"), [(FAILED, "INTERNAL"), (REJECTED, "INVALID_ARGUMENT")])
def test_why_a_task_failed_is_no_part_of_its_answer(state: str, code: str) -> None:
    failed = task(state, {"text": "It broke."}, artifacts=made("Half an answer"))
    answer = shapes.answered("SendMessage", failed)
    assert answer["response"]["content"] == [{"text": "Half an answer"}]
    error = {"code": code, "message": "It broke.", "details": {"reason": state}}
    assert (answer["status"], answer["error"]) == ("failed", error)
    found = shapes.answered("GetTask", failed["task"])["task"]
    assert (found["result"]["content"], found["error"]) == ([{"text": "Half an answer"}], error)
    event = shapes.event(said({"text": "It broke."}, state=state))
    assert event["response"]["content"] == [{"text": ""}]
    assert event["task"]["error"] == error
    [shown] = event["message"]["parts"]
    assert (shown["text"], parts.event_type(shown)) == ("It broke.", "error")


def test_texts_of_different_sources_do_not_run_into_each_other() -> None:
    request = task(INPUT_REQUIRED, {"text": "Which?"}, artifacts=made("One.", "Two."))
    content = shapes.answered("SendMessage", request)["response"]["content"]
    assert content == [{"text": "One.\nTwo.\nWhich?"}]
    pieces = [{"artifactId": "a", "parts": [{"text": "Hel"}, {"text": "lo"}]}]
    content = shapes.answered("SendMessage", task(COMPLETED, artifacts=pieces))["response"]
    assert content["content"] == [{"text": "Hello"}]


def test_an_answer_has_the_tool_calls_since_its_users_last_message() -> None:
    def message(role: str, *parts: Json) -> Json:
        return {"messageId": "m", "role": role, "parts": list(parts)}

    history = [
        message("ROLE_USER", {"text": "a"}),
        message("ROLE_AGENT", parts.tool_call_part("old", {}, "c0")),
        message("ROLE_USER", {"text": "b"}),
        message("ROLE_AGENT", parts.tool_call_part("search", {"q": 1}, "c1")),
        message("ROLE_AGENT", parts.tool_result_part("c1", "found")),
        message("ROLE_AGENT", parts.tool_arguments_part('{"n":', "c2", "count")),
        message("ROLE_AGENT", parts.tool_arguments_part("2}", "c2", "count", end=True)),
    ]
    answer = shapes.answered("SendMessage", task(COMPLETED, history=history))
    assert [(one["id"], one["function"]) for one in answer["response"]["tool_calls"]] == [
        ("c1", {"name": "search", "arguments": '{"q":1}'}),
        ("c2", {"name": "count", "arguments": '{"n":2}'}),
    ]


class Events(Renderer):
    """Shows each event in Hector's shape."""

    def render(self, blocks: Sequence[FeedBlock], after: int) -> Messages:
        """Return the events of `blocks`; there are none up to `after`."""
        assert all(block.entry.generation > after for block in blocks)
        events = [event for block in blocks for event in block.entry.parsed()]
        return [orjson.dumps(shapes.event(event)) for event in events]


def streamed(*events: Json, shown: int = 0) -> list[list[Json]]:
    """Return the parts of each event behind generation `shown`, one entry each."""
    renderer, found = WholeCalls(Events(), shown), list[list[Json]]()
    for generation, event in enumerate(events, 1):
        stamp = Stamp("log00000", generation, "w", WORKING, 1)
        block = FeedBlock(Entry(stamp, [orjson.dumps(event)], generation, ""))
        rendered = renderer.render([block], generation - 1)
        found += [orjson.loads(one)["message"]["parts"] for one in rendered]
    return found


STREAMED = [
    said(parts.tool_arguments_part('{"q":', "c1", "search")),
    said(parts.tool_arguments_part("1", "c1")),
    said(parts.tool_arguments_part("}", "c1", end=True)),
    said(parts.tool_result_part("c1", "found")),
]


@pytest.mark.parametrize("shown", [0, 1, 2])
def test_arguments_that_stream_are_one_whole_call_wherever_a_client_comes_in(shown: int) -> None:
    *before, last, result = streamed(*STREAMED, shown=shown)
    assert before == [[]] * (2 - shown)
    [call] = last
    assert call["data"]["data"] == {"id": "c1", "name": "search", "arguments": {"q": 1}}
    assert "text" not in call
    assert result[0]["data"]["data"]["content"] == "found"


def test_a_result_completes_a_call_without_an_end() -> None:
    *_, both = streamed(STREAMED[0], said(parts.tool_arguments_part("1}", "c1")), STREAMED[3])
    assert [next(iter(one["data"]["data"])) for one in both] == ["id", "tool_call_id"]


def test_a_new_attempt_begins_its_arguments_anew() -> None:
    again = said(metadata={DISCARDED_AFTER: 0})
    *_, last, _ = streamed(STREAMED[0], again, *STREAMED)
    assert last[0]["data"]["data"]["arguments"] == {"q": 1}


@pytest.mark.parametrize(("code", "status"), CODES.items())
def test_each_code_has_its_http_status(code: str, status: int) -> None:
    received, body = shapes.refused(code, "why", {"reason": "R"})
    assert received == status
    assert body == {"error": {"code": code, "message": "why", "details": {"reason": "R"}}}


def test_what_hector_has_no_code_for_is_an_invalid_argument() -> None:
    status, body = shapes.refused("FAILED_PRECONDITION", "why", {})
    assert (status, body["error"]["code"]) == (400, "INVALID_ARGUMENT")


@pytest.mark.parametrize(
    ("modes", "types"),
    [
        (["text/plain"], ["text"]),
        (["text/plain", "image/png", "application/pdf"], ["text", "image", "file"]),
        (["*/*"], ["text", "image", "audio", "video", "file"]),
    ],
)
def test_a_card_states_what_the_agent_can_and_takes(modes: list[str], types: list[str]) -> None:
    card = {
        "name": "a",
        "description": "b",
        "version": "1",
        "capabilities": {"streaming": True},
        "defaultInputModes": modes,
        "defaultOutputModes": ["text/plain"],
    }
    declared = {"tools": {"supported": True}}
    agent = shapes.answered("GetAgentCard", {"agent": card, "declared": declared})["agent"]
    assert agent["capabilities"] == ["chat", "tools", "streaming"]
    assert agent["supported_content_types"] == types
    assert agent["default_output_modes"] == ["text/plain"]
    bare = shapes.answered("GetAgentCard", {"agent": card, "declared": {}})["agent"]
    assert bare["capabilities"] == ["chat", "streaming"]
