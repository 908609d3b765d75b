"""What clients can't say: metadata that is the fleet's, and JSON that nests too deep."""

import orjson
import pytest

from headrace.model.events import Json
from headrace_gateway.json_errors import InputInvalid
from headrace_gateway.protocols.a2a.parameters import SendMessageParams
from headrace_gateway.protocols.a2a_v03.requests import rpc_params
from headrace_gateway.protocols.agui.run_input import RunInput
from headrace_gateway.protocols.copilotkit.runtime import RuntimeRequest

RESERVED: Json = {"headrace.queued": {"message": {}}, "headrace.inputSchema": {}, "headrace.": 1}


def run_input(**changes: object) -> Json:
    user = {"id": "m", "role": "user", "content": "hi"}
    given: Json = {"threadId": "t", "runId": "r", "state": {}, "messages": [user], "tools": []}
    return {**given, "context": [], "forwardedProps": {}, **changes}


def test_metadata_that_is_the_fleets_is_dropped_from_messages_and_parts() -> None:
    part = {"text": "hi", "metadata": {**RESERVED, "mine": 1}}
    bare = {"text": "hi", "metadata": RESERVED}
    message: Json = {"messageId": "m", "role": "ROLE_USER", "parts": [part, bare]}
    request = SendMessageParams.read(
        {"message": {**message, "metadata": {**RESERVED, "headrace": 2}}}
    )
    assert request.message["metadata"] == {"headrace": 2}
    assert request.message["parts"] == [{"text": "hi", "metadata": {"mine": 1}}, {"text": "hi"}]


def test_it_is_dropped_from_messages_of_0_3_too() -> None:
    part = {"kind": "text", "text": "hi", "metadata": RESERVED}
    message: Json = {"kind": "message", "messageId": "m", "role": "user", "parts": [part]}
    params = rpc_params("SendMessage", {"message": {**message, "metadata": RESERVED}})
    request = SendMessageParams.read(params)
    assert request.message.keys() == {"messageId", "role", "parts"}
    assert request.message["parts"] == [{"text": "hi"}]


def test_what_ag_ui_sends_stands_in_no_metadata_of_the_fleets() -> None:
    content = [{"type": "text", "text": "hi", "metadata": RESERVED}]
    user = {"id": "m", "role": "user", "content": content}
    request = RunInput.read(orjson.dumps(run_input(messages=[user], forwardedProps=RESERVED)))
    keys = {key for part in request.message["parts"] for key in part.get("metadata", {})}
    assert not {key for key in keys if key.startswith("headrace.")}
    assert request.metadata.keys() == {"headrace.agui"}
    assert "metadata" not in request.message


@pytest.mark.parametrize("field", ["state", "forwardedProps"])
@pytest.mark.parametrize("levels", [91, 260, 500])
def test_ag_ui_fields_that_nest_too_deep_are_named(field: str, levels: int) -> None:
    with pytest.raises(InputInvalid, match=f"{field}: must not be nested deeper than 90 levels"):
        RunInput.read(deep(field, levels))


def deep(field: str, levels: int) -> bytes:
    """Return a run input whose `field` nests so deep; orjson would not write it."""
    value = b'{"a":' * levels + b"{}" + b"}" * levels
    given = run_input()
    del given[field]
    return orjson.dumps(given)[:-1] + b',"' + field.encode() + b'":' + value + b"}"


def test_a_field_that_nests_as_deep_as_it_may_is_taken() -> None:
    assert RunInput.read(deep("state", 89)).metadata


def test_a_copilotkit_envelope_that_nests_too_deep_is_refused() -> None:
    body = b'{"method":"agent/run","params":{"agentId":"a"},"body":' + deep("state", 260) + b"}"
    with pytest.raises(InputInvalid, match="body: must not be nested deeper than 90 levels"):
        RuntimeRequest.read(body)
