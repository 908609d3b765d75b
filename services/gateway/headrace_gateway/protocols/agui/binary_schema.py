"""The protocol's binary messages: their fields, as @ag-ui/proto 1.0.0 numbers them.

A field reads ``name:number kind``, with ``?`` if it may be missing (null is missing), ``!`` if null
is a value of it, ``*`` if it repeats. Strings need no kind. `value` is any JSON, `object` a JSON
object.
"""

MESSAGES = {
    "BaseEvent": "type:1 enum, timestamp:2 int?, rawEvent:3 value?, metadata:4 object?",
    "JsonPatchOperation": "op:1 enum, path:2, from:3?, value:4 value!",
    "Usage": """provider:1?, model:2?, inputTokens:3 int?, outputTokens:4 int?, totalTokens:5 int?,
        reasoningTokens:6 int?, cachedInputTokens:7 int?, cacheWriteInputTokens:8 int?""",
    "Interrupt": """id:1, reason:2, message:3?, toolCallId:4?, responseSchema:5 value?,
        expiresAt:6?, metadata:7 value?, subagentRunId:8?""",
    "DataSource": "value:1, mimeType:2",
    "UrlSource": "value:1, mimeType:2?",
    "FileSource": "value:1, provider:2?, mimeType:3?",
    "Source": "data:1 DataSource?, url:2 UrlSource?, file:3 FileSource?",
    "Text": "text:1, id:2?, metadata:3 value?",
    "Media": "source:1 Source?, metadata:2 value?, id:3?",
    "Content": "text:1 Text?, image:2 Media?, audio:3 Media?, video:4 Media?, document:5 Media?",
    "Function": "name:1, arguments:2",
    "ToolCall": "id:1, type:2, function:3 Function?, metadata:4 object?, encryptedValue:5?",
    "Message": """id:1, role:2, content:3?, name:4?, toolCalls:5 ToolCall*, toolCallId:6?, error:7?,
        contentParts:8 Content*, metadata:9 object?, subagentRunId:10?, encryptedValue:11?,
        activityType:12?, activityContent:13 object?""",
}
"""Everything that events are made of."""

EVENTS = (
    ("TEXT_MESSAGE_START", 0, 1, "messageId:2, role:3?, name:4?, subagentRunId:5?"),
    ("TEXT_MESSAGE_CONTENT", 1, 2, "messageId:2, delta:3, subagentRunId:4?"),
    ("TEXT_MESSAGE_END", 2, 3, "messageId:2, subagentRunId:3?"),
    (
        *("TOOL_CALL_START", 3, 4),
        "toolCallId:2, toolCallName:3, parentMessageId:4?, subagentRunId:5?",
    ),
    ("TOOL_CALL_ARGS", 4, 5, "toolCallId:2, delta:3, subagentRunId:4?"),
    ("TOOL_CALL_END", 5, 6, "toolCallId:2, subagentRunId:3?"),
    ("STATE_SNAPSHOT", 6, 7, "snapshot:2 value!, subagentRunId:3?"),
    ("STATE_DELTA", 7, 8, "delta:2 JsonPatchOperation*, subagentRunId:3?"),
    ("MESSAGES_SNAPSHOT", 8, 9, "messages:2 Message*"),
    ("RAW", 9, 10, "event:2 value!, source:3?, subagentRunId:4?"),
    ("CUSTOM", 10, 11, "name:2, value:3 value!, subagentRunId:4?"),
    ("RUN_STARTED", 11, 12, "threadId:2, runId:3, parentRunId:4?, protocolVersion:6?"),
    (
        *("RUN_FINISHED", 12, 13),
        """threadId:2, runId:3, result:4 value?, outcome:5, interrupts:6 Interrupt*, usage:7 Usage*,
        pendingToolCallIds:8*""",
    ),
    ("RUN_ERROR", 13, 14, "code:2?, message:3, usage:4 Usage*"),
    ("STEP_STARTED", 14, 15, "stepName:2, subagentRunId:3?"),
    ("STEP_FINISHED", 15, 16, "stepName:2, subagentRunId:3?"),
    (
        *("SUBAGENT_STARTED", 16, 19),
        """subagentRunId:2, name:3, description:4?, parentSubagentRunId:5?, parentToolCallId:6?,
        parentMessageId:7?""",
    ),
    ("SUBAGENT_FINISHED", 17, 20, "subagentRunId:2, result:3 value?, outcome:4, interruptIds:5*"),
    ("SUBAGENT_ERROR", 18, 21, "subagentRunId:2, message:3, code:4?"),
    (
        *("TEXT_MESSAGE_CHUNK", 19, 17),
        "messageId:2?, role:3?, delta:4?, name:5?, subagentRunId:6?",
    ),
    (
        *("TOOL_CALL_CHUNK", 20, 18),
        "toolCallId:2?, toolCallName:3?, parentMessageId:4?, delta:5?, subagentRunId:6?",
    ),
    (
        *("TOOL_CALL_RESULT", 21, 22),
        "subagentRunId:2?, messageId:3, toolCallId:4, content:5?, role:6?, contentParts:7 Content*",
    ),
    (
        *("ACTIVITY_SNAPSHOT", 22, 23),
        "subagentRunId:2?, messageId:3, activityType:4, content:5 object?, replace:6 bool?",
    ),
    (
        *("ACTIVITY_DELTA", 23, 24),
        "subagentRunId:2?, messageId:3, activityType:4, patch:5 JsonPatchOperation*",
    ),
    ("REASONING_START", 24, 25, "subagentRunId:2?, messageId:3"),
    ("REASONING_MESSAGE_START", 25, 26, "subagentRunId:2?, messageId:3, role:4"),
    ("REASONING_MESSAGE_CONTENT", 26, 27, "subagentRunId:2?, messageId:3, delta:4"),
    ("REASONING_MESSAGE_END", 27, 28, "subagentRunId:2?, messageId:3"),
    ("REASONING_MESSAGE_CHUNK", 28, 29, "subagentRunId:2?, messageId:3?, delta:4?"),
    ("REASONING_END", 29, 30, "subagentRunId:2?, messageId:3"),
    (
        *("REASONING_ENCRYPTED_VALUE", 30, 31),
        "subagentRunId:2?, subtype:3, entityId:4, encryptedValue:5",
    ),
)
"""Type, number as an EventType, field number in the envelope, and fields beside the base event."""

OPERATIONS = {"add": 0, "remove": 1, "replace": 2, "move": 3, "copy": 4, "test": 5}
"""JSON Patch operations by name."""
