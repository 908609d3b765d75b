"""What an agent says becomes the events that the design's table names."""

from collections.abc import Iterable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import Data, File, Status, Text, Thinking, ToolArguments, ToolCall, ToolResult
from headrace.model import json_text, parts
from headrace.model.events import Draft, Json
from headrace.sdk.emit import Output
from headrace.sdk.errors import MalformedOutput
from headrace_worker.blocks import RunIds
from headrace_worker.encoder import PIECE, Encoder

type Emitted = str | Output


def rendering(run: int = 1) -> Encoder:
    return Encoder("0-task", "ctx", RunIds("0-task", run))


def say(render: Encoder, *output: Emitted) -> list[Json]:
    """Return the events of `output`, as the voice gets them."""
    drafts: list[Draft] = []
    for one in output:
        chunk = render.chunk(one) if isinstance(one, str) else None
        if chunk is not None:
            drafts.append(chunk)
        else:
            drafts += render.drafts(Text(one) if isinstance(one, str) else one)
    return [orjson.loads(draft.line(n)) for n, draft in enumerate(drafts, 1)]


def updates(events: Iterable[Json]) -> list[tuple[str, bool, str, Any]]:
    """Return artifact id, append, text and block end of each artifact update."""
    found = []
    for event in events:
        if update := event.get("artifactUpdate"):
            [part] = update["artifact"]["parts"]
            end = part.get("metadata", {}).get("agui_block_end")
            appended = update.get("append", False)
            found.append((update["artifact"]["artifactId"], appended, part.get("text"), end))
    return found


def message(event: Json) -> Json:
    found: Json = event["statusUpdate"]["status"]["message"]
    return found


def test_a_stream_of_text_is_one_artifact_whose_first_chunk_does_not_append() -> None:
    output = updates(say(rendering(), "a", "b", "c"))
    assert [(append, text) for _, append, text, _ in output] == [
        (False, "a"),
        (True, "b"),
        (True, "c"),
    ]
    assert len({artifact for artifact, *_ in output}) == 1


def test_the_quick_way_and_the_slow_way_have_the_same_result() -> None:
    quick = say(rendering(), "a", "b", 'c"\n\u2028é')
    slow = say(rendering(), Text("a"), Text("b"), Text('c"\n\u2028é'))
    assert quick == slow


CUTS = [
    (["cut \ud83d", "\ude00 after"], "cut \U0001f600 after"),
    (["\ud83d", "\ude00"], "\U0001f600"),
    (["a", "\ud83d", "", "\ude00", "b"], "a\U0001f600b"),
    (["a\ud83d", "b"], "a\ufffdb"),
    (["a", "\ude00b"], "a\ufffdb"),
    (["\ud83d", "\ud83d\ude00"], "\ufffd\U0001f600"),
    (["a\ud83d"], "a\ufffd"),
    (["file \udce9.txt"], "file \ufffd.txt"),
    (["x" * (PIECE - 1) + "\ud83d\ude00"], "x" * (PIECE - 1) + "\U0001f600"),
]


def at_its_end(render: Encoder, *output: Emitted) -> list[Json]:
    """Return the events of `output` if the run ends behind it."""
    events = say(render, *output)
    return events + [orjson.loads(draft.line(99)) for draft in render.last_halves()]


@pytest.mark.parametrize(("pieces", "expected"), CUTS)
def test_a_character_that_a_model_cuts_is_whole_in_the_text(
    pieces: list[str], expected: str
) -> None:
    for output in (pieces, [Text(one) for one in pieces], [Text(one, "b") for one in pieces]):
        chunks = updates(at_its_end(rendering(), *output))
        assert "".join(text for _, _, text, _ in chunks) == expected
        assert [append for _, append, *_ in chunks] == [False] + [True] * (len(chunks) - 1)


@pytest.mark.parametrize(("pieces", "expected"), CUTS)
def test_a_character_that_a_model_cuts_is_whole_in_reasoning_and_arguments(
    pieces: list[str], expected: str
) -> None:
    thoughts = at_its_end(rendering(), *(Thinking(one) for one in pieces))
    arguments = at_its_end(rendering(), *(ToolArguments("c", one, "tool") for one in pieces))
    for said in (thoughts, arguments):
        found = [message(event)["parts"][0]["text"] for event in said]
        assert "".join(found) == expected
        assert len({message(event)["messageId"] for event in said}) == 1


@pytest.mark.parametrize(
    "following",
    [Text("", end=True), Text("other", block="another"), Thinking("hm"), Data(1), Text("x" * 9)],
)
def test_half_a_character_waits_for_no_other_block(following: Output) -> None:
    events = at_its_end(rendering(), "a\ud83d", following)
    first = updates(events)[0][0]
    text = [text for artifact, _, text, _ in updates(events) if artifact == first]
    assert "".join(text).startswith("a\ufffd")
    assert "\ud83d" not in str(events)


