"""The conversation as models take it, from logs and from what AG-UI clients send."""

from collections.abc import Sequence

import pytest

from headrace import Data, File, Text, Thinking, ToolArguments, ToolCall, ToolResult
from headrace.adapters.conversation.of_client import turns_of_agui
from headrace.adapters.conversation.of_log import turns_of_log
from headrace.adapters.conversation.turns import (
    NAMES,
    RESPONSE,
    RESULT,
    CallItem,
    ReasoningItem,
    ResultItem,
    TextItem,
    Turn,
    Verbatim,
    answered,
    open_calls,
    without_restated,
)
from headrace.model import events, parts
from headrace.model.delegation import CHILD
from headrace.model.entry import Entry, Stamp
from headrace.model.events import Draft, Json
from headrace.model.run_ids import run_digest, unique_id
from headrace.model.task import AUTH_REQUIRED, COMPLETED, INPUT_REQUIRED, SUBMITTED, WORKING
from headrace.sdk.checkpoint import Checkpoint
from headrace.sdk.emit import Output
from headrace_worker.blocks import RunIds
from headrace_worker.encoder import Encoder

USER = {"messageId": "u", "role": "ROLE_USER", "parts": [{"text": "What is it?"}]}


class Log:
    """Builds a log, entry by entry."""

    def __init__(self, message: Json | None = None) -> None:
        self.entries: list[Entry] = []
        self._rendering = Encoder("t", "c", RunIds("t", 1))
        self.append(events.task_submitted("t", "c", message or USER))

    def append(self, *drafts: Draft, checkpoint: object = None) -> None:
        """Append one entry."""
        first = self.entries[-1].last_generation + 1 if self.entries else 1
        held = None if checkpoint is None else Checkpoint(checkpoint).encode()
        stamp = Stamp("log", first, "w", WORKING, 1, 1, checkpoint=held)
        lines = [draft.line(first + at) for at, draft in enumerate(drafts)]
        self.entries.append(Entry(stamp, lines, first, "2026-01-01T00:00:00Z"))

    def say(self, *output: Output, checkpoint: object = None) -> None:
        """Append what an agent says."""
        drafts = [draft for each in output for draft in self._rendering.drafts(each)]
        if checkpoint is not None:
            drafts += self._rendering.checkpoint()
        self.append(*drafts, checkpoint=checkpoint)

    def status(self, state: str, message: Json | None = None, **metadata: object) -> None:
        """Append a status."""
        named = {f"headrace.{key}": value for key, value in metadata.items()}
        self.append(events.status_update("t", "c", state, message, named))

    @property
    def turns(self) -> list[Turn]:
        """The conversation."""
        return turns_of_log(self.entries)


def shape(turns: Sequence[Turn]) -> list[object]:
    """Return roles and texts; of the agent, the kinds of what it said too."""
    return [
        (turn.role, [type(item).__name__ for item in turn.items], turn.text)
        if turn.role == "assistant"
        else (turn.role, turn.result.content if turn.result else turn.text)
        for turn in turns
    ]


def test_what_an_agent_emitted_stays_in_its_order() -> None:
    log = Log()
    log.say(Thinking("Hm.", encrypted="s"), Text("Let me "), Text("see."))
    log.say(ToolArguments("c1", '{"a": ', "look"), ToolArguments("c1", "1}", end=True))
    log.say(ToolCall("look", {"a": 2}, "c2"), ToolResult("c2", "dog"), ToolResult("c1", "cat"))
    log.say(Text("A cat."), Data({"runs": 4}, "facts", id="d"), File("a.png", b"x", "image/png"))
    log.status(COMPLETED)
    assert shape(log.turns) == [
        ("user", "What is it?"),
        ("assistant", ["ReasoningItem", "TextItem", "CallItem", "CallItem"], "Let me see."),
        ("tool", "dog"),
        ("tool", "cat"),
        ("assistant", ["TextItem", "ResultItem", "ResultItem"], "A cat."),
    ]
    _, first, _, _, last = log.turns
    assert isinstance(first.items[0], ReasoningItem)
    assert (first.items[0].text, first.items[0].encrypted) == ("Hm.", "s")
    assert first.calls[0] == CallItem("c1", "look", {"a": 1}, '{"a": 1}')
    assert last.items[1] == ResultItem(
        {"data": {"runs": 4}, "mediaType": "application/json"}, "d", "facts"
    )
    assert [turn.id for turn in log.turns][2] == "c2-result"
    assert {(turn.task, turn.run) for turn in log.turns} == {("t", 1)}


