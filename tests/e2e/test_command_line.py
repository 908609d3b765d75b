"""The commands of the terminal against a real stack: what a user types, and sees."""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import httpx
import pytest

from headrace.model.case import parse_case
from tests.support.forked_process import HEADRACE, start_service
from tests.support.pids import living
from tests.support.stack import Stack
from tests.support.terminal import CommandResult, enter
from tests.support.waiting import until

_TIMEOUT = 120


def headrace(url: str, *arguments: str, code: int = 0) -> CommandResult:
    done = enter(*arguments, "--url", url)
    assert done.code == code, done.err
    return done


def task_in(remarks: str) -> str:
    """Return the id of the task that the remarks on stderr tell of."""
    named = re.search(r"task (\S+) ", remarks)
    assert named is not None, remarks
    return named[1]


@contextmanager
def counting(stack: Stack, tmp_path: Path, text: str) -> Iterator[str]:
    """Have the counter count in the background; give the id of its task."""
    remarks = tmp_path / "remarks"
    command = [str(HEADRACE), "send", "--agent", "counter", text, "--url", stack.url]
    own = {key: value for key, value in os.environ.items() if not key.startswith("HEADRACE_")}
    sending = start_service(command, remarks, stdout=tmp_path / "counted", environment=own)
    try:
        until(lambda: "WORKING" in remarks.read_text(), "the counter counts")
        yield task_in(remarks.read_text())
        sending.wait(_TIMEOUT)
    finally:
        sending.kill()


def test_ready_is_reported_when_the_demo_agents_answer(stack: Stack) -> None:
    with urlopen(f"{stack.url}/.well-known/agent-card.json") as answer:  # noqa: S310  # loopback
        assert json.load(answer)["name"] == "assistant"
    rows = headrace(stack.url, "agents").out.splitlines()[1:]
    assert {tuple(row.split()[:2]) for row in rows} >= {
        ("assistant", "available"),
        ("counter", "available"),
        ("echo", "available"),
    }


def test_the_demo_agents_are_called_so(stack: Stack) -> None:
    output = "no agents in this folder; these are the demo agents"
    until(lambda: output in stack.said, "the line is printed")


def test_an_answer_streams_to_the_terminal(stack: Stack) -> None:
    done = headrace(stack.url, "send", "--agent", "counter", "5")
    assert done.out == "1 2 3 4 5 \n"
    assert done.err.splitlines()[-1].endswith(" COMPLETED")


def test_a_task_is_tailed_through_another_gateway(stack: Stack, tmp_path: Path) -> None:
    with counting(stack, tmp_path, "40 50") as task:
        followed = headrace(stack.gateways[1], "tail", task)
    assert followed.out == "".join(f"{n} " for n in range(1, 41)) + "\n"
    again = headrace(stack.gateways[1], "tail", task)
    assert again.out == followed.out
    assert "feedback" not in again.err
    body = {"rating": "down", "comment": "too slow"}
    path = f"{stack.url}/v1/agents/counter/tasks/{task}/feedback"
    httpx.put(path, json=body, timeout=_TIMEOUT).raise_for_status()
    rated = headrace(stack.gateways[1], "tail", task)
    assert rated.out == followed.out
    assert "feedback down: too slow" in rated.err
    lines = headrace(stack.gateways[1], "tail", "--json", task).out.splitlines()
    assert json.loads(lines[-1])["feedback"]["rating"] == "down"


def test_a_task_is_listed_and_cancelled(stack: Stack, tmp_path: Path) -> None:
    with counting(stack, tmp_path, "1000 100") as task:
        rows = headrace(stack.gateways[1], "tasks").out.splitlines()
        assert [row.split()[1:3] for row in rows if row.startswith(task)] == [
            ["counter", "WORKING"]
        ]
        assert headrace(stack.gateways[1], "cancel", task).out == f"task {task} CANCELED\n"


def test_a_task_is_forked_and_the_fork_goes_on(stack: Stack) -> None:
    done = headrace(stack.url, "send", "--agent", "counter", "3")
    task = task_in(done.err)
    forked = headrace(stack.gateways[1], "fork", task, "2", "--at", "1").out
    fork = forked.split()[1]
    assert forked.startswith(f"task {fork} forked from {task} at generation 1")
    assert headrace(stack.url, "tail", fork).out.endswith("1 2 \n")


