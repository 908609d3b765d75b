"""Parts are built as the metadata schema says, and read however they were built."""

import orjson
import pytest

from headrace.model import parts
from headrace.model.events import Json

THINKING = {"agui_event_type": "thinking"}


def test_a_text_part_carries_the_schemas_four_keys() -> None:
    assert parts.text_part("Hello!", "block-1234", 0) == {
        "text": "Hello!",
        "metadata": {
            "agui_event_type": "content_block",
            "agui_block_type": "text",
            "agui_block_id": "block-1234",
            "agui_block_index": 0,
        },
    }


def test_a_thinking_part_is_marked_twice() -> None:
    part = parts.thinking_part("Hm.", "think-5678", 1, title="Planning")
    assert part["metadata"]["agui_event_type"] == part["metadata"]["agui_block_type"] == "thinking"
    assert part["metadata"]["agui_block_index"] == 1
    assert part["metadata"]["title"] == "Planning"


def test_a_tool_call_has_one_level_of_data_and_no_error_flag() -> None:
    assert parts.tool_call_part("search", {"query": "x"}, "call-9abc") == {
        "data": {"id": "call-9abc", "name": "search", "arguments": {"query": "x"}},
        "metadata": {
            "agui_event_type": "tool_call",
            "agui_tool_call_id": "call-9abc",
            "agui_tool_name": "search",
        },
    }


@pytest.mark.parametrize(("error", "flag"), [("", False), ("no such file", True)])
def test_a_tool_result_always_has_the_error_flag(error: str, flag: bool) -> None:  # noqa: FBT001  # a case
    part = parts.tool_result_part("call-9abc", "5 files", error)
    assert part["data"] == {"tool_call_id": "call-9abc", "content": "5 files", "error": error}
    assert part["metadata"]["agui_is_error"] is flag


def test_what_is_given_no_id_gets_one_of_its_own() -> None:
    built = [parts.text_part("a"), parts.text_part("b"), parts.thinking_part("c")]
    ids = [parts.block_id(part) for part in built]
    assert len(set(ids)) == 3
    assert ids[0].startswith("block-")
    assert ids[2].startswith("think-")
    assert parts.tool_call_id(parts.tool_call_part("f", {})).startswith("call-")


def test_only_a_blocks_last_part_states_that_it_ends() -> None:
    assert "agui_block_end" not in parts.text_part("a", "b")["metadata"]
    assert parts.is_block_end(parts.text_part("", "b", end=True))
    assert parts.is_block_end(parts.thinking_part("", "b", end=True))


def test_a_piece_of_arguments_is_partial_text() -> None:
    part = parts.tool_arguments_part('{"a', "call-1", "f")
    assert part["text"] == '{"a'
    assert parts.is_partial_tool_call(part)
    assert parts.tool_call(part) is None
    assert parts.tool_call_id(part) == "call-1"
    assert parts.tool_name(part) == "f"


def test_files_and_data_have_their_media_types() -> None:
    assert parts.file_part(b"tck", "output.txt", "text/plain") == {
        "raw": "dGNr",
        "filename": "output.txt",
        "mediaType": "text/plain",
    }
    assert parts.link_part("https://example.com/x") == {"url": "https://example.com/x"}
    assert parts.data_part({"n": 1}, "application/json")["mediaType"] == "application/json"


@pytest.mark.parametrize(
    "part",
    [
        parts.thinking_part("Hm."),
        {"text": "Hm.", "metadata": THINKING},
        {"text": "Hm.", "metadata": {"agui_block_type": "thinking"}},
        {"text": "Hm.", "metadata": {"event_type": "thinking"}},
        {"text": "Hm.", "metadata": {"part_type": "thinking", "title": "Planning"}},
    ],
)
def test_thinking_is_recognised_under_every_name(part: Json) -> None:
    assert parts.is_thinking(part)
    assert parts.text_of([part, {"text": "Yes."}]) == "Yes."
    assert parts.thinking_of([part, {"text": "Yes."}]) == "Hm."


@pytest.mark.parametrize(
    "part",
    [
        parts.tool_call_part("search", {"query": "x"}, "call-1"),
        {
            "data": {"data": {"id": "call-1", "name": "search", "arguments": {"query": "x"}}},
            "metadata": {"agui_event_type": "tool_call", "agui_tool_call_id": "call-1"},
        },
        {
            "data": {"data": {"name": "search", "input": {"query": "x"}}},
            "metadata": {"part_type": "tool_call", "tool_call_id": "call-1"},
        },
    ],
)
def test_a_tool_call_is_recognised_in_every_shape(part: Json) -> None:
    assert parts.tool_call(part) == ("call-1", "search", {"query": "x"})
    assert parts.tool_result(part) is None


@pytest.mark.parametrize(
    "part",
    [
        parts.tool_result_part("call-1", "none", "boom"),
        {
            "data": {"data": {"tool_call_id": "call-1", "content": "none", "error": "boom"}},
            "metadata": {"event_type": "tool_call", "is_error": True},
        },
    ],
)
def test_a_tool_result_is_recognised_in_every_shape(part: Json) -> None:
    assert parts.tool_result(part) == ("call-1", "none", "boom", True)
    assert parts.tool_call(part) is None


@pytest.mark.parametrize(
    "part", [{}, {"text": "x"}, {"text": "x", "metadata": None}, {"metadata": {"agui_block_id": 3}}]
)
def test_a_part_without_metadata_reads_as_a_plain_one(part: Json) -> None:
    assert (parts.event_type(part), parts.block_type(part), parts.block_id(part)) == ("", "", "")
    assert not parts.is_thinking(part)
    assert parts.tool_call(part) is None
    assert parts.tool_result(part) is None


def test_an_index_that_went_through_protobuf_is_an_integer_again() -> None:
    part = orjson.loads(b'{"text":"x","metadata":{"agui_block_index":2.0}}')
    assert parts.block_index(part) == 2


@pytest.mark.parametrize("stated", [{}, [1], 5, None, "text/plain"])
def test_a_part_that_is_not_of_a2ui_has_no_action_on_a_surface(stated: object) -> None:
    part = {"data": {"action": {"name": "send"}}, "metadata": {"mimeType": stated}}
    assert parts.surface_actions(part) == []
    assert parts.surface_actions(part | {"mediaType": "application/a2ui+json"}) == [
        {"name": "send"}
    ]