def test_what_delegated_tasks_emitted_is_none_of_their_parents_conversation() -> None:
    log = Log()
    text = {"messageId": "x", "role": "ROLE_AGENT", "parts": [{"text": "child"}]}
    request = {"messageId": "y", "role": "ROLE_USER", "parts": [{"text": "parent asks"}]}
    for message in (text, request):
        log.status(WORKING, message, child={"task": "k"})
    part = parts.text_part("child's answer", "b")
    metadata = {CHILD: {"task": "k"}}
    log.append(
        events.artifact_update("t", "c", {"artifactId": "b", "parts": [part]}, metadata=metadata)
    )
    log.say(Text("Mine."))
    assert shape(log.turns) == [("user", "What is it?"), ("assistant", ["TextItem"], "Mine.")]


def test_a_discarded_attempt_has_emitted_nothing_but_messages_that_came_stay() -> None:
    log = Log()
    log.say(Text("kept"), checkpoint={RESPONSE: {}})
    log.say(ToolCall("f", {}, "c"), ToolResult("c", "lost"))
    kept = log.entries[1].last_generation
    log.status(WORKING, attempt=2, discardedAfter=kept)
    log.say(Text("new"))
    assert shape(log.turns) == [
        ("user", "What is it?"),
        ("assistant", ["TextItem"], "kept"),
        ("assistant", ["TextItem"], "new"),
    ]


def test_ids_of_an_agents_messages_are_read_without_fields_that_a_later_version_stores() -> None:
    log = Log()
    log.say(Text("a"), checkpoint={NAMES: {"text": ["m1"], "later": True}})
    [item] = turns_of_log(log.entries)[-1].items
    assert isinstance(item, TextItem)
    assert item.origin == "m1"


def test_a_response_that_was_kept_is_verbatim_and_the_next_is_another() -> None:
    log = Log()
    log.say(Text("a"), checkpoint={RESPONSE: {"format": "x", "response": {"n": 1}}})
    log.say(Text("b"), checkpoint={RESPONSE: {"format": "x", "link": "headrace-file:a"}})
    log.say(Text("c"), checkpoint={"an agent's": "own"})
    log.say(Text("d"))
    outputs = [turn for turn in log.turns if turn.role == "assistant"]
    assert [(turn.text, turn.verbatim) for turn in outputs] == [
        ("a", Verbatim("x", {"n": 1})),
        ("b", Verbatim("x", None, "headrace-file:a")),
        ("cd", None),
    ]
    assert [turn.is_complete for turn in outputs] == [True, True, False]


def test_follow_ups_questions_and_steering_are_turns_and_credentials_are_not() -> None:
    log = Log()
    log.say(Text("Hello."))
    asks = {"messageId": "q", "role": "ROLE_AGENT", "parts": [{"text": "Which?"}]}
    log.status(INPUT_REQUIRED, asks)
    log.status(SUBMITTED, {"messageId": "f", "role": "ROLE_USER", "parts": [{"text": "That."}]})
    wants = {"messageId": "w", "role": "ROLE_AGENT", "parts": [{"text": "Log in"}]}
    log.status(AUTH_REQUIRED, wants)
    secret = {"messageId": "s", "role": "ROLE_USER", "parts": [{"text": "hunter2"}]}
    queued = events.queued("t", "c", AUTH_REQUIRED, secret, {}, "n")
    log.append(queued)
    log.status(WORKING, secret, taken=log.entries[-1].generation)
    steer = {"messageId": "x", "role": "ROLE_USER", "parts": [{"text": "Be quick."}]}
    log.append(events.queued("t", "c", WORKING, steer, {}, "m"))
    log.status(WORKING, steer, taken=log.entries[-1].generation)
    assert shape(log.turns) == [
        ("user", "What is it?"),
        ("assistant", ["TextItem", "TextItem"], "Hello.Which?"),
        ("user", "That."),
        ("user", "Be quick."),
    ]
    assert [turn.run for turn in log.turns] == [1, 1, 4, 4]


def test_the_prompt_of_an_approval_is_none_of_the_models_words() -> None:
    log = Log()
    log.say(ToolCall("refund", {}, "c1"))
    asks = {"messageId": "q", "role": "ROLE_AGENT", "parts": [{"text": "Approve?"}]}
    log.status(INPUT_REQUIRED, asks, interrupts=[{"id": "c1", "toolCallId": "c1"}])
    assert shape(log.turns)[1:] == [("assistant", ["CallItem"], "")]


def test_an_artifact_that_begins_anew_replaces_what_it_emitted() -> None:
    log = Log()
    log.say(File("a.png", b"old", "image/png", id="f"), Text("See."))
    log.say(File("b.png", b"new", "image/png", id="f"))
    [_, output] = log.turns
    assert [getattr(item, "name", "words") for item in output.items] == ["words", "b.png"]


