"""What the OpenAPI document says of A2A's routes, from the routes and A2A's own definitions."""

from collections.abc import Iterator, Mapping
from typing import cast

from a2a.types import a2a_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from headrace.model.events import Json
from headrace_gateway.call import AGENT, IDEMPOTENCY_KEY
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
    ref,
)
from headrace_gateway.openapi.protobuf_schema import schema_of_field
from headrace_gateway.protocols.a2a.discovery import CATALOG_PATH, CATALOG_TYPE
from headrace_gateway.protocols.a2a.follow import FOLLOW
from headrace_gateway.protocols.a2a.operations import STREAMING
from headrace_gateway.protocols.a2a.rest import FOLLOW_PATH, FROM_QUERY, IDS, REQUESTS, ROUTES
from headrace_gateway.signed_cards import JWKS_PATH

_SUMMARIES = {
    "SendStreamingMessage": "Send a message, and follow the task to the end of its run",
    "SendMessage": "Send a message, and wait for the task to end or to need its user",
    "SubscribeToTask": "Follow a task after an event, or from its current state",
    "CancelTask": "Cancel a task",
    "GetTask": "Get a task",
    "ListTasks": "List tasks, the latest first",
    "CreateTaskPushNotificationConfig": "Register a webhook of a task",
    "ListTaskPushNotificationConfigs": "List the webhooks of a task",
    "GetTaskPushNotificationConfig": "Get a webhook of a task",
    "DeleteTaskPushNotificationConfig": "Delete a webhook of a task",
    "GetExtendedAgentCard": "Get the agent's card for authenticated clients",
    "DeleteTask": "Delete a task and all its data",
    "ForkTask": "Begin a task that continues the past of another one",
}

_ANSWERS: Mapping[str, type[Message] | None] = {
    method.name: getattr(a2a_pb2, method.output_type.name, None)
    for method in a2a_pb2.DESCRIPTOR.services_by_name["A2AService"].methods
} | {"ForkTask": a2a_pb2.Task}

_FORK: Json = members(
    {},
    {
        "generation": described(INTEGER, "The last event of the past; without it, the newest."),
        "message": ref(a2a_pb2.Message),
        "metadata": ANY_OBJECT,
    },
)

_LAST_EVENT_ID = {
    "Last-Event-ID": described(TEXT, "The id of the last event that the client has received.")
}
_KEY = {IDEMPOTENCY_KEY: described(TEXT, "The same message under the same key is accepted once.")}
_FOLLOWED = "The task's events, each with its cursor as id. 204: nothing follows."

_ERROR: Json = members(
    {
        "error": members(
            {
                "code": described(INTEGER, "The HTTP status."),
                "status": described(TEXT, "The gRPC status."),
                "message": TEXT,
                "details": list_of(ANY_OBJECT),
            }
        )
    }
)


def _rest() -> Iterator[ApiOperation]:
    """Yield the operations of the REST binding."""
    for method, path, operation in ROUTES:
        sends = operation in {"SendMessage", "SendStreamingMessage"}
        is_get_twin = method == "GET" and operation == "SubscribeToTask"
        yield ApiOperation(
            method,
            AGENT + path,
            f"{operation}ByGet" if is_get_twin else operation,
            _SUMMARIES[operation],
            _answers(operation),
            query=_query(operation, path) if method == "GET" else {},
            headers=_KEY if sends else _LAST_EVENT_ID if operation in STREAMING else {},
            body=_body(operation) if method == "POST" else None,
        )
    yield ApiOperation(
        "GET",
        AGENT + FOLLOW_PATH,
        FOLLOW,
        "Follow all tasks of a context, those that begin later included",
        events("The tasks' events. The data of each is a StreamResponse."),
        headers=_LAST_EVENT_ID,
    )
    yield ApiOperation(
        "GET",
        AGENT + FROM_QUERY,
        "SendMessageInQuery",
        "Send a message in the URL, as an EventSource does",
        events(_FOLLOWED),
        query={"message": described(TEXT, "The text, or the message as JSON."), **_ids()},
        headers=_LAST_EVENT_ID,
    )


def _ids() -> Mapping[str, Json]:
    return dict.fromkeys((*IDS, IDEMPOTENCY_KEY), TEXT)


def _answers(operation: str) -> Mapping[int, Json]:
    if operation in STREAMING:
        return events(f"{_FOLLOWED} The data of each is a StreamResponse.")
    kind = _ANSWERS.get(operation)
    return answer(members({}) if kind is None else ref(kind))