def test_a_run_is_counted_once_in_the_usage_of_its_agent(stack: Stack) -> None:
    def runs() -> int:
        shown = headrace(stack.gateways[1], "usage", "--days", "2", "--json").out.splitlines()
        counts = {row["agent"]: int(row["runs"]) for row in map(json.loads, shown)}
        return counts.get("counter", 0)

    before = runs()
    headrace(stack.url, "send", "--agent", "counter", "2")
    assert runs() == before + 1


def test_why_an_agent_refuses_is_shown(stack: Stack) -> None:
    done = headrace(stack.url, "send", "--agent", "counter", "many", code=4)
    assert done.err.splitlines()[-1].endswith(" REJECTED")
    assert done.out.strip()


@pytest.mark.usefixtures("extra_worker")
def test_the_answer_to_a_question_is_followed_by_the_agents_own(stack: Stack) -> None:
    printed = headrace(stack.url, "send", "--agent", "asker", "hello", code=6)
    assert printed.out == "Who are you?\n"
    task = task_in(printed.err)
    answered = headrace(stack.gateways[1], "send", "--task", task, "Ada")
    assert answered.out == "Hello, Ada!\n"
    assert answered.err.splitlines()[-1] == f"task {task} COMPLETED"


@pytest.mark.usefixtures("extra_worker")
def test_a_task_is_exported_as_a_case(stack: Stack) -> None:
    task = task_in(headrace(stack.url, "send", "--agent", "asker", "hello", code=6).err)
    headrace(stack.url, "send", "--task", task, "Ada")
    case = parse_case(headrace(stack.gateways[1], "tasks", "export", task).out, "case.jsonl")
    assert case.agent == "asker"
    assert case.steps == [
        {"input": [{"text": "hello"}]},
        {"state": {"state": "input-required", "text": "Who are you?"}},
        {"input": [{"text": "Ada"}]},
        {"text": "Hello, Ada!"},
        {"state": {"state": "completed"}},
    ]


def test_an_unknown_task_is_not_exported(stack: Stack) -> None:
    unknown = "0-0123456789abcdef0123456789abcdef"
    done = headrace(stack.url, "tasks", "export", unknown, code=1)
    assert done.out == ""
    assert unknown in done.err


def test_reasoning_and_tool_calls_are_shown_on_the_way(stack: Stack) -> None:
    done = headrace(stack.url, "send", "--agent", "assistant", "three more words")
    assert done.out.startswith("You said 3 words: three more words")
    lines = done.err.splitlines()
    assert "The user says something. Counting its words should be of help." in lines
    assert '> count_words {"text": "three more words"}' in lines
    assert '< {"words": 3}' in lines


def test_agents_that_are_none_are_one_clear_line(tmp_path: Path) -> None:
    stack = Stack(tmp_path, agents="json:loads")
    try:
        assert stack.launch().wait() != 0
        [line] = [line for line in stack.log().splitlines() if line.startswith("Error: ")]
        assert "json:loads is not an agent" in line
        assert living(stack.pids()) == []
    finally:
        stack.close()


def test_workers_are_drained_and_waited_for(stack: Stack, tmp_path: Path) -> None:
    def listed() -> list[str]:
        lines = headrace(stack.url, "workers", "--json").out.splitlines()
        return [one["id"] for one in map(json.loads, lines) if "counter" in one["agents"]]

    before = listed()
    with counting(stack, tmp_path, "16 500") as task:
        drained = headrace(stack.url, "workers", "drain", "--wait", "--json", *before)
    rows = [json.loads(line) for line in drained.out.splitlines()]
    assert sum(row.get("runs", 0) for row in rows) >= 1
    assert sorted(row["worker"] for row in rows if "ended" in row) == sorted(before)
    with urlopen(f"{stack.url}/v1/agents/counter/tasks/{task}/log") as answer:  # noqa: S310  # loopback
        rows = json.load(answer)["events"]
    assert {row["attempt"] for row in rows} == {0, 1}
    assert rows[-1]["state"] == "TASK_STATE_COMPLETED"

    def are_replaced() -> bool:
        now = set(listed())
        return len(now) == len(before) and now.isdisjoint(before)

    until(are_replaced, "others take their place")
    shown = headrace(stack.url, "view", "--wait", "--json").out.splitlines()
    assert all(json.loads(line)["position"] for line in shown)