def test_open_calls_stay_open_until_a_framework_wants_them_answered() -> None:
    log = Log()
    log.say(ToolCall("f", {}, "c1"), ToolCall("g", {}, "c2"), ToolResult("c1", "x"))
    assert [call.id for call in open_calls(log.turns)] == ["c2"]
    log.status(SUBMITTED, {"messageId": "f", "role": "ROLE_USER", "parts": [{"text": "No."}]})
    roles = [(turn.role, turn.result and turn.result.error) for turn in answered(log.turns)]
    assert roles[2:] == [("tool", ""), ("tool", "there was no answer"), ("user", None)]
    stray = Turn("tool", result=parts.ToolResultPart("?", "", "", is_error=False))
    assert answered([stray]) == []


def test_results_are_in_the_order_of_their_calls_whichever_came_first() -> None:
    log = Log()
    log.say(ToolCall("f", {}, "c1"), ToolCall("g", {}, "c2"), ToolCall("h", {}, "c3"))
    log.say(ToolResult("c3", "z"), ToolResult("c1", "x"))
    results = [turn.result for turn in answered(log.turns) if turn.result is not None]
    assert [(one.id, one.content, bool(one.error)) for one in results] == [
        ("c1", "x", False),
        ("c2", "", True),
        ("c3", "z", False),
    ]


IMAGE = {"type": "image", "source": {"type": "data", "value": "cG5n", "mimeType": "image/png"}}


def test_an_agui_clients_messages_keep_their_images_and_reasoning() -> None:
    turns = turns_of_agui(
        [
            {"id": "1", "role": "developer", "content": "Be kind."},
            {"id": "2", "role": "user", "content": [{"type": "text", "text": "See"}, IMAGE]},
            {"id": "3", "role": "reasoning", "content": "Hm.", "encryptedValue": "s"},
            {"id": "4", "role": "assistant", "content": "A cat."},
            {"id": "5", "role": "assistant"},
            {"id": "6", "role": "activity", "content": {}},
            {"id": "7", "role": "user"},
        ],
        [{"text": "And this?"}],
    )
    assert shape(turns) == [
        ("system", "Be kind."),
        ("user", "See"),
        ("assistant", ["ReasoningItem", "TextItem"], "A cat."),
        ("user", "And this?"),
    ]
    assert turns[1].parts[1]["raw"] == "cG5n"
    assert turns[2].items[0] == ReasoningItem("Hm.", "3", "s")


def test_a_response_of_which_an_agui_client_has_a_message_is_taken_from_the_log() -> None:
    log = Log()
    log.say(Thinking("Hm."), Text("I look."), ToolCall("look", {"a": 1}, "c1"))
    log.say(checkpoint={RESPONSE: {"format": "x", "response": 1}})
    known = log.turns
    words = next(item for item in known[1].items if isinstance(item, TextItem))
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"a":1}'}}
    output: Json = {"id": words.id, "role": "assistant", "content": "I look.", "toolCalls": [call]}
    user = {"id": "2", "role": "user"}
    [same, _] = turns_of_agui([output, user], [{"text": "x"}], known)
    assert same is known[1]
    for cut in ({**output, "content": "I lo"}, {"id": words.id, "role": "assistant"}):
        [same, _] = turns_of_agui([cut, user], [{"text": "x"}], known)
        assert same is known[1]
    [own, _] = turns_of_agui([{**output, "id": "other", "toolCalls": []}, user], [], known)
    assert (own.text, own.verbatim) == ("I look.", None)


def test_what_an_agui_client_has_not_received_of_a_run_follows_what_it_has() -> None:
    log = Log()
    log.say(Text("I look."), ToolCall("look", {}, "c1"), ToolResult("c1", "x"), Text("Found."))
    known = log.turns
    words = next(item for item in known[1].items if isinstance(item, TextItem))
    cut = {"id": words.id, "role": "assistant", "content": "I lo"}
    asked = {"id": "2", "role": "user", "content": "And?"}
    turns = turns_of_agui([cut, asked], [], known)
    assert shape(turns) == [*shape(known[1:]), ("user", "And?")]
    assert turns_of_agui([asked], [], known)[0].text == "And?"