def _body(operation: str) -> Json:
    if operation == "ForkTask":
        return body(_FORK, may_be_empty=True)
    return body(ref(REQUESTS[operation]), may_be_empty="Send" not in operation)


def _query(operation: str, path: str) -> Mapping[str, Json]:
    """Return the fields of the operation's request that are not in its path."""
    fields = cast("Descriptor", REQUESTS[operation].DESCRIPTOR).fields
    owner = described(TEXT, "For operators: only this owner's tasks.")
    own = {"owner": owner} if operation == "ListTasks" else {}
    return own | {
        field.json_name: schema_of_field(field)
        for field in fields
        if _fits_query(field) and f"{{{field.json_name}}}" not in path
    }


def _fits_query(field: FieldDescriptor) -> bool:
    kind = field.message_type
    return kind is None or kind.full_name == "google.protobuf.Timestamp"


_AGENT_ENTRY: Json = members(
    {
        "id": TEXT,
        "name": TEXT,
        "url": described(TEXT, "The agent's path."),
        "description": TEXT,
        "version": TEXT,
        "available": described(FLAG, "Whether a worker runs it now."),
        "default": described(FLAG, "Whether requests that name no agent go to it."),
        "card": described(TEXT, "The URL of its card."),
    },
    {"iconUrl": TEXT, "documentationUrl": TEXT, "provider": ANY_OBJECT},
)

_CARD = answer(ref(a2a_pb2.AgentCard), "The signed card.")

_DISCOVERY = (
    ApiOperation(
        "GET",
        "/v1/agents",
        "ListAgents",
        "List the agents",
        answer(members({"agents": list_of(ref("AgentEntry"))})),
    ),
    ApiOperation(
        "GET", f"{AGENT}/.well-known/agent-card.json", "GetAgentCard", "Get an agent's card", _CARD
    ),
    ApiOperation("GET", AGENT, "GetAgent", "Get an agent's card at its own URL", _CARD),
    ApiOperation(
        "GET",
        "/.well-known/agent-card.json",
        "GetDefaultAgentCard",
        "Get the card of the default agent",
        _CARD,
    ),
    ApiOperation(
        "GET",
        "/.well-known/a2a",
        "ListA2AAgents",
        "List the agents by name",
        answer(members({"agents": list_of(members({"id": TEXT, "name": TEXT, "url": TEXT}))})),
    ),
    ApiOperation(
        "GET",
        "/.well-known/a2a/agents/{agent}",
        "GetA2AAgent",
        "Get an agent by name",
        answer(members({"agent": ref(a2a_pb2.AgentCard)})),
    ),
    ApiOperation(
        "GET",
        CATALOG_PATH,
        "GetCatalog",
        "Get the AI Catalog of the agents",
        {200: {"description": "Done.", "content": {CATALOG_TYPE: {"schema": ANY_OBJECT}}}},
    ),
    ApiOperation(
        "GET",
        JWKS_PATH,
        "GetKeySet",
        "Get the public keys with which cards and notifications are signed",
        answer(members({"keys": list_of(ANY_OBJECT)})),
        is_public=True,
    ),
)

_RPC: Json = members(
    {"jsonrpc": one_of("2.0"), "method": described(TEXT, "The operation's name.")},
    {"id": {"type": ["string", "integer", "null"]}, "params": ANY_OBJECT},
)
_RPC_ANSWER: Json = members(
    {"jsonrpc": one_of("2.0"), "id": {"type": ["string", "integer", "null"]}},
    {
        "result": {},
        "error": members({"code": INTEGER, "message": TEXT}, {"data": list_of(ANY_OBJECT)}),
    },
)

_JSON_RPC = ApiOperation(
    "POST",
    AGENT,
    "CallJsonRpc",
    "Call an operation by JSON-RPC",
    events("The answer, or the events of a streaming operation.", ref("JsonRpcResponse")),
    headers=_KEY,
    body=body(ref("JsonRpcRequest")),
)

SECTION = ApiSection(
    "A2A",
    "The Agent2Agent protocol 1.0: its JSON-RPC and REST bindings, agent cards and discovery.",
    (_JSON_RPC, *_rest(), *_DISCOVERY),
    error=_ERROR,
    schemas={
        "AgentEntry": _AGENT_ENTRY,
        "JsonRpcRequest": _RPC,
        "JsonRpcResponse": _RPC_ANSWER,
    },
    messages=tuple(
        dict.fromkeys(
            [*REQUESTS.values(), *filter(None, _ANSWERS.values()), a2a_pb2.StreamResponse]
        )
    ),
)
