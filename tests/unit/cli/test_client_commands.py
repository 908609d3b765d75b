"""What the client commands ask a gateway and show of its answers."""

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from subprocess import PIPE, Popen

import pytest
from click.testing import CliRunner, Result

from headrace.client.retries import RetryOptions
from headrace.model.events import Json
from tests.support.fake_gateway import FakeGateway, ScriptedResponse, answering

AGENTS = ScriptedResponse(
    body={
        "agents": [
            {"id": "echo", "available": True, "description": "Says it again"},
            {"id": "counter", "available": False},
        ]
    }
)
UNRATED = ScriptedResponse(body={"feedback": None})
"""What is said of a task that nobody gave feedback on."""


def headrace(gateway: FakeGateway, *arguments: str) -> Result:
    main = import_module("headrace_cli.main").main
    return CliRunner().invoke(main, [*arguments, "--url", gateway.url])


def task(state: str, *texts: str) -> Json:
    artifacts = [{"artifactId": f"a{i}", "parts": [{"text": t}]} for i, t in enumerate(texts)]
    status = {"state": f"TASK_STATE_{state}", "timestamp": "2026-01-02T03:04:05Z"}
    return {"id": "t1", "contextId": "c1", "status": status, "artifacts": artifacts}


def status(state: str, text: str = "") -> Json:
    output = {"message": {"parts": [{"text": text}]}} if text else {}
    return {"statusUpdate": {"taskId": "t1", "status": {"state": f"TASK_STATE_{state}"} | output}}


def chunk(text: str, *, append: bool = True, artifact: str = "a0") -> Json:
    body = {"artifactId": artifact, "parts": [{"text": text}]}
    return {"artifactUpdate": {"taskId": "t1", "artifact": body, "append": append}}


def stream(*events: Json, first: int = 1) -> ScriptedResponse:
    return ScriptedResponse(
        frames=tuple((f"log1:{first + i}", event) for i, event in enumerate(events))
    )


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RetryOptions, "pause", lambda *_: 0.0)


def test_agents_are_listed_with_their_state() -> None:
    with answering(**{"/v1/agents": AGENTS}) as gateway:
        answer = headrace(gateway, "agents")
        as_json = headrace(gateway, "agents", "--json")
    assert answer.output.splitlines() == [
        "AGENT    STATE      DESCRIPTION",
        "echo     available  Says it again",
        "counter  no worker",
    ]
    first = {"name": "echo", "available": True, "default": False, "description": "Says it again"}
    second = {"name": "counter", "available": False, "default": False, "description": ""}
    assert [json.loads(line) for line in as_json.output.splitlines()] == [first, second]


def test_usage_is_a_table_and_json_for_the_days_and_groups() -> None:
    counts = {"inputTokens": 7, "outputTokens": 2, "tokens": 9, "runs": 1, "runSeconds": 1.5}
    row = {"agent": "echo", "owner": "ann", **counts, "cost": 0.25}
    path = "/v1/usage?from=2026-02-27&to=2026-03-01&by=agent%2Cowner"
    options = ("--to", "2026-03-01", "--days", "3", "--by", "agent", "--by", "owner")
    with answering(**{path: ScriptedResponse(body={"rows": [row]})}) as gateway:
        shown = headrace(gateway, "usage", *options)
        as_json = headrace(gateway, "usage", "--json", *options)
    assert shown.output.splitlines() == [
        "AGENT  OWNER  INPUT  OUTPUT  TOKENS  COST  RUNS  SECONDS",
        "echo   ann    7      2       9       0.25  1     1.5",
    ]
    assert json.loads(as_json.output) == {"from": "2026-02-27", "to": "2026-03-01", **row}


def test_usage_of_a_tenant_is_one_row_and_days_are_checked() -> None:
    path = "/v1/usage?from=2026-03-01&to=2026-03-01&by=tenant&owner=ann"
    options = ("--to", "2026-03-01", "--by", "tenant", "--owner", "ann")
    with answering(**{path: ScriptedResponse(body={"rows": [{"runs": 3}]})}) as gateway:
        shown = headrace(gateway, "usage", *options)
        wrong = headrace(gateway, "usage", "--from", "March")
    assert shown.output.splitlines()[0] == "INPUT  OUTPUT  TOKENS  COST  RUNS  SECONDS"
    assert wrong.exit_code == 2
    assert "'March' is not a date, YYYY-MM-DD" in wrong.output


