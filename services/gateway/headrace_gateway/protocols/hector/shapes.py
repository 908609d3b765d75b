"""Answers, events and errors in the shapes of Hector's A2A, from A2A's own.

Its two documents differ on what a stream's event holds: ``response`` with ``content``, or
``message`` with ``parts``. Every event has both, so that a client of either reads it.
"""

from http import HTTPStatus

import orjson

from headrace.model import parts
from headrace.model.events import Json

_STATUSES = {
    "OK": HTTPStatus.OK,
    "INVALID_ARGUMENT": HTTPStatus.BAD_REQUEST,
    "UNAUTHENTICATED": HTTPStatus.UNAUTHORIZED,
    "PERMISSION_DENIED": HTTPStatus.FORBIDDEN,
    "NOT_FOUND": HTTPStatus.NOT_FOUND,
    "RESOURCE_EXHAUSTED": HTTPStatus.TOO_MANY_REQUESTS,
    "INTERNAL": HTTPStatus.INTERNAL_SERVER_ERROR,
    "UNAVAILABLE": HTTPStatus.SERVICE_UNAVAILABLE,
}

_STATES = {
    "TASK_STATE_SUBMITTED": "pending",
    "TASK_STATE_COMPLETED": "completed",
    "TASK_STATE_FAILED": "failed",
    "TASK_STATE_REJECTED": "failed",
    "TASK_STATE_CANCELED": "cancelled",
}
_OVER = frozenset({"completed", "failed", "cancelled"})
_WAITS = "TASK_STATE_INPUT_REQUIRED"
_USER = "ROLE_USER"

EMPTY: Json = {"response": {"role": "ROLE_ASSISTANT", "content": [{"text": ""}]}}
"""A response without words."""


def state(task: Json) -> str:
    """Return one of Hector's five states; a task that waits for its user is ``running``."""
    return _STATES.get(task["status"]["state"], "running")


def answered(operation: str, result: Json) -> Json:
    """Return an operation's result as Hector has it; it has none of its own for webhooks."""
    match operation:
        case "SendMessage":
            return _sent(result)
        case "GetTask" | "CancelTask":
            return {"task": _task(result)}
        case "ListTasks":
            rest = {"next_page_token": result["nextPageToken"], "total_size": result["totalSize"]}
            return {"tasks": [_task(one) for one in result["tasks"]], **rest}
        case "GetExtendedAgentCard":
            return card(result)
        case "GetAgentCard":
            return card(result["agent"])
    return result


def event(event: Json) -> Json:
    """Return an event of a stream; one that is not of the shape it claims to be says so."""
    try:
        return _event(event)
    except (KeyError, TypeError, ValueError, AttributeError):
        reason = {"code": "INTERNAL", "message": "an event is not what it claims to be"}
        return _event_of({}, "", []) | {"error": reason}


def _event(event: Json) -> Json:
    if (update := event.get("artifactUpdate")) is not None:
        artifact = update["artifact"]
        return _event_of(update, artifact["artifactId"], artifact.get("parts", []))
    if (update := event.get("statusUpdate")) is not None:
        said = update["status"].get("message") or {}
        spoken = [] if said.get("role") == _USER else said.get("parts", [])
        found = _event_of(update, said.get("messageId", ""), spoken)
        return found | {"task": _brief(update["taskId"], update)}
    if (task := event.get("task")) is not None:
        update = {"taskId": task["id"], "contextId": task["contextId"]}
        return _event_of(update, "", _said(task)) | {"task": _brief(task["id"], task)}
    message = event["message"]
    return _event_of(message, message["messageId"], message.get("parts", []))


def card(card: Json) -> Json:
    """Return an agent's card."""
    known = card.get("capabilities", {})
    return {
        "agent": {
            "name": card["name"],
            "description": card["description"],
            "version": card["version"],
            "capabilities": ["chat", *(["streaming"] if known.get("streaming") else [])],
            "supported_content_types": _types(card["defaultInputModes"]),
            **_security(card),
        }
    }


def _sent(result: Json) -> Json:
    """Return what a message is answered with; a task that goes on has no response yet."""
    if (message := result.get("message")) is not None:
        return {"response": _response(message["parts"], message.get("metadata"))}
    task = result["task"]
    if state(task) in _OVER or task["status"]["state"] == _WAITS:
        said = _response(_said(task), task.get("metadata"))
        return {"response": said, "task_id": task["id"], "status": state(task)}
    return {"task": _task(task)}


def _task(task: Json) -> Json:
    said = _said(task)
    result = {"result": _response(said, task.get("metadata"))} if said else {}
    return _brief(task["id"], task) | result


def _brief(task: str, update: Json) -> Json:
    context = update.get("contextId", "")
    return {"id": task, "context_id": context, "status": state(update)}


def _said(task: Json) -> list[Json]:
    """Return all that the agent has said: what it made, then its last word."""
    said = [part for one in task.get("artifacts", []) for part in one.get("parts", [])]
    last = task["status"].get("message") or {}
    return said + ([] if last.get("role") == _USER else last.get("parts", []))


def _event_of(update: Json, name: str, said: list[Json]) -> Json:
    metadata = update.get("metadata")
    more = {"metadata": metadata} if metadata else {}
    found: Json = {
        "response": _response(said, metadata),
        "message": {"messageId": name, "role": "agent", "parts": said, **more},
    }
    task = update.get("taskId")
    return found | ({"task_id": task} if task else {})


def _response(said: list[Json], metadata: Json | None) -> Json:
    found: Json = {"role": "ROLE_ASSISTANT", "content": _content(said)}
    if calls := [_call(one) for part in said if (one := parts.tool_call(part)) is not None]:
        found["tool_calls"] = calls
    return found | ({"metadata": metadata} if metadata else {})


def _content(said: list[Json]) -> list[Json]:
    """Return what is for the reader, runs of text as one; there is always a first text."""
    content = list[Json]()
    for part in said:
        if parts.is_thinking(part) or parts.event_type(part) == parts.TOOL_CALL:
            continue
        bare = {key: value for key, value in part.items() if key != "metadata"}
        if content and "text" in bare and "text" in content[-1]:
            content[-1] = {"text": content[-1]["text"] + bare["text"]}
        else:
            content.append(bare)
    return content or [{"text": ""}]


def _call(call: parts.ToolCallPart) -> Json:
    arguments = call.arguments
    text = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": text}}


def _types(modes: list[str]) -> list[str]:
    kinds = (mode.partition("/")[0] for mode in modes)
    return list(dict.fromkeys("file" if kind in ("application", "*") else kind for kind in kinds))


def _security(card: Json) -> Json:
    return {"security": {"schemes": schemes}} if (schemes := card.get("securitySchemes")) else {}


def refused(code: str, message: str, details: Json) -> tuple[int, Json]:
    """Return HTTP status and body for an error whose gRPC status is `code`.

    What Hector has no code for is the client's doing: it can't be had as it was asked.
    """
    code = code if code in _STATUSES else "INVALID_ARGUMENT"
    body = {"error": {"code": code, "message": message, "details": details}}
    return _STATUSES[code], body
