"""What a bare Message may contain: its end is none to readers if they can't read it."""

import orjson
import pytest

from headrace import Message
from headrace.model.change import read_change
from headrace.model.events import Json
from headrace.sdk.errors import MalformedOutput
from headrace_worker.blocks import RunIds
from headrace_worker.encoder import Endings

ENDINGS = Endings("t", "c", RunIds("t", 1))


@pytest.mark.parametrize(
    "part", [{"text": None}, {"text": 42}, {"text": "x", "metadata": []}, {"kind": "text"}, "x"]
)
@pytest.mark.parametrize("build", [ENDINGS.of, ENDINGS.completed_with])
def test_parts_that_readers_would_not_take_are_malformed(build: object, part: Json) -> None:
    assert callable(build)
    with pytest.raises(MalformedOutput, match=r"parts\[1\]"):
        build(Message("hi", [part]))


def test_a_message_of_nothing_is_malformed() -> None:
    with pytest.raises(MalformedOutput, match="a text or parts"):
        ENDINGS.of(Message())


def test_text_and_parts_are_the_answer() -> None:
    end = ENDINGS.of(Message("hi", [{"data": {"n": 1}}]))
    answer = read_change(orjson.loads(end.draft.line(1)), 1).answer
    assert answer is not None
    assert answer["parts"] == [{"text": "hi"}, {"data": {"n": 1}}]
