"""A message in a URL, for ``EventSource``: it can only GET, and asks again whenever it reconnects.

So the cursors of such a stream say whose task it is, ``<task>/<cursor>``. A request with one goes
on with that task, whatever message its URL repeats: nothing is asked twice.
"""

from dataclasses import replace

from starlette.datastructures import QueryParams

from headrace.model.events import Json
from headrace_gateway.call import IDEMPOTENCY_KEY, Call
from headrace_gateway.protocols.a2a.variants import Variant
from headrace_gateway.refusals import Malformed, Violation
from headrace_gateway.server.body import parse_object

_IDS = ("contextId", "messageId", "taskId")
"""Of the message, for those who send its text alone."""


def asked_by_get(variant: Variant, call: Call, query: QueryParams) -> tuple[Call, str, Json]:
    """Return what is asked: the call with its cursor, the operation and its parameters.

    What a text alone leaves out of a message, `variant` adds.

    Raises:
        Malformed: the query holds no message, or the cursor is none of such a stream's.
        JSONParseError: the message begins as an object, but is no JSON.
    """
    if call.cursor:
        task, _, cursor = call.cursor.rpartition("/")
        if not task or not cursor:
            rule = "must be the id of an event of this stream: a task and a cursor"
            raise Malformed([Violation("Last-Event-ID", rule)])
        return replace(call, cursor=cursor), "SubscribeToTask", {"id": task}
    key = call.idempotency_key or query.get(IDEMPOTENCY_KEY)
    params = variant.complete({"message": _message(query)})
    return replace(call, idempotency_key=key), "SendStreamingMessage", params


def _message(query: QueryParams) -> Json:
    """Return the message: JSON as it would stand in a body, or its text."""
    said = query.get("message", "")
    if not said:
        raise Malformed([Violation("message", "is required in the query: its text, or JSON")])
    if said.lstrip().startswith("{"):
        return parse_object(said.encode())
    return {"parts": [{"text": said}], **{name: query[name] for name in _IDS if query.get(name)}}
