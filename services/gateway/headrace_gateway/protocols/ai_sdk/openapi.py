"""What the OpenAPI document says of the routes of the AI SDK's transport."""

from headrace.model.events import Json
from headrace_gateway.call import AGENT
from headrace_gateway.openapi.operation import (
    ANY_OBJECT,
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
    ref,
)
from headrace_gateway.protocols.ai_sdk.request import REGENERATE, SUBMIT

BASE = f"{AGENT}/ai-sdk"

_MESSAGE: Json = {
    "type": "object",
    "required": ["id", "role", "parts"],
    "properties": {"id": TEXT, "role": one_of("user", "assistant"), "parts": list_of(ANY_OBJECT)},
}

_REQUEST: Json = {
    "type": "object",
    "required": ["id", "messages"],
    "properties": {
        "id": described(TEXT, "The chat's id."),
        "messages": described(
            list_of(ref("UIMessage")), "Only the last one is read: the log has the others."
        ),
        "trigger": one_of(SUBMIT, REGENERATE),
        "messageId": described(TEXT, "The message to answer anew."),
        "tools": described(list_of(ANY_OBJECT), "The page's own tools, as AG-UI's."),
        "context": list_of(ANY_OBJECT),
        "state": {},
        "headrace": described(ANY_OBJECT, "What the task is begun with, such as its priority."),
    },
}

_CHUNKS = "The chunks of the UI message stream."

SECTION = ApiSection(
    "AI SDK",
    "Chats as the AI SDK's `useChat` sends and resumes them.",
    (
        ApiOperation(
            "POST",
            BASE,
            "SendChat",
            "Send the last message of a chat, and follow the answer",
            events(_CHUNKS),
            body=body(ref("ChatRequest")),
        ),
        ApiOperation(
            "GET",
            f"{BASE}/{{chat}}/stream",
            "ResumeChat",
            "Follow the chat's newest answer from its start",
            events(f"{_CHUNKS} 204: there is no answer."),
        ),
        ApiOperation(
            "GET",
            f"{BASE}/{{chat}}/messages",
            "ListChatMessages",
            "List the chat's messages",
            answer(list_of(ref("UIMessage"))),
        ),
        ApiOperation(
            "POST",
            f"{BASE}/{{chat}}/stop",
            "StopChat",
            "Cancel what the agent does in the chat",
            answer(members({"stopped": described(list_of(TEXT), "The canceled tasks.")})),
        ),
    ),
    error=ref("Error"),
    schemas={"UIMessage": _MESSAGE, "ChatRequest": _REQUEST},
)