def test_a_checkpoint_and_a_new_block_complete_what_was_cut() -> None:
    render = rendering()
    events = say(render, "a\ud83d")
    drafts = render.checkpoint()
    events += [orjson.loads(draft.line(9)) for draft in drafts]
    assert [(text, end) for _, _, text, end in updates(events)] == [("a", None), ("\ufffd", True)]
    assert render.last_halves() == []


@pytest.mark.parametrize(
    "output",
    [
        ToolCall("t\ud83d", {"\udc00": "\ud83d"}, id="c\ud83d"),
        ToolResult("c", ["file \udce9.txt"]),
        ToolResult("c", error="\ud83d"),
        Data({"x": "\ud83d\ude00", "\udc00": 1}, name="\udce9"),
        File("\udce9.txt", b"x"),
        Status("\ud83d"),
    ],
)
def test_any_output_with_half_a_character_has_its_event(output: Output) -> None:
    [event] = say(rendering(), output)
    assert "\ufffd" in str(event) or "\U0001f600" in str(event)


def test_the_block_is_named_on_the_artifact_and_on_each_part() -> None:
    output = say(rendering(), "a", "b")
    assert len(output) == 2
    for event in output:
        artifact = event["artifactUpdate"]["artifact"]
        assert parts.block_id(artifact["parts"][0]) == artifact["artifactId"]


def test_no_output_is_no_event() -> None:
    assert say(rendering(), "", Text(""), Text("", end=True), Thinking("")) == []


def test_text_after_a_tools_answer_is_a_new_block_and_ends_the_former() -> None:
    output = say(
        rendering(), "let me look", ToolCall("f", {}, "c1"), ToolResult("c1", "ok"), "found"
    )
    first, end, second = updates(output)
    assert first[1:] == (False, "let me look", None)
    assert end == (first[0], True, "", True)
    assert second[1:] == (False, "found", None)
    assert second[0] != first[0]
    assert output[3]["artifactUpdate"]["lastChunk"] is True


@pytest.mark.parametrize("between", [File("f", b"x"), Data({"n": 1}), Status("working")])
def test_files_data_and_status_do_not_cut_text(between: Output) -> None:
    output = say(rendering(), "a", between, "b")
    texts = [(append, text) for _, append, text, _ in updates(output) if text]
    assert texts == [(False, "a"), (True, "b")]


def test_labelled_blocks_interleave() -> None:
    output = updates(
        say(
            rendering(),
            Text("a1", block="a"),
            Text("b1", block="b"),
            "plain ",
            Text("a2", block="a", end=True),
            "text",
            Text("b2", block="b"),
        )
    )
    by_artifact: dict[str, str] = {}
    for artifact, append, text, _ in output:
        by_artifact[artifact] = by_artifact.get(artifact, "") + text
        assert append is (by_artifact[artifact] != text)
    assert list(by_artifact.values()) == ["a1a2", "b1b2", "plain text"]
    assert [text for *_, text, end in output if end] == ["a2"]


@pytest.mark.parametrize("again", [Text("more", block="a"), Text("", block="a", end=True)])
def test_an_ended_block_takes_no_more_text_and_no_other_end(again: Text) -> None:
    render = rendering()
    say(render, Text("x", block="a", end=True))
    with pytest.raises(MalformedOutput, match="'a' has ended"):
        render.drafts(again)


def test_reasoning_is_pieces_of_one_message() -> None:
    output = say(rendering(), Thinking("Hm, ", title="Planning"), Thinking("yes."))
    assert len({message(event)["messageId"] for event in output}) == 1
    assert {event["statusUpdate"]["status"]["state"] for event in output} == {"TASK_STATE_WORKING"}
    assert parts.thinking_of(message(e)["parts"][0] for e in output) == "Hm, yes."
    assert {message(e)["parts"][0]["metadata"]["title"] for e in output} == {"Planning"}
    assert parts.block_id(message(output[0])["parts"][0]) == message(output[0])["messageId"]


@pytest.mark.parametrize("next_", ["so", ToolCall("f"), ToolResult("c", "x")])
def test_reasoning_ends_where_something_else_begins(next_: Emitted) -> None:
    output = say(rendering(), Thinking("Hm."), next_)
    [part] = message(output[1])["parts"]
    assert (part["text"], parts.is_block_end(part)) == ("", True)
    assert message(output[1])["messageId"] == message(output[0])["messageId"]
    assert len(output) == 3


def test_reasoning_that_the_agent_ended_is_not_ended_again() -> None:
    output = say(rendering(), Thinking("Hm.", end=True), "so")
    assert len(output) == 2
    assert parts.is_block_end(message(output[0])["parts"][0])


