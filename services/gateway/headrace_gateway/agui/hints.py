"""What parts say beyond the shared keys of `headrace.parts`: values of the event type, and keys.

Every key is also read without its ``agui_``.
"""

STATE_SNAPSHOT = "state_snapshot"
"""Event type of a data part that holds the whole state."""
STATE_DELTA = "state_delta"
"""Event type of a data part that holds a JSON Patch (RFC 6902) of the state."""
ACTIVITY_SNAPSHOT = "activity_snapshot"
"""Event type of a data part that holds an activity's content; its block id names the activity."""
ACTIVITY_DELTA = "activity_delta"
"""Event type of a data part that holds a JSON Patch of an activity's content."""
STEP_STARTED = "step_started"
STEP_FINISHED = "step_finished"
"""Event types of parts whose `STEP_NAME` says which step."""
USAGE = "usage"
"""Event type of a data part that holds one AG-UI TokenUsage."""
CUSTOM = "custom"
"""Event type of a data part that holds any value, named by `CUSTOM_NAME`."""
RAW = "raw"
"""Event type of a data part that holds another system's event, from `SOURCE`."""

ACTIVITY_TYPE = "agui_activity_type"
STEP_NAME = "agui_step_name"
CUSTOM_NAME = "agui_custom_name"
SOURCE = "agui_source"
ENCRYPTED_VALUE = "agui_encrypted_value"
"""On text, thinking and tool calls: what a provider wants back with the message, opaque."""
SIGNATURE = "agui_signature"
"""On thinking: another name of `ENCRYPTED_VALUE`."""
TITLE = "agui_title"
"""On thinking: what a user interface may put above it."""

INTERRUPTS = "headrace.interrupts"
"""Metadata key of an event that asks for input: AG-UI Interrupts."""
PENDING_TOOL_CALLS = "headrace.pendingToolCalls"
"""Metadata key of an event that asks for input: ids of the tool calls that the client carries out;
the run then ends with success, and their results come with the next one."""
