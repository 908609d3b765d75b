"""The events of AG-UI 1.0 and their fields, as in the protocol's own models."""

import re
from collections.abc import Callable
from typing import NamedTuple

type Test = Callable[[object], bool]

_TYPES: dict[str, Test] = {
    "str": lambda value: isinstance(value, str),
    "int": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "bool": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "list": lambda value: isinstance(value, list),
    "content": lambda value: isinstance(value, str | list),
    "any": lambda _: True,
}


class Field(NamedTuple):
    """One field of an event."""

    kind: str
    is_required: bool
    one_of: tuple[str, ...] = ()

    def fits(self, value: object) -> bool:
        """Return whether `value` is valid; clients treat null as absent where it is allowed."""
        if self.one_of:
            return value in self.one_of
        return _TYPES[self.kind](value)


_BASE = "timestamp:int? rawEvent:any? metadata:object?"
_ROLE = "role:developer|system|assistant|user?"
_MESSAGE_ID = "messageId:str"

_EVENTS = {
    "RUN_STARTED": "threadId:str runId:str protocolVersion:str? parentRunId:str? input:object?",
    "RUN_FINISHED": "threadId:str runId:str result:any? outcome:object? usage:list?",
    "RUN_ERROR": "message:str code:str? usage:list?",
    "STEP_STARTED": "stepName:str",
    "STEP_FINISHED": "stepName:str",
    "TEXT_MESSAGE_START": f"{_MESSAGE_ID} {_ROLE} name:str?",
    "TEXT_MESSAGE_CONTENT": f"{_MESSAGE_ID} delta:str",
    "TEXT_MESSAGE_END": _MESSAGE_ID,
    "TEXT_MESSAGE_CHUNK": f"messageId:str? {_ROLE} delta:str? name:str?",
    "TOOL_CALL_START": "toolCallId:str toolCallName:str parentMessageId:str?",
    "TOOL_CALL_ARGS": "toolCallId:str delta:str",
    "TOOL_CALL_END": "toolCallId:str",
    "TOOL_CALL_CHUNK": "toolCallId:str? toolCallName:str? parentMessageId:str? delta:str?",
    "TOOL_CALL_RESULT": f"{_MESSAGE_ID} toolCallId:str content:content role:tool?",
    "STATE_SNAPSHOT": "snapshot:any",
    "STATE_DELTA": "delta:list",
    "MESSAGES_SNAPSHOT": "messages:list",
    "ACTIVITY_SNAPSHOT": f"{_MESSAGE_ID} activityType:str content:object replace:bool?",
    "ACTIVITY_DELTA": f"{_MESSAGE_ID} activityType:str patch:list",
    "REASONING_START": _MESSAGE_ID,
    "REASONING_MESSAGE_START": f"{_MESSAGE_ID} role:reasoning?",
    "REASONING_MESSAGE_CONTENT": f"{_MESSAGE_ID} delta:str",
    "REASONING_MESSAGE_END": _MESSAGE_ID,
    "REASONING_MESSAGE_CHUNK": "messageId:str? delta:str?",
    "REASONING_END": _MESSAGE_ID,
    "REASONING_ENCRYPTED_VALUE": "subtype:tool-call|message entityId:str encryptedValue:str",
    "SUBAGENT_STARTED": "subagentRunId:str name:str description:str? parentSubagentRunId:str?"
    " parentToolCallId:str? parentMessageId:str?",
    "SUBAGENT_FINISHED": "subagentRunId:str result:any? outcome:object?",
    "SUBAGENT_ERROR": "subagentRunId:str message:str code:str?",
    "RAW": "event:any source:str?",
    "CUSTOM": "name:str value:any",
}
_DEPRECATED = {
    "THINKING_START": "title:str?",
    "THINKING_END": "",
    "THINKING_TEXT_MESSAGE_START": "",
    "THINKING_TEXT_MESSAGE_CONTENT": "delta:str",
    "THINKING_TEXT_MESSAGE_END": "",
}
"""0.x only."""

MODERN = frozenset({"SUBAGENT_STARTED", "SUBAGENT_FINISHED", "SUBAGENT_ERROR"})
"""1.0 only."""
DEPRECATED = frozenset(_DEPRECATED)

_OF_NO_SUBAGENT = re.compile(r"RUN_|MESSAGES_SNAPSHOT|SUBAGENT_|THINKING_")
_FIELD = re.compile(r"(\w+):([\w|-]+)(\??)")


def _fields(kind: str, description: str) -> dict[str, Field]:
    more = "" if _OF_NO_SUBAGENT.match(kind) else " subagentRunId:str?"
    return {
        name: _field(what, mark)
        for name, what, mark in _FIELD.findall(f"{description} {_BASE}{more}")
    }


def _field(what: str, mark: str) -> Field:
    if what in _TYPES:
        return Field(what, not mark)
    return Field("str", not mark, tuple(what.split("|")))


FIELDS: dict[str, dict[str, Field]] = {
    kind: _fields(kind, description) for kind, description in (_EVENTS | _DEPRECATED).items()
}
"""By type of event, its fields by name, without ``type``."""
