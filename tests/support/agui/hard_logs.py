"""Regression logs: on these, which random draws seldom produce, the fold disagreed with clients."""

from headrace.model import parts
from headrace.model.events import Json
from tests.support.agui.logs import AguiLog, hinted

_CALL: Json = {"id": "call-x", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def result_of_a_call_made_twice() -> AguiLog:
    """Two messages of the agent's conversation made the call: clients take the first."""
    twice = [{"id": name, "role": "assistant", "toolCalls": [_CALL]} for name in ("s", "y")]
    log = AguiLog.started().say(parts.messages_part(twice))
    return log.say(parts.tool_result_part("call-x", None))


def activity_called_as_a_message_that_came_back() -> AguiLog:
    """The user's message was an activity in between, in what the next attempt took back."""
    activity = {"id": "u", "role": "activity", "activityType": "a", "content": {"n": 1}}
    log = AguiLog.started().say(parts.messages_part([activity]))
    log.begin_attempt()
    return log.say(hinted(parts.ACTIVITY_SNAPSHOT, {"list": []}, agui_block_id="u"))


HARD_LOGS = [result_of_a_call_made_twice(), activity_called_as_a_message_that_came_back()]