def test_what_the_log_has_is_in_a_conversation_once_however_often_a_client_names_it() -> None:
    log = Log()
    log.say(Text("long " * 1000), ToolCall("look", {}, "c1"), ToolResult("c1", "x" * 1000))
    log.say(Text("Found."))
    known = log.turns
    texts = [item.id for turn in known for item in turn.items if isinstance(item, TextItem)]
    answer, found = ({"id": name, "role": "assistant", "content": "l"} for name in texts)
    asked = {"id": "2", "role": "user", "content": "And?"}
    result = {"id": "r", "role": "tool", "toolCallId": "c1", "content": "x"}
    turns = turns_of_agui([answer, result, found, *[asked, answer, result, found] * 50], [], known)
    assert shape(turns) == [*shape(known[1:]), *[("user", "And?")] * 50]


def test_a_call_whose_id_recurs_is_found_by_the_id_that_the_client_received() -> None:
    log = Log()
    for number in (1, 2):
        log.say(ToolCall("look", {"n": number}, "c1"), ToolResult("c1", number))
    known = log.turns
    digest = run_digest(known[1].task, known[1].run)
    second = unique_id("c1", digest, 2)
    call = {"id": second, "type": "function", "function": {"name": "?", "arguments": "{}"}}
    messages: list[Json] = [
        {"id": "m", "role": "assistant", "toolCalls": [call]},
        {"id": "r", "role": "tool", "toolCallId": second, "content": "cut"},
    ]
    called, result = turns_of_agui(messages, [], known)
    assert [(item.id, item.arguments) for item in called.calls] == [("c1", {"n": 2})]
    assert result.result is not None
    assert (result.result.id, result.result.content) == ("c1", 2)


def test_calls_that_no_log_knows_get_the_agents_ids_again() -> None:
    name = unique_id("c1", run_digest("t", 1))
    call = {"id": name, "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages: list[Json] = [
        {"id": "m", "role": "assistant", "toolCalls": [call]},
        {"id": "r", "role": "tool", "toolCallId": name, "content": "x"},
    ]
    called, result = turns_of_agui(messages, [])
    assert called.calls[0].id == "c1"
    assert result.result is not None
    assert result.result.id == "c1"


def test_a_message_that_the_agent_itself_has_set_since_is_the_clients() -> None:
    log = Log()
    log.say(Text("Long answer."))
    words = log.turns[1].items[0]
    assert isinstance(words, TextItem)
    short = {"id": words.id, "role": "assistant", "content": "Short."}
    [turn] = turns_of_agui([short], [], log.turns, {words.id})
    assert turn.text == "Short."


def test_arguments_that_a_run_left_unfinished_are_none_of_a_later_call_with_that_id() -> None:
    """Many models number their calls anew in each turn, and a message may cut a turn off."""
    log = Log()
    log.say(ToolArguments("call_1", '{"city": "Ro', "weather"))
    log.status(COMPLETED)
    log.status(SUBMITTED, USER)
    log.say(ToolArguments("call_1", '{"city": "Paris"}', "weather", end=True))
    [call] = log.turns[-1].calls
    assert call == CallItem("call_1", "weather", {"city": "Paris"}, '{"city": "Paris"}')


def test_what_a_tool_emits_itself_follows_its_result() -> None:
    log = Log()
    call, other = (ToolCall("draw", {}, name) for name in ("c1", "c2"))
    log.say(call, other, checkpoint={RESPONSE: {}})
    log.say(File("a.png", b"png", "image/png"))
    log.say(ToolResult("c1", "drawn"), checkpoint={RESULT: {"format": "f", "response": "kept"}})
    log.say(ToolResult("c2", "drawn, too"))
    log.say(Text("There."))
    turns = answered(log.turns)
    assert shape(turns[1:]) == [
        ("assistant", ["CallItem", "CallItem"], ""),
        ("tool", "drawn"),
        ("tool", "drawn, too"),
        ("assistant", ["ResultItem", "TextItem"], "There."),
    ]
    assert turns[2].verbatim == Verbatim("f", "kept")


def test_what_is_made_of_a_saved_response_is_not_the_models() -> None:
    log = Log()
    log.say(Text("six"), checkpoint={RESPONSE: {"format": "f", "response": "six"}})
    log.say(Data({"sides": 6}))
    assert without_restated(log.turns) == log.turns, "the run may still go on"
    log.status(COMPLETED)
    assert shape(without_restated(log.turns)[1:]) == [("assistant", ["TextItem"], "six")]


@pytest.mark.parametrize("saved", [None, {RESPONSE: {}}], ids=["no response", "its calls"])
def test_an_answer_that_nothing_was_saved_of_stays(saved: Json | None) -> None:
    log = Log()
    log.say(ToolCall("draw", {}, "c1"), checkpoint=saved)
    log.say(ToolResult("c1", "drawn"), Text("There."))
    log.status(COMPLETED)
    assert without_restated(log.turns) == log.turns