def test_a_table_shows_what_a_terminal_would_obey() -> None:
    agents = {"agents": [{"id": "echo", "description": "\x1b[2Jgone\r\x9b"}]}
    with answering(**{"/v1/agents": ScriptedResponse(body=agents)}) as gateway:
        shown = headrace(gateway, "agents").output.splitlines()[1]
    assert shown == "echo   no worker  \ufffd[2Jgone\ufffd\ufffd"


def test_an_answer_is_shown_as_it_streams() -> None:
    events = [{"task": task("SUBMITTED")}, status("WORKING"), chunk("Hel", append=False)]
    events += [chunk("lo"), status("COMPLETED")]
    with answering(**{"/v1/agents/echo/message:stream": stream(*events)}) as gateway:
        answer = headrace(gateway, "send", "--agent", "echo", "--context", "c1", "hi")
    assert answer.exit_code == 0
    assert answer.stdout == "Hello\n"
    assert answer.stderr.splitlines() == [
        "task t1 SUBMITTED",
        "task t1 WORKING",
        "task t1 COMPLETED",
    ]
    sent = gateway.asked[0].body
    assert sent is not None
    assert sent["message"]["parts"] == [{"text": "hi"}]
    assert sent["message"]["contextId"] == "c1"


def test_a_message_for_later_is_sent_with_its_time_and_not_followed() -> None:
    answers = ScriptedResponse(body={"task": task("SUBMITTED")})
    with answering(**{"/v1/agents/echo/message:send": answers}) as gateway:
        answer = headrace(gateway, "send", "--agent", "echo", "--at", "2030-01-31T09:00:00Z", "hi")
    assert answer.stdout == f"task t1: submitted; follow it: headrace tail --url {gateway.url} t1\n"
    [request] = gateway.asked
    assert request.body is not None
    assert request.body["metadata"] == {"headrace.startAt": "2030-01-31T09:00:00Z"}


def test_without_an_agent_the_default_one_answers() -> None:
    answers = stream({"message": {"parts": [{"text": "at the root"}]}})
    with answering(**{"/message:stream": answers}) as gateway:
        answer = headrace(gateway, "send", "hi")
    assert answer.stdout == "at the root\n"
    assert len(gateway.asked) == 1


def test_a_dropped_stream_is_resumed_after_the_last_frame() -> None:
    begun = stream({"task": task("SUBMITTED")}, chunk("one ", append=False))
    rest = [ScriptedResponse(503, {"error": {"message": "later"}}), stream(chunk("two"), first=3)]
    rest.append(stream(status("COMPLETED"), first=4))
    script = {"/message:stream": [begun], "/tasks/t1:subscribe": rest}
    with answering(**script) as gateway:
        answer = headrace(gateway, "send", "hi")
    assert answer.stdout == "one two\n"
    assert [q.cursor for q in gateway.asked] == [None, "log1:2", "log1:2", "log1:3"]


def test_a_stream_that_was_cut_within_a_character_is_resumed() -> None:
    whole = b'id: log1:1\ndata: {"task": {"id": "t1", "status": {}}}\n\n'
    script = {
        "/message:stream": ScriptedResponse(cut=whole + b'id: log1:2\ndata: {"\xe2\x82'),
        "/tasks/t1:subscribe": stream(status("COMPLETED"), first=2),
    }
    with answering(**script) as gateway:
        answer = headrace(gateway, "send", "hi")
    assert (answer.exit_code, gateway.asked[-1].cursor) == (0, "log1:1")


@pytest.mark.parametrize("code", [200, 404])
def test_an_answer_that_breaks_off_is_one_line(code: int) -> None:
    with answering(**{"/v1/agents": ScriptedResponse(code, cut=b"{")}) as gateway:
        answer = headrace(gateway, "agents")
    assert answer.exit_code == 1
    assert answer.stderr.startswith(f"Error: no answer from {gateway.url}: ")
    assert "start `headrace dev`" not in answer.stderr