def test_a_tool_call_without_an_id_gets_one() -> None:
    first, second = say(rendering(), ToolCall("f", {"x": 1}), ToolCall("f", {"x": 2}))
    calls = [parts.tool_call(message(event)["parts"][0]) for event in (first, second)]
    assert all(calls)
    assert len({call.id for call in calls if call}) == 2
    assert message(first)["messageId"] != message(second)["messageId"]


def test_streamed_arguments_are_partial_pieces_of_one_message() -> None:
    output = say(
        rendering(),
        ToolArguments("c1", '{"a":', "f"),
        ToolArguments("c1", "1}"),
        ToolCall("f", {"a": 1}, "c1"),
    )
    assert len({message(event)["messageId"] for event in output}) == 1
    pieces = [message(event)["parts"][0] for event in output]
    assert "".join(part["text"] for part in pieces) == '{"a":1}'
    assert all(parts.is_partial_tool_call(part) for part in pieces)
    assert {parts.tool_name(part) for part in pieces} == {"f"}
    assert [parts.is_block_end(part) for part in pieces] == [False, False, True]


def test_a_file_is_an_artifact_of_one_chunk() -> None:
    [event] = say(rendering(), File("a.txt", b"hi", "text/plain"))
    update = event["artifactUpdate"]
    assert update["lastChunk"] is True
    assert update["artifact"]["name"] == "a.txt"
    assert update["artifact"]["parts"] == [
        {"raw": "aGk=", "filename": "a.txt", "mediaType": "text/plain"}
    ]


def test_a_second_result_of_one_id_replaces_the_first() -> None:
    output = say(rendering(), Data({"v": 1}, id="report"), Data({"v": 2}, id="report"))
    assert [(artifact, append) for artifact, append, *_ in updates(output)] == [
        ("report", False),
        ("report", False),
    ]


def test_ids_are_the_same_in_each_attempt_and_others_in_each_run() -> None:
    script: list[Emitted] = ["a", ToolCall("f"), Thinking("t"), File("f", b""), "b"]
    assert _ids(say(rendering(), *script)) == _ids(say(rendering(), *script))
    assert not _ids(say(rendering(1), *script)) & _ids(say(rendering(2), *script))


def test_block_indices_count_up() -> None:
    output = say(rendering(), Thinking("t", end=True), "a", ToolCall("f"), "b")
    indices = [
        parts.block_index(part)
        for event in output
        for part in event.get("artifactUpdate", {}).get("artifact", {}).get("parts", [])
        or message(event)["parts"]
        if parts.block_id(part)
    ]
    assert indices == [0, 1, 1, 2]


@given(st.text(min_size=1, max_size=50), st.integers(0, 3))
def test_any_text_arrives_as_it_was_emitted(text: str, repeats: int) -> None:
    output = updates(say(rendering(), *([text] * (repeats + 1))))
    assert "".join(chunk for _, _, chunk, _ in output) == text * (repeats + 1)


def test_long_arguments_are_cut_into_pieces_and_sealed_with_the_last() -> None:
    whole = "x" * (2 * PIECE + 1)
    output = say(rendering(), ToolArguments("c", whole, "f", end=True, encrypted="seal"))
    assert len({message(event)["messageId"] for event in output}) == 1
    pieces = [message(event)["parts"][0] for event in output]
    assert [piece["text"] for piece in pieces] == ["x" * PIECE, "x" * PIECE, "x"]
    ends = [parts.is_block_end(piece) for piece in pieces]
    sealed = ["seal" in piece["metadata"].values() for piece in pieces]
    assert ends == sealed == [False, False, True]


def test_a_call_with_long_arguments_is_cut_into_pieces_as_often_as_its_id_recurs() -> None:
    arguments = {"text": "ä" * PIECE, "number": 2**64, "none": None}
    rendered = rendering()
    for number in range(2):
        output = say(rendered, ToolCall("f", arguments, "c", encrypted="seal"))
        [name] = {message(event)["messageId"] for event in output}
        assert name.endswith(f"-{number}")
        pieces = [message(event)["parts"][0] for event in output]
        assert [len(piece["text"]) <= PIECE for piece in pieces] == [True, True]
        assert {parts.tool_name(piece) for piece in pieces} == {"f"}
        assert [parts.is_block_end(piece) for piece in pieces] == [False, True]
        assert "seal" in pieces[-1]["metadata"].values()
        assert json_text.decode("".join(piece["text"] for piece in pieces).encode()) == arguments


def test_long_text_is_cut_into_pieces() -> None:
    output = updates(say(rendering(), "x" * (2 * PIECE + 1), "y" * (PIECE + 1)))
    assert [len(text) for _, _, text, _ in output] == [PIECE, PIECE, 1, PIECE, 1]
    assert [append for _, append, _, _ in output] == [False, True, True, True, True]


def _ids(events: list[Json]) -> set[str]:
    return {
        event["artifactUpdate"]["artifact"]["artifactId"]
        if "artifactUpdate" in event
        else message(event)["messageId"]
        for event in events
    }
