"""Answers, events and errors in the shapes of Hector's A2A, converted from A2A's own.

Hector's two documents differ in what a stream event holds: ``response`` with ``content``, or
``message`` with ``parts``. Every event has both, so that clients of either document can read it.
"""

from http import HTTPStatus

from headrace.model import json_text, parts
from headrace.model.events import Json
from headrace_gateway.protocols.hector.signals import signal
from headrace_gateway.protocols.hector.tool_calls import StreamedArguments, tool_part

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
_FAULTS = {"TASK_STATE_FAILED": "INTERNAL", "TASK_STATE_REJECTED": "INVALID_ARGUMENT"}
"""Hector's error codes by task state; the agent's last message is the reason."""
_WAITS = "TASK_STATE_INPUT_REQUIRED"
_USER = "ROLE_USER"

EMPTY: Json = {"response": {"role": "ROLE_ASSISTANT", "content": [{"text": ""}]}}
"""A response without text."""


def state(task: Json) -> str:
    """Return one of Hector's five states; a task that waits for its user is ``running``."""
    return _STATES.get(task["status"]["state"], "running")


def answered(operation: str, result: Json) -> Json:
    """Convert an operation's result to Hector's shape; webhook results do not change."""
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
            return card(result["agent"], result["declared"])
    return result


def event(event: Json) -> Json:
    """Convert a stream event; a malformed event becomes an event with an error."""
    try:
        return _event(event)
    except (KeyError, TypeError, ValueError, AttributeError):
        reason = {"code": "INTERNAL", "message": "an event has an invalid shape"}
        return _event_of({}, "", []) | {"error": reason}


def _event(event: Json) -> Json:
    if (update := event.get("artifactUpdate")) is not None:
        artifact = update["artifact"]
        return _event_of(update, artifact["artifactId"], artifact.get("parts", []))
    if (update := event.get("statusUpdate")) is not None:
        message = update["status"].get("message") or {}
        content = [] if message.get("role") == _USER else message.get("parts", [])
        if update["status"]["state"] in _FAULTS:
            content = [_as_error(part) for part in content]
        found = _event_of(update, message.get("messageId", ""), content)
        signalled = found.get("task", {}).get("metadata")
        brief = _brief(update["taskId"], update) | ({"metadata": signalled} if signalled else {})
        return found | {"task": brief}
    if (task := event.get("task")) is not None:
        update = {"taskId": task["id"], "contextId": task["contextId"]}
        found = _event_of(update, "", [*_called(task), *_parts(task)])
        return found | {"task": _brief(task["id"], task)}
    message = event["message"]
    return _event_of(message, message["messageId"], message.get("parts", []))


def card(card: Json, declared: Json | None = None) -> Json:
    """Convert an agent card; `declared` are the AG-UI capabilities that the agent declares."""
    known, tools = card.get("capabilities", {}), (declared or {}).get("tools") or {}
    able = {
        "chat": True,
        "tools": isinstance(tools, dict) and tools.get("supported", False),
        "streaming": known.get("streaming", False),
    }
    return {
        "agent": {
            "name": card["name"],
            "description": card["description"],
            "version": card["version"],
            "capabilities": [name for name, can in able.items() if can],
            "supported_content_types": _types(card["defaultInputModes"]),
            "default_output_modes": card["defaultOutputModes"],
            **_security(card),
        }
    }


def _sent(result: Json) -> Json:
    """Return the answer to a message; a task that is still running has no response yet."""
    if (message := result.get("message")) is not None:
        return {"response": _response([message["parts"]], message.get("metadata"))}
    task = result["task"]
    if state(task) in _OVER or task["status"]["state"] == _WAITS:
        answer = {"response": _result(task), "task_id": task["id"], "status": state(task)}
        return answer | _fault(task)
    return {"task": _task(task)}


def _task(task: Json) -> Json:
    has_result = any(_sources(task)) or _called(task)
    return _brief(task["id"], task) | ({"result": _result(task)} if has_result else {})


def _result(task: Json) -> Json:
    """Return all artifacts, the last message and tool calls, without the reason of a failure."""
    return _response([_called(task), *_sources(task)], task.get("metadata"))


def _brief(task: str, update: Json) -> Json:
    context = update.get("contextId", "")
    return {"id": task, "context_id": context, "status": state(update), **_fault(update)}


def _fault(update: Json) -> Json:
    """Return the error of a failed or rejected task."""
    status = update["status"]
    if (code := _FAULTS.get(status["state"])) is None:
        return {}
    content = (status.get("message") or {}).get("parts", [])
    reason = "".join(part.get("text", "") for part in content)
    return {"error": {"code": code, "message": reason, "details": {"reason": status["state"]}}}


def _sources(task: Json) -> list[list[Json]]:
    """Return the parts of each artifact, then those of the agent's last message."""
    made = [one.get("parts", []) for one in task.get("artifacts", [])]
    last = task["status"].get("message") or {}
    is_word = last.get("role") != _USER and task["status"]["state"] not in _FAULTS
    return [*made, last.get("parts", []) if is_word else []]


def _parts(task: Json) -> list[Json]:
    return [part for source in _sources(task) for part in source]


