"""What others wrote, shown on a terminal: nothing that it would obey, no line that is not ours."""

from importlib import import_module

import pytest
from click.testing import CliRunner, Result

from headrace.client.retries import RetryOptions
from headrace.model.events import Json
from headrace_cli.on_bus import CommandRefused
from tests.support.fake_gateway import FakeGateway, ScriptedResponse, answering

HOSTILE = "a\x1b[2J\x1b]0;title\x07\x9b31m\r\x00\u202e\u2028"
FAKE_LINE = f"{HOSTILE}\nFAKE line"
TASK: Json = {
    "id": "t1",
    "contextId": FAKE_LINE,
    "status": {
        "state": f"TASK_STATE_COMPLETED{FAKE_LINE}",
        "timestamp": FAKE_LINE,
        "message": {"parts": [{"text": HOSTILE}]},
    },
    "artifacts": [
        {
            "artifactId": "a",
            "parts": [{"text": HOSTILE}, {"filename": HOSTILE, "mediaType": HOSTILE}],
        }
    ],
}
CHILD = {"headrace.child": {"agent": FAKE_LINE, "task": FAKE_LINE, "state": FAKE_LINE}}
STATUS = {"taskId": FAKE_LINE, "status": TASK["status"], "metadata": CHILD}
STREAM = ScriptedResponse(frames=(("l:1", {"task": TASK}), ("l:2", {"statusUpdate": STATUS})))
REFUSAL = ScriptedResponse(400, {"error": {"code": 400, "message": HOSTILE}})
AGENTS = ScriptedResponse(body={"agents": [{"id": FAKE_LINE, "description": FAKE_LINE}]})


def shown(gateway: FakeGateway, *arguments: str) -> Result:
    main = import_module("headrace_cli.main").main
    answer = CliRunner().invoke(main, list(arguments), env={"HEADRACE_URL": gateway.url})
    assert answer.output
    assert answer.exception is None or isinstance(answer.exception, SystemExit)
    return answer


@pytest.mark.parametrize(
    ("arguments", "script"),
    [
        (["agents"], {"/v1/agents": AGENTS}),
        (["tasks", "--agent", "echo"], {"/v1/agents/echo/tasks?pageSize=20": {"tasks": [TASK]}}),
        (["tasks", "--agent", "echo"], {"/v1/agents/echo/tasks?pageSize=20": REFUSAL}),
        (["tail", "--agent", "echo", "t1"], {"/v1/agents/echo/tasks/t1": TASK}),
        (
            ["tail", "--agent", "echo", "--after", "log1:1", "t1"],
            {"/v1/agents/echo/tasks/t1": TASK, "/v1/agents/echo/tasks/t1:subscribe": STREAM},
        ),
        (["tail", "--agent", "echo", "t1"], {"/v1/agents/echo/tasks/t1": REFUSAL}),
        (["send", "--agent", "echo", "hi"], {"/v1/agents/echo/message:stream": STREAM}),
        (["send", "--agent", "echo", "hi"], {"/v1/agents/echo/message:stream": REFUSAL}),
        (["cancel", "--agent", "echo", "t1"], {"/v1/agents/echo/tasks/t1:cancel": TASK}),
        (["cancel", "--agent", "echo", "t1"], {"/v1/agents/echo/tasks/t1:cancel": REFUSAL}),
    ],
    ids=[
        *("agents", "tasks", "tasks refused", "tail", "tail on", "tail refused", "send"),
        *("send refused", "cancel", "cancel refused"),
    ],
)
def test_no_command_shows_what_a_terminal_would_obey(
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    script: dict[str, ScriptedResponse | Json],
) -> None:
    monkeypatch.setattr(RetryOptions, "pause", lambda *_: 0.0)
    answers = {
        path: given if isinstance(given, ScriptedResponse) else ScriptedResponse(body=given)
        for path, given in script.items()
    }
    with answering(**answers) as gateway:
        output = shown(gateway, *arguments)
    assert output.output
    for line in output.output.split("\n"):
        assert line.replace("\t", "").isprintable(), line
        assert not line.startswith("FAKE"), line


def test_what_nats_sends_is_cleaned_too() -> None:
    output = CommandRefused(f"stream X: {HOSTILE}").format_message()
    assert output.isprintable()
