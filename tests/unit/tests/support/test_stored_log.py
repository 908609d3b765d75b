"""How tests read a log: an election is no empty log."""

import base64
import json
from typing import cast

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.support.stored_log import Json, read_log

_NOBODY_LEADS: Json = {"error": {"code": 503, "err_code": 10008}}
_NOTHING: Json = {"error": {"code": 404, "err_code": 10037}}
_BEHIND: Json = {
    "cluster": {"leader": "node-1", "replicas": [{"name": "node-2", "current": False}]},
    "state": {},
}
_SETTLED: Json = {
    "cluster": {
        "leader": "node-1",
        "replicas": [{"current": True}, {"current": False, "offline": True}],
    },
    "state": {},
}
_STORED: Json = {
    "message": {
        "seq": 7,
        "hdrs": base64.b64encode(b"NATS/1.0\r\nHeadrace-Log: abcd\r\n\r\n").decode(),
        "data": base64.b64encode(b"{}").decode(),
        "time": "2026-01-01T00:00:00Z",
    }
}


class _Scripted:
    """A server that answers each operation as scripted; what is no object is raised."""

    def __init__(self, **answers: list[Json | Exception]) -> None:
        self.answers = answers

    async def request(self, subject: str, _: bytes, timeout: float) -> Msg:
        assert timeout
        answer = self.answers[subject.split(".")[3]].pop(0)
        if isinstance(answer, Exception):
            raise answer
        return Msg(cast("Client", self), data=json.dumps(answer).encode())

    async def close(self) -> None: ...


async def test_a_log_is_read_to_its_end_through_an_election(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = _Scripted(
        INFO=[TimeoutError(), _NOBODY_LEADS, _BEHIND, _SETTLED],
        MSG=[_NOBODY_LEADS, TimeoutError(), _STORED, _NOBODY_LEADS, _NOTHING],
    )

    async def connect(_: object) -> _Scripted:
        return server

    monkeypatch.setattr(nats, "connect", connect)
    [message] = await read_log("", "echo", "00-1")
    assert (message.sequence, message.headers, message.events) == (
        7,
        {"Headrace-Log": "abcd"},
        [{}],
    )
    assert server.answers == {"INFO": [], "MSG": []}