def test_an_agent_that_refuses_does_not_hide_the_tasks_of_the_others() -> None:
    script = {
        "/v1/agents": AGENTS,
        "/v1/agents/echo/tasks?pageSize=20": ScriptedResponse(
            401, {"error": {"message": "who are you?"}}
        ),
        "/v1/agents/counter/tasks?pageSize=20": ScriptedResponse(body={"tasks": [task("WORKING")]}),
    }
    with answering(**script) as gateway:
        answer = headrace(gateway, "tasks")
        alone = headrace(gateway, "tasks", "--agent", "echo")
    assert "WORKING" in answer.stdout
    assert answer.stderr == "echo: who are you?\n"
    assert (alone.exit_code, alone.stderr) == (1, "Error: who are you?\n")


def test_lists_that_are_unavailable_are_waited_for_once() -> None:
    away = ScriptedResponse(503, {"error": {"message": "task state does not respond"}})
    paths = [f"/v1/agents/{agent}/tasks?pageSize=20" for agent in ("echo", "counter")]
    with answering(**{"/v1/agents": AGENTS}, **dict.fromkeys(paths, away)) as gateway:
        answer = headrace(gateway, "tasks")
    assert (answer.exit_code, answer.stdout) == (1, "")
    assert answer.stderr == "Error: task state does not respond\n"
    assert len({question.path for question in gateway.asked} & set(paths)) == 1


def test_a_task_is_named_whatever_stands_in_its_name() -> None:
    script = {"/v1/agents/echo/tasks/a%2F%3Fb:cancel": ScriptedResponse(body=task("CANCELED"))}
    with answering(**script) as gateway:
        answer = headrace(gateway, "cancel", "--agent", "echo", "a/?b")
    assert answer.stdout == "task a/?b CANCELED\n"


def test_a_stream_that_ended_while_away_is_no_failure() -> None:
    script = {
        "/message:stream": stream({"task": task("WORKING")}, chunk("all", append=False)),
        "/tasks/t1:subscribe": ScriptedResponse(204),
        "/tasks/t1": ScriptedResponse(body=task("COMPLETED", "all")),
    }
    with answering(**script) as gateway:
        answer = headrace(gateway, "send", "hi")
    assert (answer.exit_code, answer.stdout) == (0, "all\n")


def test_a_gateway_that_stays_away_is_one_line() -> None:
    script = {
        "/message:stream": stream({"task": task("WORKING")}),
        "/tasks/t1:subscribe": ScriptedResponse(503, {"error": {"message": "no bus"}}),
    }
    with answering(**script) as gateway:
        answer = headrace(gateway, "send", "hi")
    assert answer.exit_code == 1
    assert answer.stderr.splitlines()[-1] == "Error: no bus"


def test_a_question_is_shown_with_how_to_answer_it_at_the_agent_that_requested_input() -> None:
    waiting = stream({"task": task("WORKING")}, status("INPUT_REQUIRED", "Well?"))
    output = stream(
        {"task": task("INPUT_REQUIRED", "Before.")},
        status("SUBMITTED"),
        status("WORKING"),
        chunk("Good.", append=False, artifact="a1"),
        status("COMPLETED"),
    )
    script = {
        "/v1/agents": AGENTS,
        "/message:stream": waiting,
        "/v1/agents/echo/tasks/t1?historyLength=0": ScriptedResponse(
            404, {"error": {"message": "no task"}}
        ),
        "/v1/agents/counter/tasks/t1?historyLength=0": ScriptedResponse(
            body=task("INPUT_REQUIRED")
        ),
        "/v1/agents/counter/message:stream": output,
    }
    with answering(**script) as gateway:
        question = headrace(gateway, "send", "hi")
        answer = headrace(gateway, "send", "--task", "t1", "yes")
    assert question.stdout == "Well?\n"
    hint = f"answer with: headrace send --url {gateway.url} --task t1 TEXT"
    assert question.stderr.splitlines()[-1] == hint
    assert (answer.exit_code, answer.stdout) == (0, "Good.\n")
    assert "answer with" not in answer.stderr


