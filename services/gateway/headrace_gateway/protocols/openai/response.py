"""The Responses API's form of a run: one object, or the events that lead to it.

Events are numbered from 0 in the order of the log, so numbers are the same on any gateway.
"""

from collections.abc import Callable, Sequence
from datetime import datetime

from headrace.model import json_text
from headrace.model.events import Json
from headrace.model.task import CANCELED, FAILED, REJECTED, SUBMITTED, WORKING
from headrace_gateway.feeds import FeedBlock
from headrace_gateway.protocols.openai.request import OPTIONS
from headrace_gateway.protocols.openai.response_output import (
    ItemChange,
    ItemStep,
    OutputItem,
    ResponseOutput,
)
from headrace_gateway.streaming.renderer import Interruption, Messages, Renderer

_STATUSES = {
    SUBMITTED: "queued",
    WORKING: "in_progress",
    FAILED: "failed",
    REJECTED: "failed",
    CANCELED: "cancelled",
}
"""By the task's state in the run; all others are completed."""

_ENDS = {"failed": "response.failed", "cancelled": "response.incomplete"}
"""The event that ends a stream, by the status."""


def seconds(time: str) -> int:
    """Return an RFC 3339 time as Unix time."""
    return int(datetime.fromisoformat(time).timestamp()) if time else 0


def response_object(output: ResponseOutput) -> Json:
    """Return the response as it is now."""
    sent = (output.sent.get("forwardedProps") or {}).get(OPTIONS)
    options: Json = sent if isinstance(sent, dict) else {}
    status, failure = _status(output), None
    if status == "failed":
        code = "invalid_prompt" if output.state == REJECTED else "server_error"
        failure = {"code": code, "message": output.error}
    return {
        "id": output.place.response,
        "object": "response",
        "created_at": seconds(output.begun),
        "completed_at": seconds(output.ended) if status == "completed" else None,
        "status": status,
        "background": bool(options.get("background")),
        "error": failure,
        "incomplete_details": None,
        "instructions": options.get("instructions"),
        "max_output_tokens": options.get("max_output_tokens"),
        "model": output.place.agent,
        "output": [_item(item) for item in output.kept],
        "parallel_tool_calls": options.get("parallel_tool_calls", True),
        "previous_response_id": options.get("previous_response_id"),
        "conversation": {"id": output.context},
        "reasoning": options.get("reasoning") or {"effort": None, "summary": None},
        "store": True,
        "temperature": options.get("temperature"),
        "text": options.get("text") or {"format": {"type": "text"}},
        "tool_choice": options.get("tool_choice", "auto"),
        "tools": [_tool(tool) for tool in output.sent.get("tools") or ()],
        "top_p": options.get("top_p"),
        "truncation": options.get("truncation", "disabled"),
        "usage": _usage(output),
        "user": options.get("user"),
        "metadata": options.get("metadata") or {},
    }


def _status(output: ResponseOutput) -> str:
    if not output.over:
        return "queued" if output.state == SUBMITTED else "in_progress"
    status = _STATUSES.get(output.state, "completed")
    return status if status in ("failed", "cancelled") else "completed"


def _tool(tool: Json) -> Json:
    return {"type": "function", "strict": None, **tool}


def _usage(output: ResponseOutput) -> Json | None:
    if not output.usage:
        return None
    used, made = output.tokens("inputTokens"), output.tokens("outputTokens")
    details = {
        "cached_tokens": output.tokens("cachedInputTokens"),
        "cache_write_tokens": output.tokens("cacheWriteInputTokens"),
    }
    return {
        "input_tokens": used,
        "input_tokens_details": details,
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": output.tokens("reasoningTokens")},
        "total_tokens": output.tokens("totalTokens") or used + made,
    }