def _called(task: Json) -> list[Json]:
    """Return the tool calls since the user's last message."""
    arguments, called = StreamedArguments(), list[Json]()
    for message in task.get("history") or []:
        if message.get("role") == _USER:
            called.clear()
            arguments.discard()
            continue
        called += [whole for part in message.get("parts", []) for whole in arguments.whole(part)]
    return [part for part in [*called, *arguments.rest()] if parts.tool_call(part) is not None]


def _event_of(update: Json, name: str, content: list[Json]) -> Json:
    metadata = update.get("metadata")
    more = {"metadata": metadata} if metadata else {}
    shown, signalled = list[Json](), dict[str, object]()
    for part in content:
        if (one := signal(part)) is not None:
            signalled |= one
        elif parts.is_partial_tool_call(part):
            named = {"id": parts.tool_call_id(part), "name": parts.tool_name(part)}
            signalled["tool_call_delta"] = named | {"partial_input": part["text"]}
        else:
            shown.append(_shown(part))
    found: Json = {
        "response": _response([content], metadata),
        "message": {"messageId": name, "role": "agent", "parts": shown, **more},
    }
    if (task := update.get("taskId")) is None:
        return found
    if signalled:
        context = update.get("contextId", "")
        found["task"] = {
            "id": task,
            "context_id": context,
            "status": "running",
            "metadata": signalled,
        }
    return found | {"task_id": task}


def _as_error(part: Json) -> Json:
    return {**part, "metadata": {**(part.get("metadata") or {}), parts.EVENT_TYPE: parts.ERROR}}


def _shown(part: Json) -> Json:
    """Return a message part: tool data is nested two levels deep, all other parts have text."""
    if parts.event_type(part) == parts.TOOL_CALL:
        return tool_part(part)
    return part if "text" in part else {**part, "text": ""}


def _response(sources: list[list[Json]], metadata: Json | None) -> Json:
    found: Json = {"role": "ROLE_ASSISTANT", "content": _content(sources)}
    every = [part for source in sources for part in source]
    if calls := [_call(one) for part in every if (one := parts.tool_call(part)) is not None]:
        found["tool_calls"] = calls
    return found | ({"metadata": metadata} if metadata else {})


def _content(sources: list[list[Json]]) -> list[Json]:
    """Return the content for the reader; the first item is a text, which may be empty.

    Consecutive texts are joined, with a newline between those of different sources.
    """
    content = list[Json]()
    for source in sources:
        between = "\n"
        for part in source:
            if not _is_content(part):
                continue
            bare = {key: value for key, value in part.items() if key != "metadata"}
            if content and "text" in bare and "text" in content[-1]:
                text = content[-1]["text"]
                content[-1] = {"text": text + (between if text else "") + bare["text"]}
            else:
                content.append(bare)
            between = ""
    return content if content and "text" in content[0] else [{"text": ""}, *content]


def _is_content(part: Json) -> bool:
    if parts.is_thinking(part) or signal(part) is not None:
        return False
    return parts.event_type(part) not in (parts.TOOL_CALL, parts.ERROR)


def _call(call: parts.ToolCallPart) -> Json:
    text = json_text.as_text(call.arguments)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": text}}


_TYPES = ("text", "image", "audio", "video")


def _types(modes: list[str]) -> list[str]:
    """Return the content types of media types; ``file`` includes all unlisted ones."""
    kinds = [mode.partition("/")[0] for mode in modes]
    if "*" in kinds:
        return [*_TYPES, "file"]
    return list(dict.fromkeys(kind if kind in _TYPES else "file" for kind in kinds))


def _security(card: Json) -> Json:
    """Return the card's security schemes in OpenAPI's format, and the names of required ones."""
    schemes = {name: _scheme(one) for name, one in card.get("securitySchemes", {}).items()}
    required = [name for one in card.get("securityRequirements", []) for name in one["schemes"]]
    more = {"require": list(dict.fromkeys(required))} if required else {}
    return {"security": {"schemes": schemes} | more} if schemes else {}


def _scheme(scheme: Json) -> Json:
    if (key := scheme.get("apiKeySecurityScheme")) is not None:
        return {"type": "apiKey", "name": key["name"], "in": key["location"]}
    if (oauth2 := scheme.get("oauth2SecurityScheme")) is not None:
        return {"type": "oauth2", "flows": _flows(oauth2["flows"])}
    if (connect := scheme.get("openIdConnectSecurityScheme")) is not None:
        return {"type": "openIdConnect", "openIdConnectUrl": connect["openIdConnectUrl"]}
    if "mtlsSecurityScheme" in scheme:
        return {"type": "mutualTLS"}
    return {"type": "http", "scheme": scheme["httpAuthSecurityScheme"]["scheme"].lower()}


def _flows(flows: Json) -> Json:
    """Return OAuth 2's flows with OpenAPI's fields, which are A2A's but for one."""
    return {
        name: {key: value for key, value in flow.items() if key != "pkceRequired"}
        for name, flow in flows.items()
    }


def refused(code: str, message: str, details: Json) -> tuple[int, Json]:
    """Return the HTTP status and body for an error whose gRPC status is `code`.

    Codes that Hector does not have become INVALID_ARGUMENT.
    """
    code = code if code in _STATUSES else "INVALID_ARGUMENT"
    body = {"error": {"code": code, "message": message, "details": details}}
    return _STATUSES[code], body