def test_a_follow_up_that_was_not_taken_is_not_answered_by_the_earlier_question() -> None:
    away = ScriptedResponse(status=503, body={"error": {"message": "restarting"}})
    before = stream({"task": task("INPUT_REQUIRED")})
    responses = {
        "/v1/agents/ask/message:stream": away,
        "/v1/agents/ask/tasks/t1:subscribe": before,
    }
    with answering(**responses) as gateway:
        answer = headrace(gateway, "send", "--agent", "ask", "--task", "t1", "Ada")
    assert answer.exit_code == 1
    assert "restarting" in answer.stderr


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("COMPLETED", 0),
        ("FAILED", 3),
        ("REJECTED", 4),
        ("CANCELED", 5),
        ("INPUT_REQUIRED", 6),
    ],
)
def test_the_exit_code_states_how_the_task_ended(state: str, code: int) -> None:
    script = {
        "/message:stream": stream({"task": task("WORKING")}, status(state, "so")),
        "/v1/agents/echo/tasks/t1": ScriptedResponse(body=task("WORKING")),
        "/v1/agents/echo/tasks/t1:subscribe": stream({"task": task("WORKING")}, status(state)),
    }
    with answering(**script) as gateway:
        sent = headrace(gateway, "send", "hi")
        tailed = headrace(gateway, "tail", "--agent", "echo", "t1")
    assert (sent.exit_code, tailed.exit_code) == (code, code)


def test_reasoning_and_tool_calls_are_shown_beside_the_answer() -> None:
    thinking = {"agui_event_type": "thinking", "agui_block_type": "thinking"}
    call, result = {"agui_event_type": "tool_call"}, {"agui_is_error": False}
    arguments = {"id": "c1", "name": "stock", "arguments": {"of": "nails"}}
    parts: list[Json] = [
        {"text": "Let me ", "metadata": thinking},
        {"text": "see.", "metadata": thinking},
        {"data": arguments, "metadata": call},
        {"data": {"tool_call_id": "c1", "content": 7}, "metadata": call | result},
    ]
    working = {"state": "TASK_STATE_WORKING"}
    outputs: list[Json] = [
        {"statusUpdate": {"taskId": "t1", "status": {**working, "message": {"parts": [part]}}}}
        for part in parts
    ]
    events = [{"task": task("WORKING")}, *outputs, chunk("7", append=False), status("COMPLETED")]
    with answering(**{"/message:stream": stream(*events)}) as gateway:
        answer = headrace(gateway, "send", "nails?")
    assert answer.stdout == "7\n"
    assert answer.stderr.splitlines() == [
        "task t1 WORKING",
        "Let me see.",
        '> stock {"of": "nails"}',
        "< 7",
        "task t1 COMPLETED",
    ]


def test_an_interrupted_send_leaves_the_task_and_states_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(RetryOptions, "pause", interrupted)
    with answering(**{"/message:stream": stream({"task": task("WORKING")})}) as gateway:
        answer = headrace(gateway, "send", "hi")
    assert answer.exit_code == 130
    assert answer.stderr.splitlines()[1:] == [
        "task t1 continues",
        f"  resume it: headrace chat --url {gateway.url} --task t1",
        f"  follow it: headrace tail --url {gateway.url} t1",
        f"  cancel it: headrace cancel --url {gateway.url} t1",
    ]


