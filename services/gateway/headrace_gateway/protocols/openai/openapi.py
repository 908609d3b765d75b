"""What the OpenAPI document says of the routes of OpenAI's API.

OpenAI's own document describes each field. Here are those that the fleet reads or always answers.
"""

from headrace.model.events import Json
from headrace_gateway.openapi.operation import (
    ANY_OBJECT,
    FLAG,
    INTEGER,
    TEXT,
    ApiOperation,
    ApiSection,
    answer,
    body,
    described,
    events,
    list_of,
    members,
    one_of,
    or_null,
    ref,
)

_AGENT = described(TEXT, "The agent's name.")
_RESPONSE = "/v1/responses/{response}"

_CONVERSATION: Json = {"anyOf": [TEXT, members({"id": TEXT}), {"type": "null"}]}

_MODEL: Json = members(
    {"id": TEXT, "object": one_of("model"), "created": INTEGER, "owned_by": TEXT}
)

_COMPLETION_REQUEST: Json = {
    "type": "object",
    "required": ["model", "messages"],
    "properties": {
        "model": _AGENT,
        "messages": list_of(ANY_OBJECT),
        "conversation": _CONVERSATION,
        "stream": FLAG,
        "stream_options": members({}, {"include_usage": FLAG}),
        "tools": list_of(ANY_OBJECT),
    },
}

_COMPLETION: Json = {
    "type": "object",
    "required": ["id", "object", "created", "model", "choices"],
    "properties": {
        "id": TEXT,
        "object": one_of("chat.completion"),
        "created": INTEGER,
        "model": _AGENT,
        "choices": list_of(
            {
                "type": "object",
                "required": ["index", "message", "finish_reason"],
                "properties": {
                    "index": INTEGER,
                    "message": ANY_OBJECT,
                    "finish_reason": one_of("stop", "tool_calls"),
                },
            }
        ),
        "usage": ANY_OBJECT,
    },
}

_RESPONSE_REQUEST: Json = {
    "type": "object",
    "required": ["model", "input"],
    "properties": {
        "model": _AGENT,
        "input": {"type": ["string", "array"], "items": ANY_OBJECT},
        "conversation": _CONVERSATION,
        "previous_response_id": or_null(TEXT),
        "instructions": or_null(TEXT),
        "stream": FLAG,
        "background": FLAG,
        "tools": list_of(ANY_OBJECT),
        "metadata": ANY_OBJECT,
    },
}

_STATES = ("queued", "in_progress", "completed", "failed", "cancelled")

_RESPONSE_ANSWER: Json = {
    "type": "object",
    "required": ["id", "object", "created_at", "status", "model", "output", "conversation"],
    "properties": {
        "id": TEXT,
        "object": one_of("response"),
        "created_at": INTEGER,
        "completed_at": or_null(INTEGER),
        "status": one_of(*_STATES),
        "error": or_null(members({"code": TEXT, "message": TEXT})),
        "model": _AGENT,
        "output": list_of(ANY_OBJECT),
        "conversation": members({"id": TEXT}),
        "usage": or_null(ANY_OBJECT),
        "metadata": ANY_OBJECT,
    },
}

_INPUT_ITEMS: Json = members(
    {"object": one_of("list"), "data": list_of(ANY_OBJECT), "has_more": FLAG},
    {"first_id": TEXT, "last_id": TEXT},
)

_ERROR: Json = members(
    {
        "error": members(
            {"message": TEXT, "type": TEXT, "param": or_null(TEXT), "code": or_null(TEXT)}
        )
    }
)

SECTION = ApiSection(
    "OpenAI",
    "Agents as models of OpenAI's API: chat completions and responses.",
    (
        ApiOperation(
            "GET",
            "/v1/models",
            "ListModels",
            "List the agents that the caller may call",
            answer(members({"object": one_of("list"), "data": list_of(ref("Model"))})),
        ),
        ApiOperation(
            "GET", "/v1/models/{agent}", "GetModel", "Get one of them", answer(ref("Model"))
        ),
        ApiOperation(
            "POST",
            "/v1/chat/completions",
            "CreateChatCompletion",
            "Get a chat completion, whole or in chunks",
            events("The completion, or its chunks.", ref("ChatCompletion")),
            body=body(ref("ChatCompletionRequest")),
        ),
        ApiOperation(
            "POST",
            "/v1/responses",
            "CreateResponse",
            "Begin a response, and get it at its end, at once or as events",
            events("The response, or its events.", ref("Response")),
            body=body(ref("ResponseRequest")),
        ),
        ApiOperation(
            "GET",
            _RESPONSE,
            "GetResponse",
            "Get a response as it is now, or follow it after an event",
            events("The response, or its events.", ref("Response")),
            query={
                "stream": FLAG,
                "starting_after": described(INTEGER, "The number of an event."),
            },
        ),
        ApiOperation(
            "DELETE",
            _RESPONSE,
            "DeleteResponse",
            "Delete a response, and all others of its task",
            answer(members({"id": TEXT, "object": one_of("response"), "deleted": FLAG})),
        ),
        ApiOperation(
            "POST",
            f"{_RESPONSE}/cancel",
            "CancelResponse",
            "Cancel a response",
            answer(ref("Response")),
        ),
        ApiOperation(
            "GET",
            f"{_RESPONSE}/input_items",
            "ListInputItems",
            "List what the client of a response has said",
            answer(_INPUT_ITEMS),
        ),
    ),
    error=_ERROR,
    schemas={
        "Model": _MODEL,
        "ChatCompletionRequest": _COMPLETION_REQUEST,
        "ChatCompletion": _COMPLETION,
        "ResponseRequest": _RESPONSE_REQUEST,
        "Response": _RESPONSE_ANSWER,
    },
)
