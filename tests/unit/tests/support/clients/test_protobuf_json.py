"""A message received over gRPC is compared with what the log has."""

import pytest
from a2a.types.a2a_pb2 import StreamResponse
from google.protobuf.json_format import ParseDict

from tests.support.clients.protobuf_json import as_logged


@pytest.mark.parametrize("time", ["2026-01-01T00:00:00.000Z", "2026-01-01T00:00:00.100Z"])
def test_times_and_numbers_are_as_the_log_has_them(time: str) -> None:
    status = {"state": "TASK_STATE_WORKING", "timestamp": time}
    event = {"taskId": "t", "status": status, "metadata": {"n": 1, "half": 0.5}}
    assert as_logged(ParseDict({"statusUpdate": event}, StreamResponse())) == {
        "statusUpdate": event
    }