def test_hints_leave_out_the_url_that_this_shell_has_anyway(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with answering(**{"/message:stream": stream(status("INPUT_REQUIRED", "How many?"))}) as gateway:
        monkeypatch.setenv("HEADRACE_URL", gateway.url)
        question = headrace(gateway, "send", "hi")
    assert question.stderr.splitlines()[-1] == "answer with: headrace send --task t1 TEXT"


@pytest.mark.parametrize("command", [["agents"], ["send", "hi"]])
def test_no_gateway_at_the_url_is_one_line_with_the_remedy(command: list[str]) -> None:
    with answering() as gateway:
        pass
    answer = headrace(gateway, *command)
    assert answer.exit_code == 1
    assert answer.stderr.startswith(f"Error: no answer from {gateway.url}: ")
    assert answer.stderr.endswith(
        "; start `headrace dev`, or name another gateway with --url or HEADRACE_URL\n"
    )
    assert len(answer.stderr.splitlines()) == 1


def test_a_refusal_is_one_line() -> None:
    refusal = ScriptedResponse(400, {"error": {"code": 400, "message": "the message is empty"}})
    with answering(**{"/message:stream": refusal}) as gateway:
        answer = headrace(gateway, "send", "")
    assert (answer.exit_code, answer.stderr) == (1, "Error: the message is empty\n")


def test_why_an_agent_refused_is_shown() -> None:
    events = [{"task": task("SUBMITTED")}, status("REJECTED", "numbers only")]
    with answering(**{"/message:stream": stream(*events)}) as gateway:
        answer = headrace(gateway, "send", "x")
    assert answer.stdout == "numbers only\n"
    assert answer.stderr.splitlines()[-1] == "task t1 REJECTED"


def test_a_new_attempt_states_that_it_starts_over() -> None:
    events = [{"task": task("WORKING")}, chunk("old", append=False), chunk("new", append=False)]
    with answering(**{"/message:stream": stream(*events, status("COMPLETED"))}) as gateway:
        answer = headrace(gateway, "send", "x")
    assert answer.stdout == "old\nnew\n"
    assert "a new attempt replaces the output above" in answer.stderr


def test_the_tail_of_a_running_task_starts_with_what_there_is() -> None:
    script = {
        "/v1/agents": AGENTS,
        "/v1/agents/counter/tasks/t1?historyLength=0": ScriptedResponse(body=task("WORKING")),
        "/v1/agents/counter/tasks/t1": ScriptedResponse(body=task("WORKING", "1 ")),
        "/v1/agents/counter/tasks/t1:subscribe": stream(
            {"task": task("WORKING", "1 ")}, chunk("2 "), status("CANCELED")
        ),
    }
    with answering(**script) as gateway:
        answer = headrace(gateway, "tail", "t1")
    assert answer.stdout == "1 2 \n"
    assert answer.stderr.splitlines() == ["task t1 WORKING", "task t1 CANCELED"]


def test_the_tail_of_an_ended_task_is_its_answer() -> None:
    with answering(
        **{"/v1/agents/echo/tasks/t1": ScriptedResponse(body=task("COMPLETED", "x"))}
    ) as gateway:
        answer = headrace(gateway, "tail", "--agent", "echo", "t1")
    assert answer.stdout == "x\n"


@pytest.mark.parametrize("cursor", ["GARBAGE", "log1:0", "log1:", "log1:x", "7"])
def test_a_tail_after_an_invalid_cursor_names_the_rule_without_a_request(cursor: str) -> None:
    with answering() as gateway:
        answer = headrace(gateway, "tail", "--agent", "echo", "--after", cursor, "t1")
    assert answer.exit_code == 2
    rule = f"{cursor!r} is not a cursor; a cursor is LOG:GENERATION"
    assert rule in " ".join(answer.stderr.split())
    assert gateway.asked == []


def test_a_tail_goes_on_after_a_cursor_and_states_when_the_past_is_gone() -> None:
    gone = task("WORKING", "all of it") | {"metadata": {"headrace.recovered": False}}
    script = {
        "/v1/agents/echo/tasks/t1": ScriptedResponse(body=task("WORKING")),
        "/v1/agents/echo/tasks/t1:subscribe": stream({"task": gone}, status("COMPLETED")),
    }
    with answering(**script) as gateway:
        answer = headrace(gateway, "tail", "--agent", "echo", "--after", "log0:9", "t1")
    assert gateway.asked[-1].cursor == "log0:9"
    assert "the missed events are gone" in answer.stderr
    assert answer.stdout == "all of it\n"


def test_a_task_that_no_agent_has_is_one_line() -> None:
    with answering(**{"/v1/agents": AGENTS}) as gateway:
        answer = headrace(gateway, "tail", "t1")
    assert (answer.exit_code, answer.stderr) == (1, "Error: no such\n")


def test_tasks_of_all_agents_are_listed() -> None:
    script = {
        "/v1/agents": AGENTS,
        "/v1/agents/echo/tasks?pageSize=20&status=TASK_STATE_INPUT_REQUIRED": ScriptedResponse(
            body={"tasks": [task("INPUT_REQUIRED")]}
        ),
        "/v1/agents/counter/tasks?pageSize=20&status=TASK_STATE_INPUT_REQUIRED": ScriptedResponse(
            body={"tasks": []}
        ),
    }
    with answering(**script) as gateway:
        answer = headrace(gateway, "tasks", "--status", "input-required")
    assert answer.output.splitlines() == [
        "TASK  AGENT  STATE           SINCE                 CONTEXT",
        "t1    echo   INPUT_REQUIRED  2026-01-02T03:04:05Z  c1",
    ]


def test_cancel_states_how_the_task_ended() -> None:
    path = "/v1/agents/echo/tasks/t1:cancel"
    with answering(**{path: ScriptedResponse(body=task("CANCELED"))}) as gateway:
        answer = headrace(gateway, "cancel", "--agent", "echo", "t1")
    assert answer.output == "task t1 CANCELED\n"
    assert gateway.asked[0].method == "POST"


def test_json_is_one_line_per_thing() -> None:
    events = [{"task": task("WORKING")}, chunk("x", append=False), status("FAILED")]
    script = {
        "/v1/agents": AGENTS,
        "/message:stream": stream(*events),
        "/v1/agents/echo/tasks?pageSize=20": ScriptedResponse(body={"tasks": [task("WORKING")]}),
        "/v1/agents/echo/tasks/t1:cancel": ScriptedResponse(body=task("CANCELED")),
        "/v1/agents/echo/tasks/t1": ScriptedResponse(body=task("COMPLETED")),
        "/v1/agents/echo/tasks/t1/feedback": UNRATED,
    }
    with answering(**script) as gateway:
        printed = {
            arguments[0]: headrace(gateway, *arguments, "--json")
            for arguments in (
                ["agents"],
                ["send", "hi"],
                ["tasks", "--agent", "echo"],
                ["cancel", "--agent", "echo", "t1"],
                ["tail", "--agent", "echo", "t1"],
            )
        }
    lines = {
        name: [json.loads(line) for line in answer.stdout.splitlines()]
        for name, answer in printed.items()
    }
    assert [one["name"] for one in lines["agents"]] == ["echo", "counter"]
    assert lines["send"] == events
    assert lines["tasks"] == [{"agent": "echo", **task("WORKING")}]
    assert lines["cancel"] == [task("CANCELED")]
    assert lines["tail"] == [{"task": task("COMPLETED")}]
    assert (printed["send"].exit_code, printed["tail"].exit_code) == (3, 0)
    assert {name: answer.stderr for name, answer in printed.items()} == dict.fromkeys(printed, "")


def test_files_are_sent_and_saved_and_none_leads_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("in")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.txt").write_text("kept")
    results = [
        {"raw": "b25l", "filename": "a.txt"},
        {"raw": "dHdv", "filename": "../../.b.txt"},
        {"url": "http://elsewhere/c.txt", "filename": "c.txt"},
    ]
    done = task("COMPLETED") | {"artifacts": [{"artifactId": "a0", "parts": results}]}
    script = {
        "/message:stream": stream({"task": task("WORKING")}, status("COMPLETED")),
        "/tasks/t1": ScriptedResponse(body=done),
    }
    paths = ["--file", str(tmp_path / "in.txt"), "--save", str(tmp_path / "out")]
    with answering(**script) as gateway:
        answer = headrace(gateway, "send", "hi", *paths)
    assert answer.exit_code == 0
    sent = (gateway.asked[0].body or {})["message"]["parts"]
    assert [part.get("filename") for part in sent] == [None, "in.txt"]
    saved = {path.name: path.read_text() for path in (tmp_path / "out").iterdir()}
    assert saved == {"a.txt": "kept", "a-1.txt": "one", "b.txt": "two"}
    assert answer.stderr.splitlines()[-1] == f"saved {tmp_path / 'out' / 'b.txt'}"


def test_an_agent_that_is_called_nearly_the_same_is_named() -> None:
    unknown = {"message": "no such agent", "details": [{"reason": "AGENT_NOT_FOUND"}]}
    refusal = ScriptedResponse(404, {"error": unknown})
    script = {"/v1/agents": AGENTS, "/v1/agents/ecko/message:stream": refusal}
    with answering(**script) as gateway:
        answer = headrace(gateway, "send", "--agent", "ecko", "hi")
    assert (answer.exit_code, answer.stderr) == (1, "Error: no such agent; did you mean echo?\n")


@pytest.mark.parametrize(
    "command",
    [
        ("tail", "t0"),
        ("cancel", "t0"),
        ("fork", "t0"),
        ("tasks", "export", "t0"),
        ("send", "--task", "t0", "hi"),
        ("send", "--task", "t0", "--at", "2030-01-01T00:00:00Z", "hi"),
    ],
    ids=["tail", "cancel", "fork", "export", "send", "send-at"],
)
def test_a_task_that_does_not_exist_is_named(command: tuple[str, ...]) -> None:
    unknown = {"message": "task not found", "details": [{"reason": "TASK_NOT_FOUND"}]}
    refusal = ScriptedResponse(404, {"error": unknown})
    paths = [f"/v1/agents/{agent}/tasks/t0?historyLength=0" for agent in ("echo", "counter")]
    with answering(**{"/v1/agents": AGENTS}, **dict.fromkeys(paths, refusal)) as gateway:
        answer = headrace(gateway, *command)
    assert (answer.exit_code, answer.stderr) == (1, "Error: task not found: t0\n")


def test_the_tail_of_a_task_that_waits_is_its_question() -> None:
    waiting = status("INPUT_REQUIRED", "Well?")["statusUpdate"]["status"]
    script = {
        "/v1/agents/echo/tasks/t1": ScriptedResponse(body=task("WORKING") | {"status": waiting})
    }
    with answering(**script) as gateway:
        answer = headrace(gateway, "tail", "--agent", "echo", "t1")
    assert (answer.exit_code, answer.stdout) == (6, "Well?\n")
    assert len(gateway.asked) == 1


def test_a_file_with_a_name_that_is_too_long_is_saved_under_its_beginning(tmp_path: Path) -> None:
    named = [{"raw": "b25l", "filename": f"{'ä' * 300}.txt"}] * 2
    done = task("COMPLETED") | {"artifacts": [{"artifactId": "a0", "parts": named}]}
    script = {
        "/v1/agents/echo/tasks/t1": ScriptedResponse(body=done),
        "/v1/agents/echo/tasks/t1/feedback": UNRATED,
    }
    with answering(**script) as gateway:
        answer = headrace(gateway, "tail", "--agent", "echo", "t1", "--save", str(tmp_path))
    assert answer.exit_code == 0
    saved = sorted(path.name for path in tmp_path.iterdir())
    assert [(name[:2], name[-6:]) for name in saved] == [("ää", "-1.txt"), ("ää", "ää.txt")]


def test_a_file_of_a_result_is_named_on_one_line() -> None:
    named = [{"raw": "b25l", "filename": "a\ntask t1 COMPLETED", "mediaType": "text/plain"}]
    event = {"artifactUpdate": {"taskId": "t1", "artifact": {"artifactId": "a", "parts": named}}}
    with answering(**{"/message:stream": stream(event, status("FAILED"))}) as gateway:
        answer = headrace(gateway, "send", "hi")
    assert answer.stdout == "[a task t1 COMPLETED text/plain]\n"


def test_tasks_in_a_state_that_does_not_exist_are_no_empty_list() -> None:
    with answering(**{"/v1/agents": AGENTS}) as gateway:
        answer = headrace(gateway, "tasks", "--status", "completd")
    assert answer.exit_code == 2
    assert "Invalid value for '--status': 'completd' is not one of" in answer.stderr
    assert gateway.asked == []


@pytest.mark.parametrize("state", ["input-required", "INPUT_REQUIRED"])
def test_tasks_are_selected_by_their_state_in_either_form(state: str) -> None:
    path = "/v1/agents/echo/tasks?pageSize=20&status=TASK_STATE_INPUT_REQUIRED"
    with answering(**{path: ScriptedResponse(body={"tasks": []})}) as gateway:
        answer = headrace(gateway, "tasks", "--agent", "echo", "--status", state)
    assert answer.exit_code == 0


def test_a_message_that_is_not_utf_8_is_sent_with_a_replacement() -> None:
    with answering() as gateway:
        headrace(gateway, "send", "a\udcff")
    [question] = gateway.asked
    assert question.body is not None
    assert question.body["message"]["parts"] == [{"text": "a\ufffd"}]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (
            ["send", "hi", "--token", "secret\n"],
            "the token contains characters that an HTTP header can't contain",
        ),
        (
            ["send", "hi", "--token", "geheimä"],
            "the token contains characters that an HTTP header can't contain",
        ),
    ],
    ids=["token with a line break", "token not ASCII"],
)
def test_what_no_request_can_hold_is_one_line(arguments: list[str], reason: str) -> None:
    with answering() as gateway:
        answer = headrace(gateway, *arguments)
    assert (answer.exit_code, gateway.asked) == (1, [])
    assert answer.stderr.startswith("Error: ")
    assert answer.stderr.endswith(f"{reason}\n")
    assert answer.stderr.count("\n") == 1