def input_items(output: ResponseOutput) -> Json:
    """Return the list of the response's input: what its client has said."""
    found = [
        {
            "id": output.place.item("msg_in", number),
            "type": "message",
            "role": "user",
            "status": "completed",
            "content": [{"type": "input_text", "text": _input_text(part)}],
        }
        for number, part in enumerate(output.content)
    ]
    ids = {"first_id": found[0]["id"], "last_id": found[-1]["id"]} if found else {}
    return {"object": "list", "data": found, "has_more": False, **ids}


def _input_text(part: Json) -> str:
    if "text" in part:
        return str(part["text"])
    return json_text.text(part["data"]) if "data" in part else str(part.get("url") or "[file]")


def _item(item: OutputItem) -> Json:
    """Return an item as it is now."""
    status = "in_progress" if item.is_open else "completed"
    match item.kind:
        case "message":
            content = [] if item.is_open else [_text_part(item.text)]
            return {
                "id": item.id,
                "type": "message",
                "status": status,
                "role": "assistant",
                "content": content,
            }
        case "reasoning":
            summary = [] if item.is_open else [_summary(item.text)]
            return {"id": item.id, "type": "reasoning", "summary": summary, "status": status}
        case "function_call":
            return _call(item) | {"call_id": item.call, "status": status}
        case "mcp_call":
            result = {"output": item.result, "error": item.error}
            return _call(item) | {"server_label": "agent", **result}
        case "mcp_approval_request":
            return _call(item) | {"server_label": "agent"}


def _call(item: OutputItem) -> Json:
    arguments = item.text
    return {"id": item.id, "type": item.kind, "name": item.name, "arguments": arguments}


def _text_part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _summary(text: str) -> Json:
    return {"type": "summary_text", "text": text}


class ResponseEvents:
    """Turns changes of the output into events."""

    def __init__(self, output: ResponseOutput) -> None:
        """Begin before the first event of `output`."""
        self._output = output
        self.number = -1
        """The number of the last event; -1 before the first."""

    def begin(self) -> list[Json]:
        """Return the events with which a response begins."""
        made = response_object(self._output) | {"status": "queued", "output": []}
        going_on = made | {"status": "in_progress"}
        events = [("response.created", going_on), ("response.in_progress", going_on)]
        return [self._event(kind, response=response) for kind, response in events]

    def changed(self, change: ItemChange) -> list[Json]:
        """Return the events of one change."""
        item = change.item
        match change.step:
            case ItemStep.GREW:
                return self._grew(item, change.delta)
            case ItemStep.OPENED:
                return self._opened(item)
            case ItemStep.CLOSED:
                return self._closed(item, "completed")
            case ItemStep.CUT:
                return self._closed(item, "incomplete")

    def end(self) -> list[Json]:
        """Return the event with which the response ends."""
        response = response_object(self._output)
        kind = _ENDS.get(response["status"], "response.completed")
        return [self._event(kind, response=response)]

    def _opened(self, item: OutputItem) -> list[Json]:
        shown = _item(item) | ({"arguments": ""} if item.name else {})
        events = [self._event("response.output_item.added", output_index=item.index, item=shown)]
        if item.kind == "message":
            events.append(self._of("content_part.added", item, part=_text_part("")))
        elif item.kind == "reasoning":
            events.append(self._of("reasoning_summary_part.added", item, part=_summary("")))
        elif item.kind == "mcp_call":
            events.append(self._of("mcp_call.in_progress", item))
        return events

    def _grew(self, item: OutputItem, delta: str) -> list[Json]:
        match item.kind:
            case "message":
                return [self._of("output_text.delta", item, delta=delta, logprobs=[])]
            case "reasoning":
                return [self._of("reasoning_summary_text.delta", item, delta=delta)]
            case "function_call":
                return [self._of("function_call_arguments.delta", item, delta=delta)]
            case "mcp_call":
                return [self._of("mcp_call_arguments.delta", item, delta=delta)]
        return []

    def _closed(self, item: OutputItem, status: str) -> list[Json]:
        text, events = item.text, list[Json]()
        match item.kind:
            case "message":
                events = [
                    self._of("output_text.done", item, text=text, logprobs=[]),
                    self._of("content_part.done", item, part=_text_part(text)),
                ]
            case "reasoning":
                events = [
                    self._of("reasoning_summary_text.done", item, text=text),
                    self._of("reasoning_summary_part.done", item, part=_summary(text)),
                ]
            case "function_call":
                named = {"name": item.name, "arguments": text}
                events = [self._of("function_call_arguments.done", item, **named)]
            case "mcp_call":
                end = "completed" if item.error is None and status == "completed" else "failed"
                events = [
                    self._of("mcp_call_arguments.done", item, arguments=text),
                    self._of(f"mcp_call.{end}", item),
                ]
        shown = _item(item)
        shown |= {"status": status} if "status" in shown else {}
        done = self._event("response.output_item.done", output_index=item.index, item=shown)
        return [*events, done]

    def _of(self, kind: str, item: OutputItem, **fields: object) -> Json:
        """Return an event about an item's only content part, or about the item."""
        place: Json = {"item_id": item.id, "output_index": item.index}
        if item.kind == "message":
            place["content_index"] = 0
        elif item.kind == "reasoning":
            place["summary_index"] = 0
        return self._event(f"response.{kind}", **place, **fields)

    def _event(self, kind: str, **fields: object) -> Json:
        self.number += 1
        return {"type": kind, "sequence_number": self.number, **fields}


