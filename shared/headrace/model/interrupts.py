"""What an event that asks for input says to user interfaces, as metadata of the event."""

INTERRUPTS = "headrace.interrupts"
"""AG-UI Interrupts: what is asked, each with an ``id`` that the answer names."""
PENDING_TOOL_CALLS = "headrace.pendingToolCalls"
"""Ids of the tool calls that the client carries out; the run then ends with success, and their
results come with the next one."""