def test_text_of_any_script_is_shown_as_it_is() -> None:
    emoji, persian = "\U0001f468\u200d\U0001f467", "\u0645\u06cc\u200c\u062e\u0648"
    written = f"ideographic\u3000space, no\u00a0break, soft\u00adhyphen, {emoji}, {persian}"
    with answering(**{"/message:stream": stream(chunk(written), status("COMPLETED"))}) as gateway:
        answer = headrace(gateway, "send", "hi")
    assert answer.stdout == f"{written}\n"


def headrace_piped(gateway: FakeGateway, *arguments: str, **environment: str) -> Popen[bytes]:
    own = {k: v for k, v in os.environ.items() if not k.startswith("HEADRACE_")}
    command = [sys.executable, "-m", "headrace_cli", *arguments, "--url", gateway.url]
    return Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=own | environment)


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "JSON"])
def test_a_reader_that_stops_ends_the_command_without_a_traceback(form: list[str]) -> None:
    events = [chunk("x" * 100_000) for _ in range(20)]
    with answering(**{"/message:stream": stream(*events, status("COMPLETED"))}) as gateway:
        process = headrace_piped(gateway, "send", "hi", *form)
        assert process.stdout is not None
        process.stdout.read(1)
        process.stdout.close()
        process.stdout = None
        _, complaint = process.communicate(timeout=60)
    assert (process.returncode, complaint) == (1, b"")


