"""Results in A2A 0.3's protobuf."""

import pytest
from a2a.utils.errors import InvalidAgentResponseError

from headrace_gateway.protocols.a2a_v03.responses import proto_answer


def test_what_protobuf_does_not_hold_is_no_internal_error() -> None:
    nested: object = 1
    for _ in range(33):
        nested = {"a": nested}
    status = {"state": "TASK_STATE_COMPLETED"}
    task = {
        "id": "t",
        "contextId": "c",
        "status": status,
        "metadata": {"headrace.timeline": nested},
    }
    with pytest.raises(InvalidAgentResponseError, match=r"can't be converted to A2A 0\.3"):
        proto_answer("GetTask", task)
