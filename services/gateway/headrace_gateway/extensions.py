"""A2A extensions that the gateway offers, and those that a call activates."""

from a2a.extensions.common import HTTP_EXTENSION_HEADER, get_requested_extensions
from a2a.utils.errors import ExtensionSupportRequiredError
from starlette.requests import HTTPConnection

from headrace.directory import AgentCard
from headrace.model.events import Json

CURSORS = "urn:headrace:cursor:v1"
"""Every SSE frame has a cursor as its ``id``; SubscribeToTask resumes after ``Last-Event-ID``."""

GENERATIONS = "urn:headrace:generation:v1"
"""A2A v1.1's generations in advance: long-polling GetTask, conditional SendMessage."""

TIMELINES = "urn:headrace:timeline:v1"
"""A2A v1.1's timeline in advance: GetTask with what client and agent said, in order."""

DELETION = "urn:headrace:delete-task:v1"
"""DeleteTask: an owner can have a task erased."""

FORKS = "urn:headrace:fork:v1"
"""ForkTask: a new task begins with the past of another."""

CONTEXTS = "urn:headrace:thread:v1"
"""SubscribeToContext: the events of all tasks of a context."""

DELAYS = "urn:headrace:start-at:v1"
"""SendMessage may state when its run begins."""

AGUI_EVENTS = "https://ag-ui.org/protocol/v1"
"""Streams as AG-UI events, in Hector's form."""

AGUI_MEDIA_TYPES = ("application/x-agui-events", "application/agui+json")
"""Either one in `Accept` requests AG-UI events, as does ``?format=agui``."""

_DESCRIPTIONS = {
    CURSORS: "Streams can be resumed: each event's SSE id is a cursor, and SubscribeToTask with "
    "the header Last-Event-ID (or ?after=) continues after it, also when the task is over. "
    "If those events are gone, the response has Headrace-Recovered: false and begins with "
    "the Task, whose metadata has headrace.recovered: false.",
    GENERATIONS: "Every change of a task has a number, from 1: headrace.generation in the metadata "
    "of the Task and of update events. GetTask with currentGeneration waits until the task's "
    "number is larger. SendMessage with configuration.ifGenerationMatch continues a task "
    "only if it is at that generation, and is refused with -32010 (HTTP 409) otherwise.",
    TIMELINES: "GetTask with timelineLength, or with this extension activated, has what the client "
    "and the agent said in the order of its generations, as in A2A v1.1's draft: "
    "headrace.timeline in the Task's metadata, and headrace.startGeneration and "
    "headrace.endGeneration in that of its artifacts.",
    DELETION: "DeleteTask (in REST: DELETE /tasks/{id}) erases a task of the caller permanently. A "
    "task that has not ended is canceled first. The parameters are CancelTask's, and the "
    "response is an empty object. A repeated request gets the same response; all other "
    "requests for the task get TaskNotFound.",
    FORKS: "ForkTask (in REST: POST /tasks/{id}:fork) begins a new task with the caller's task's "
    "events up to a generation, and continues with a message, or as the task did. The "
    "parameters are id, generation (without it the current one), message and metadata; the "
    "response is the new Task, whose metadata has headrace.forkOf. In the middle of a run, "
    "the past ends with the last input, checkpoint or step before the generation.",
    CONTEXTS: "SubscribeToContext (in REST: GET /contexts/{contextId}:subscribe) streams the "
    "events of all tasks that the caller has begun in the context with this agent, those that "
    "begin later included, as StreamResponses that name their tasks. The parameter is contextId. "
    "It begins with the oldest event, or after Last-Event-ID (or ?after=), on any gateway, "
    "and has no end.",
    DELAYS: "SendMessage and SendStreamingMessage with headrace.startAt, an RFC 3339 time, in "
    "their metadata create the task at once, and its run begins at that time. "
    "SendMessage returns the SUBMITTED task.",
    AGUI_EVENTS: "Streams contain events for user interfaces (messages, content blocks, thinking, "
    f"tool calls, tasks) if Accept has {' or '.join(AGUI_MEDIA_TYPES)}, "
    "or the query has format=agui.",
}

OFFERED: tuple[Json, ...] = tuple(
    {"uri": uri, "description": text, "required": False} for uri, text in _DESCRIPTIONS.items()
)
"""The extensions in every card's capabilities."""

NAMES = (HTTP_EXTENSION_HEADER, "X-A2A-Extensions")
"""Headers that activate extensions; clients of A2A 0.3 send the second one, some send both."""

HEADERS = frozenset(name.lower() for name in NAMES)
"""The same in lower case."""


def requested_extensions(request: HTTPConnection) -> dict[str, list[str]]:
    """Return the values of each of `NAMES` in the request's headers or query."""
    stated = {
        name: request.headers.getlist(name) + request.query_params.getlist(name) for name in NAMES
    }
    return {name: values for name, values in stated.items() if values}


def activated(card: AgentCard, values: list[str]) -> tuple[str, ...]:
    """Return the extensions that `values` of `NAMES` activate: the gateway's or `card`'s.

    Raises:
        ExtensionSupportRequiredError: an extension that the card requires is missing.
    """
    requested = get_requested_extensions(values) if values else set()
    for extension in card.extensions:
        if extension.get("required") and extension["uri"] not in requested:
            raise ExtensionSupportRequiredError(
                f"agent {card.name} requires the extension {extension['uri']}: name it in "
                f"{HTTP_EXTENSION_HEADER}"
            )
    return tuple(sorted(requested & (_DESCRIPTIONS.keys() | own(card)))) if requested else ()


def own(card: AgentCard) -> set[str]:
    """Return the URIs of the agent's own extensions."""
    return {extension["uri"] for extension in card.extensions}
