"""Conversion of a conversation into a session of Google's ADK.

A session is a list of events. The conversation of earlier tasks is translated into events. The
task's own events are kept as ADK made them, in checkpoints of the task's log, because ADK resumes
from them: which agent was active, which requests are open, and which calls have not been executed.
Tool results are in the log already and are put back into their events.
"""

from base64 import b64decode
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from google.adk.events import Event
from google.genai import types

from headrace.adapters.conversation.memory import restored, stored
from headrace.adapters.conversation.turns import (
    RESPONSE,
    CallItem,
    ResultItem,
    TextItem,
    Turn,
    answered,
)
from headrace.model import json_text
from headrace.model.entry import Entry
from headrace.model.errors import FileUnknown
from headrace.model.events import Json
from headrace.model.parts import ToolResultPart
from headrace.sdk.checkpoint import decode
from headrace.sdk.context import RunContext
from headrace.sdk.errors import Retryable

FORMAT = "google.adk"
"""Format of the responses that are kept verbatim. Also the key, in a checkpoint's data, of other
events that are kept: ``events``, and the ``run`` that they belong to."""


def as_kept(events: Sequence[Event], run: int, recorded: Collection[str]) -> Json:
    """Return the record that keeps `events` of `run`.

    It leaves out results that are already `recorded` in the log (call ids), and changes of the
    state, which are emitted as shared state.
    """
    return {"run": run, "events": [_as_kept(event, recorded) for event in events]}


async def other_events(ctx: RunContext, kept: Json) -> Json:
    """Return checkpoint data for events that are not a model's response."""
    return {FORMAT: await stored(ctx, kept)}


async def kept_events(
    ctx: RunContext, log: Sequence[Entry], results: Mapping[str, Json]
) -> list[tuple[int, Event]]:
    """Return the events kept in the task's log, each with its run.

    Args:
        ctx: The run's context.
        log: The task's log.
        results: Tool results, by call id.

    Raises:
        Retryable: The object store no longer has one of the events.
    """
    found = list[tuple[int, Event]]()
    for entry in log:
        if entry.stamp.checkpoint is None:
            continue
        data = decode(entry.stamp.checkpoint).data
        held = data if isinstance(data, dict) else {}
        kept = held.get(FORMAT)
        if (response := held.get(RESPONSE) or {}).get("format") == FORMAT:
            kept = response
        if kept is None:
            continue
        try:
            record = await restored(ctx, kept)
        except FileUnknown as error:
            raise Retryable("an event of the session is no longer stored") from error
        found += [(record["run"], _event(event, results)) for event in record["events"]]
    return found


def past_events(turns: Sequence[Turn], root: str) -> list[Event]:
    """Return the events of earlier tasks; those not kept verbatim get `root` as their author."""
    events = list[Event]()
    calls = dict[str, tuple[str, Event]]()
    for turn in answered(turns):
        invocation = f"{turn.task or 'client'}-{turn.run}"
        match turn.role:
            case "user":
                events.append(user_event(turn.parts, invocation))
            case "assistant":
                event = _response(turn, root, invocation)
                calls |= {call.id: (call.name, event) for call in turn.calls}
                events.append(event)
            case "tool" if turn.result is not None and turn.result.id in calls:
                events.append(_result(turn.result, *calls[turn.result.id]))
    return events


def user_event(message: Sequence[Json], invocation: str) -> Event:
    """Return the user's A2A Parts as an event."""
    return Event(author="user", invocation_id=invocation, content=user_content(message))


def user_content(message: Sequence[Json]) -> types.Content:
    """Return the user's A2A Parts as content."""
    return types.Content(role="user", parts=[_part(part) for part in message])


def response_of(result: ToolResultPart) -> Json:
    """Return a tool's result as ADK represents it."""
    if result.error:
        return {"error": result.error}
    return as_response(result.content)


def as_response(result: Any) -> Json:  # noqa: ANN401  # any JSON
    """Return an answer as ADK represents it: an object."""
    return result if isinstance(result, dict) else {"result": result}


def result_and_error(response: Json) -> tuple[Any, str]:
    """Return the response's content and error; the inverse of `response_of`."""
    match response:
        case {"error": str(error)} if error and len(response) == 1:
            return "", error
        case {"result": result} if len(response) == 1 and not isinstance(result, dict):
            return result, ""
    return response, ""


def as_json_event(event: Event) -> Json:
    """Return a whole event as JSON."""
    kept: Json = event.model_dump(mode="json", by_alias=True, exclude_none=True)
    return kept


def of_json_event(kept: Json) -> Event:
    """Return the event of `as_json_event`."""
    return Event.model_validate_json(json_text.encode(kept))


def _as_kept(event: Event, recorded: Collection[str]) -> Json:
    kept: Json = event.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude={"actions": {"state_delta"}}
    )
    for part in (kept.get("content") or {}).get("parts") or ():
        response = part.get("functionResponse")
        if response and response.get("id") in recorded:
            response.pop("response", None)
    return kept


def _event(kept: Json, results: Mapping[str, Json]) -> Event:
    for part in (kept.get("content") or {}).get("parts") or ():
        response = part.get("functionResponse")
        if response and "response" not in response:
            response["response"] = results.get(response.get("id"), {})
    return of_json_event(kept)


def _response(turn: Turn, root: str, invocation: str) -> Event:
    kept = turn.verbatim.response if turn.verbatim and turn.verbatim.format == FORMAT else None
    if isinstance(kept, dict):
        # This call can no longer be answered.
        return _event({**kept["events"][0], "longRunningToolIds": None}, {})
    parts = [part for item in turn.items if (part := _item(item)) is not None]
    content = types.Content(role="model", parts=parts)
    return Event(author=root, invocation_id=invocation, content=content)


def _item(item: Any) -> types.Part | None:  # noqa: ANN401  # an Item
    match item:
        case TextItem() if item.text:
            return types.Part(text=item.text)
        case CallItem():
            given = item.arguments if isinstance(item.arguments, dict) else {}
            return types.Part(
                function_call=types.FunctionCall(id=item.id, name=item.name, args=given)
            )
        case ResultItem():
            return types.Part(text=item.text)
        case _:
            # Providers accept reasoning only verbatim, and only from their own model.
            return None


def _result(result: ToolResultPart, name: str, call: Event) -> Event:
    response = types.FunctionResponse(id=result.id, name=name, response=response_of(result))
    return Event(
        author=call.author,
        invocation_id=call.invocation_id,
        branch=call.branch,
        isolation_scope=call.isolation_scope,
        content=types.Content(role="user", parts=[types.Part(function_response=response)]),
    )


def _part(part: Json) -> types.Part:
    media, name = part.get("mediaType") or "", part.get("filename")
    if "text" in part:
        return types.Part(text=part["text"])
    if "data" in part:
        return types.Part(text=json_text.text(part["data"]))
    if raw := part.get("raw"):
        blob = types.Blob(data=b64decode(raw), mime_type=media, display_name=name)
        return types.Part(inline_data=blob)
    uri = part.get("url", "")
    return types.Part(file_data=types.FileData(file_uri=uri, mime_type=media, display_name=name))