def test_characters_that_the_output_cannot_encode_are_replaced() -> None:
    events = stream(chunk("5 € a\x07"), status("COMPLETED"))
    with answering(**{"/message:stream": events}) as gateway:
        process = headrace_piped(gateway, "send", "hi", PYTHONIOENCODING="latin-1")
        written, complaint = process.communicate(timeout=60)
    assert (process.returncode, written) == (0, b"5 ? a?\n")
    assert complaint == b"task t1 COMPLETED\n"


def test_a_conversation_through_a_pipe_has_no_prompts() -> None:
    with answering(**{"/message:stream": stream(chunk("One."), status("COMPLETED"))}) as gateway:
        process = headrace_piped(gateway, "chat")
        written, _ = process.communicate(b"first\n", timeout=60)
    assert written == b"One.\n"


def test_a_task_at_work_is_not_exported() -> None:
    paths = {"/v1/agents/echo/tasks/t1": ScriptedResponse(body=task("WORKING"))}
    with answering(**paths) as gateway:
        answer = headrace(gateway, "tasks", "export", "--agent", "echo", "t1")
    assert answer.exit_code == 1
    assert answer.stdout == ""
    assert "task t1 is working; export it when its run has ended" in answer.stderr


def test_a_task_whose_first_events_are_gone_is_not_exported() -> None:
    lost = {"task": {**task("COMPLETED"), "metadata": {"headrace.recovered": False}}}
    paths = {
        "/v1/agents/echo/tasks/t1": ScriptedResponse(body=task("COMPLETED")),
        "/v1/agents/echo/tasks/t1:subscribe": stream(lost),
    }
    with answering(**paths) as gateway:
        answer = headrace(gateway, "tasks", "export", "--agent", "echo", "t1")
    assert answer.exit_code == 1
    assert answer.stdout == ""
    assert "task t1: the first events of its log are gone" in answer.stderr