class ResponseRenderer(Renderer):
    """Renders one response for one client."""

    __slots__ = ("_after", "_events", "_is_ended", "_output")

    def __init__(self, output: ResponseOutput, after: int = -1) -> None:
        """Render the events after the one with number `after`; -1: all."""
        self._output, self._after = output, after
        self._events = ResponseEvents(output)
        self._is_ended = False

    def render(self, blocks: Sequence[FeedBlock], after: int) -> Messages:  # noqa: ARG002 - the fold needs all entries
        """Render the next events."""
        events: list[Json] = []
        for block in blocks:
            changes = self._output.read(block.entry)
            if self._output.has_just_begun:
                events += self._events.begin()
            for change in changes:
                events += self._events.changed(change)
            if self._output.over and not self._is_ended:
                self._is_ended = True
                events += self._events.end()
        return [_frame(event) for event in events if event["sequence_number"] > self._after]

    def is_over(self, *, run_ended: bool) -> bool:  # noqa: ARG002 - the run decides, not the task
        """Return whether the response has ended."""
        return self._output.over

    def ending(self) -> Messages:
        """Return an error if the log has ended before the run."""
        return () if self._output.over else (self._error("the log ended before the run"),)

    def interrupted(self, why: Interruption) -> Messages:
        """Return an error; a client may go on with ``starting_after`` on any gateway."""
        return () if self._output.over else (self._error(why.reason),)

    def _error(self, message: str) -> bytes:
        # It is not in the log: it takes no number, so that no event is missed after it.
        number = max(self._events.number, self._after, 0)
        place = {"sequence_number": number, "param": None}
        return _frame({"type": "error", "code": "stream_interrupted", "message": message, **place})


def _frame(event: Json) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event["type"].encode(), json_text.encode(event))


class Collector(Renderer):
    """Renders nothing, and reads a run's output to its end."""

    __slots__ = ("_is_enough", "_output")

    def __init__(self, output: ResponseOutput, is_enough: Callable[[], bool]) -> None:
        """Read into `output` until it is over, or `is_enough`."""
        self._output, self._is_enough = output, is_enough

    def render(self, blocks: Sequence[FeedBlock], after: int) -> Messages:  # noqa: ARG002 - the fold needs all entries
        """Read the entries."""
        for block in blocks:
            self._output.read(block.entry)
        return ()

    def is_over(self, *, run_ended: bool) -> bool:  # noqa: ARG002 - the run decides, not the task
        """Return whether enough is read."""
        return self._output.over or self._is_enough()
