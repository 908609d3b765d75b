"""What agents say to user interfaces, from their words to the AG-UI client's events."""

import orjson
import pytest

from headrace import (
    Activity,
    ActivityDelta,
    Custom,
    MalformedOutput,
    Messages,
    Raw,
    State,
    StateDelta,
    Step,
    Subagent,
    Text,
    Thinking,
    ToolArguments,
    ToolCall,
    Usage,
)
from headrace.model import parts
from headrace.model.events import Json
from headrace.sdk.emit import Output
from headrace_worker.blocks import RunIds
from headrace_worker.encoder import Encoder


def said(*utterances: Output) -> list[Json]:
    """Return the parts of what was said."""
    rendering = Encoder("t", "c", RunIds("t", 1))
    lines = [draft.line(1) for one in utterances for draft in rendering.drafts(one)]
    updates = [orjson.loads(line)["statusUpdate"] for line in lines]
    return [part for update in updates for part in update["status"]["message"]["parts"]]


@pytest.mark.parametrize(
    ("utterance", "kind", "data"),
    [
        (State({"n": 1}), parts.STATE_SNAPSHOT, {"n": 1}),
        (
            StateDelta([{"op": "add", "path": "/n", "value": 1}]),
            parts.STATE_DELTA,
            [{"op": "add", "path": "/n", "value": 1}],
        ),
        (Messages([{"id": "u"}]), parts.MESSAGES_SNAPSHOT, [{"id": "u"}]),
        (Activity("plan", {"steps": []}, "a"), parts.ACTIVITY_SNAPSHOT, {"steps": []}),
        (ActivityDelta("a", []), parts.ACTIVITY_DELTA, []),
        (Step("think"), parts.STEP_STARTED, {}),
        (Step("think", finished=True), parts.STEP_FINISHED, {}),
        (Subagent("refunds", "s1"), parts.SUBAGENT_STARTED, {"id": "s1", "name": "refunds"}),
        (
            Subagent("refunds", "s1", finished=True, suspended=True),
            parts.SUBAGENT_FINISHED,
            {"id": "s1", "name": "refunds", "outcome": "suspended"},
        ),
        (Custom("PredictState", [1]), parts.CUSTOM, [1]),
        (Raw({"x": 1}, "there"), parts.RAW, {"x": 1}),
        (
            Usage("m", reasoning_tokens=1, cached_input_tokens=2, cache_write_input_tokens=3),
            parts.USAGE,
            {
                "model": "m",
                "reasoningTokens": 1,
                "cachedInputTokens": 2,
                "cacheWriteInputTokens": 3,
            },
        ),
        (Usage("m", "p", 3), parts.USAGE, {"provider": "p", "model": "m", "inputTokens": 3}),
    ],
)
def test_each_signal_is_a_data_part_of_its_type(utterance: Output, kind: str, data: object) -> None:
    [part] = said(utterance)
    assert (parts.event_type(part), part["data"]) == (kind, data)


def test_an_activity_without_an_id_is_one_by_itself() -> None:
    first, second = said(Activity("plan", {}), Activity("plan", {}))
    assert parts.block_id(first) != parts.block_id(second)


def test_signals_leave_the_open_text_open() -> None:
    rendering = Encoder("t", "c", RunIds("t", 1))
    rendering.drafts(Text("Hel"))
    rendering.drafts(State({}))
    [more] = rendering.drafts(Text("lo"))
    assert orjson.loads(more.line(1))["artifactUpdate"]["append"] is True


def test_what_a_provider_wants_back_is_sealed_into_the_last_piece() -> None:
    thought, call = said(Thinking("Hm.", encrypted="s1"), ToolCall("f", {}, "c", encrypted="s2"))[
        :2
    ]
    assert [parts.encrypted_value(part) for part in (thought, call)] == ["s1", ""]
    [unsaid] = said(Thinking("", encrypted="s3", end=True))
    assert (unsaid["text"], parts.encrypted_value(unsaid)) == ("", "s3")
    *_, end = said(ToolArguments("c", "{}", "f"), ToolCall("f", {}, "c", encrypted="s4"))
    assert parts.encrypted_value(end) == "s4"


def test_what_is_no_string_where_one_belongs_is_malformed() -> None:
    with pytest.raises(MalformedOutput, match=r"Step\.name"):
        said(Step(3))  # type: ignore[arg-type]
