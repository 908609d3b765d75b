"""`headrace agui check`: good streams keep every rule, and each broken rule is named."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import Event
from click.testing import CliRunner, Result
from hypothesis import given
from pydantic import TypeAdapter

from headrace.model.events import Json
from headrace_cli.agui.checker import Checker
from headrace_cli.agui.events import DEPRECATED, FIELDS
from headrace_cli.agui.finding import RULES
from tests.support.agui.logs import (
    GIVEN,
    RUN,
    RUN_METADATA,
    THREAD,
    AguiLog,
    agui_logs,
    unhurried,
)

ASKED: Json = {
    "threadId": THREAD,
    "runId": RUN,
    "protocolVersion": "1.0",
    "messages": GIVEN,
    "state": RUN_METADATA["state"],
}
STARTED: Json = {
    "type": "RUN_STARTED",
    "threadId": THREAD,
    "runId": RUN,
    "protocolVersion": "1.0",
}
FINISHED: Json = {"type": "RUN_FINISHED", "threadId": THREAD, "runId": RUN}


def text(kind: str, message: str = "m", **more: Any) -> Json:  # noqa: ANN401
    return {"type": f"TEXT_MESSAGE_{kind}", "messageId": message, **more}


def call(kind: str, call: str = "c", **more: Any) -> Json:  # noqa: ANN401
    return {"type": f"TOOL_CALL_{kind}", "toolCallId": call, **more}


WHOLE_CALL = [
    call("START", toolCallName="f", parentMessageId="m"),
    call("ARGS", delta="{}"),
    call("END"),
]
RESULT = call("RESULT", messageId="r", content="3")
GOOD = [STARTED, text("START", role="assistant"), text("CONTENT", delta="x"), text("END"), FINISHED]


def levels(events: list[Json], requests: Json = ASKED, *, end: bool = True) -> dict[str, set[str]]:
    """Return which rules were found at which level."""
    checker = Checker(requests)
    findings = [finding for event in events for finding in checker.take(event)]
    found: dict[str, set[str]] = {"kept": set(), "doubtful": set(), "broken": set()}
    for finding in [*findings, *(checker.end() if end else [])]:
        found[finding.level].add(finding.rule)
        assert bool(finding.why) == (finding.level != "kept") or finding.level == "kept"
    return found


def test_it_knows_the_protocols_events_and_their_fields() -> None:
    schema = TypeAdapter(Event).json_schema(by_alias=True)["$defs"]
    models = {d["properties"]["type"]["const"]: d for n, d in schema.items() if n.endswith("Event")}
    assert FIELDS.keys() - DEPRECATED == models.keys()
    for kind, model in models.items():
        assert FIELDS[kind].keys() == model["properties"].keys() - {"type"}, kind
        required = {name for name, field in FIELDS[kind].items() if field.is_required}
        assert required == set(model.get("required", [])) - {"type"}, kind


@unhurried
@given(agui_logs())
def test_what_a_gateway_sends_keeps_every_rule(log: AguiLog) -> None:
    modern = "1.0" if log.frames()[0].event["protocolVersion"] else None
    request = {**ASKED, "protocolVersion": modern}
    frames = [frame.event for frame in log.frames()]
    found = levels(frames, request, end=log.state != "TASK_STATE_WORKING")
    # A random agent's arguments are no JSON, and it may answer a call that its own snapshot of the
    # conversation has answered; the gateway hands both on as they are.
    assert found["broken"] <= {"tool.arguments", "tool.result"}


def test_two_subagents_may_have_steps_of_one_name_and_each_ends_its_own() -> None:
    children = [{"subagentRunId": run} for run in ("c-1", "c-2")]
    begun = [{"type": "SUBAGENT_STARTED", "name": "x", **child} for child in children]
    steps = [{"type": "STEP_STARTED", "stepName": "s", **child} for child in [*children, {}]]
    assert levels([STARTED, *begun, *steps], end=False)["broken"] == set()
    foreign = {"type": "STEP_FINISHED", "stepName": "s", **children[1]}
    assert levels([STARTED, *begun, steps[0], foreign], end=False)["broken"] == {"item.open"}


def test_a_good_stream_keeps_every_rule_that_it_touches() -> None:
    found = levels(GOOD)
    assert found["broken"] == found["doubtful"] == set()
    assert {"run.first", "run.names", "run.version", "run.ends", "item.once"} <= found["kept"]


BAD: list[tuple[str, list[Json]]] = [
    ("event.type", [STARTED, {"type": "messageDelta"}, FINISHED]),
    ("event.type", [STARTED, {}, FINISHED]),
    ("event.fields", [STARTED, text("START"), text("CONTENT"), text("END"), FINISHED]),
    ("event.fields", [STARTED, text("START", role="wizard"), text("END"), FINISHED]),
    ("event.fields", [STARTED, {"type": "STATE_DELTA", "patch": []}, FINISHED]),
    ("run.first", [text("START"), text("END"), FINISHED]),
    ("run.once", [STARTED, STARTED, FINISHED]),
    ("run.names", [{**STARTED, "runId": "other"}, FINISHED]),
    ("run.version", [{**STARTED, "protocolVersion": "0.9"}, FINISHED]),
    ("run.ends", [STARTED]),
    ("run.ends", [STARTED, FINISHED, text("START")]),
    ("run.outcome", [STARTED, {**FINISHED, "outcome": {"type": "interrupt", "interrupts": []}}]),
    ("run.outcome", [STARTED, {**FINISHED, "outcome": {"type": "perhaps"}}]),
    ("item.once", [STARTED, text("START"), text("START"), text("END"), FINISHED]),
    ("item.open", [STARTED, text("CONTENT", delta="x"), FINISHED]),
    ("item.open", [STARTED, {"type": "TEXT_MESSAGE_CHUNK", "delta": "x"}, FINISHED]),
    ("item.open", [STARTED, {"type": "STEP_FINISHED", "stepName": "s"}, FINISHED]),
    ("item.closed", [STARTED, text("START"), FINISHED]),
    ("tool.arguments", [STARTED, WHOLE_CALL[0], call("ARGS", delta="{"), WHOLE_CALL[2], FINISHED]),
    ("tool.result", [STARTED, *WHOLE_CALL, RESULT, {**RESULT, "messageId": "r2"}, FINISHED]),
    ("message.id", [STARTED, *WHOLE_CALL, {**RESULT, "messageId": "m"}, FINISHED]),
    ("message.id", [STARTED, text("START", "u", role="assistant"), text("END", "u"), FINISHED]),
    ("messages.shape", [STARTED, {"type": "MESSAGES_SNAPSHOT", "messages": [{"id": "x"}]}]),
    ("messages.shape", [STARTED, {"type": "MESSAGES_SNAPSHOT", "messages": [*GIVEN, GIVEN[0]]}]),
    (
        "state.applies",
        [STARTED, {"type": "STATE_DELTA", "delta": [{"op": "remove", "path": "/x"}]}, FINISHED],
    ),
    (
        "activity.applies",
        [
            STARTED,
            {
                "type": "ACTIVITY_DELTA",
                "messageId": "a",
                "activityType": "x",
                "patch": [{"op": "add", "path": "/x", "value": 1}],
            },
            FINISHED,
        ],
    ),
    (
        "encrypted.entity",
        [
            STARTED,
            {
                "type": "REASONING_ENCRYPTED_VALUE",
                "subtype": "message",
                "entityId": "x",
                "encryptedValue": "v",
            },
            FINISHED,
        ],
    ),
]


@pytest.mark.parametrize(("rule", "events"), BAD, ids=[f"{n}-{r}" for n, (r, _) in enumerate(BAD)])
def test_a_broken_rule_is_named(rule: str, events: list[Json]) -> None:
    assert rule in levels(events)["broken"]
    assert rule in RULES


@pytest.mark.parametrize(
    ("rule", "events"),
    [
        ("event.unknown", [STARTED, {**FINISHED, "eventId": "e"}]),
        ("event.version", [STARTED, {"type": "THINKING_START"}, {"type": "THINKING_END"}]),
        ("event.time", [{**STARTED, "timestamp": 2}, {**FINISHED, "timestamp": 1}]),
        ("delta.text", [STARTED, text("START"), text("CONTENT", delta=""), text("END"), FINISHED]),
        ("tool.parent", [STARTED, call("START", toolCallName="f"), call("END"), FINISHED]),
        ("tool.result", [STARTED, RESULT, FINISHED]),
        ("messages.kept", [STARTED, {"type": "MESSAGES_SNAPSHOT", "messages": []}, FINISHED]),
    ],
)
def test_what_clients_forgive_is_doubtful(rule: str, events: list[Json]) -> None:
    found = levels(events, end=False)
    assert rule in found["doubtful"]
    assert rule not in found["broken"]


def test_a_0_x_client_gets_nothing_of_1_0() -> None:
    request = {**ASKED, "protocolVersion": None}
    begun = {"type": "SUBAGENT_STARTED", "subagentRunId": "s", "name": "n"}
    assert "event.version" in levels([STARTED, begun], request, end=False)["broken"]


def sse(*events: Json) -> bytes:
    return b"".join(b": hi\n\nid: 1\ndata: %b\n\n" % json.dumps(event).encode() for event in events)


@contextmanager
def serving(
    body: bytes, status: int = 200, media_type: str = "text/event-stream", *, lenient: bool = False
) -> Iterator[str]:
    """Serve one agent whose runs are all answered with `body`."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            is_run = "threadId" in sent
            names = {"threadId": sent.get("threadId"), "runId": sent.get("runId")}
            received = body
            for name, value in names.items():
                received = received.replace(f"${name}".encode(), str(value).encode())
            self._tell(status if is_run or lenient else 400, received, media_type)

        def do_GET(self) -> None:
            self._tell(200, b'{"identity":{},"telepathy":{}}', "application/json")

        def _tell(self, status: int, body: bytes, media_type: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", media_type)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ANN401
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = False  # closing waits for them

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/agent"
        finally:
            server.shutdown()
            thread.join()


def headrace(*arguments: str) -> Result:
    main = import_module("headrace_cli.main").main
    return CliRunner().invoke(main, ["agui", *arguments])


NAMED = {"threadId": "$threadId", "runId": "$runId"}
RUN_OF_IT = [{**STARTED, **NAMED}, {**FINISHED, **NAMED}]


def test_each_line_names_an_event_and_the_rules_that_it_keeps() -> None:
    with serving(sse(*RUN_OF_IT)) as url:
        result = headrace("check", url)
    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert "BROKEN http.capabilities" in lines[1]
    assert lines[3].split()[:3] == ["1", "RUN_STARTED", "ok"]
    assert "run.version" in lines[3]
    assert lines[-2] == "2 events: 26 rules kept, 0 doubtful, 1 broken"


@pytest.mark.parametrize(
    ("rule", "body", "status", "media_type"),
    [
        ("sse.framing", sse(*RUN_OF_IT).replace(b"\n", b"\r\n"), 200, "text/event-stream"),
        ("sse.framing", sse(*RUN_OF_IT)[:-1], 200, "text/event-stream"),
        ("sse.json", sse(*RUN_OF_IT) + b"data: [DONE]\n\n", 200, "text/event-stream"),
        ("sse.json", sse(*RUN_OF_IT) + b"data: 3\n\n", 200, "text/event-stream"),
        ("sse.size", sse({"x": "y" * 10_000_001}), 200, "text/event-stream"),
        ("http.status", b"{}", 500, "application/json"),
        ("http.content-type", sse(*RUN_OF_IT), 200, "application/json"),
        ("run.ends", b"", 200, "text/event-stream"),
    ],
)
def test_what_is_wrong_on_the_wire_is_named(
    rule: str, body: bytes, status: int, media_type: str
) -> None:
    with serving(body, status, media_type) as url:
        result = headrace("check", "--brief", url)
    assert result.exit_code == 1
    assert f"BROKEN {rule} ({RULES[rule]})" in result.output


def test_an_endpoint_that_streams_whatever_it_gets_is_named() -> None:
    with serving(sse(*RUN_OF_IT), lenient=True) as url:
        assert "BROKEN http.refusal" in headrace("check", url).output


def test_an_input_of_ones_own_is_sent(tmp_path: Path) -> None:
    (tmp_path / "input.json").write_text(json.dumps({**ASKED, "threadId": "mine"}))
    with serving(sse(*RUN_OF_IT)) as url:
        mine = headrace("check", "--input", str(tmp_path / "input.json"), "--header", "a: b", url)
        assert "run.names" not in [line.split()[1] for line in mine.output.splitlines() if line]
        (tmp_path / "input.json").write_text("[]")
        refused = headrace("check", "--input", str(tmp_path / "input.json"), url)
    assert (refused.exit_code, "not a RunAgentInput" in refused.output) == (2, True)


@pytest.mark.parametrize(
    "arguments",
    [["not a url"], ["http://127.0.0.1:1/x"], ["--header", "nothing", "http://127.0.0.1:1/"]],
)
def test_a_request_that_is_not_possible_exits_with_2(arguments: list[str]) -> None:
    result = headrace("check", *arguments)
    assert result.exit_code == 2
    assert "Error" in result.output


def test_the_rules_can_be_read() -> None:
    received = headrace("rules").output
    assert all(f"{rule} " in received for rule in RULES)
