"""A conversation that the agent says as a whole."""

from typing import Any

import pytest

from headrace.model import parts
from headrace.model.events import Json
from headrace_gateway.protocols.agui.fold import UNREADABLE
from tests.support.agui.logs import AguiLog

USER: Json = {"id": "u", "role": "user", "content": "hello"}
ANSWER: Json = {"id": "a", "role": "assistant", "content": "hi"}


def test_a_message_is_rendered_unchanged_and_ends_open_items() -> None:
    log = AguiLog.started().show(parts.text_part("half", "x"))
    log.say(parts.step_part("one")).say(parts.messages_part([USER, ANSWER]))
    agui_events = log.end().agui_events()
    kinds = [event["type"] for event in agui_events]
    assert kinds.index("TEXT_MESSAGE_END") < kinds.index("MESSAGES_SNAPSHOT")
    assert kinds.index("MESSAGES_SNAPSHOT") < kinds.index("STEP_FINISHED")
    [snapshot] = [event for event in agui_events if event["type"] == "MESSAGES_SNAPSHOT"]
    assert snapshot["messages"] == [USER, ANSWER]


def test_a_block_that_has_a_message_in_it_goes_on_under_another_id() -> None:
    log = AguiLog.started().show(parts.text_part("half", "x"), artifact="x")
    log.say(parts.messages_part([{**ANSWER, "id": "x"}]))
    agui_events = (
        log.show(parts.text_part("more", "x"), artifact="x", append=True).end().agui_events()
    )
    assert [e["messageId"] for e in agui_events if e["type"] == "TEXT_MESSAGE_START"] == [
        "x",
        "x-text",
    ]


@pytest.mark.parametrize(
    "messages",
    ["none", [{"id": "x", "role": "nobody"}], [USER, USER], [{"role": "user", "content": "x"}]],
)
def test_events_outside_the_conversation_are_not_sent(messages: Any) -> None:  # noqa: ANN401
    agui_events = AguiLog.started().say(parts.messages_part(messages)).end().agui_events()
    assert [event["type"] for event in agui_events] == ["RUN_STARTED", "CUSTOM", "RUN_FINISHED"]
    assert agui_events[1]["name"] == UNREADABLE
