"""`headrace config check`: what is wrong with a file, and what of it has no effect."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headrace_cli.main import main

FILE = """\
agents:
  repeater: {target: "headrace.demo:echo", name: "A Repeater"}
  partner: {type: a2a, url: "http://127.0.0.1:1", credentials: {type: bearer, token: t}}
  painter: {type: ag-ui, url: "http://127.0.0.1:1"}
  talker:
    model: {model: m, base_url: "http://127.0.0.1:1"}
    reasoning: {engine: "chain-of-thought"}
    tools: [files, search]
tools:
  files: {type: mcp, command: [no-such-server]}
  search: {type: mcp, url: "http://127.0.0.1:1/mcp"}
"""

_opened: list[str] | None = None


def _on_event(event: str, _: tuple[object, ...]) -> None:
    if _opened is not None and (event.startswith("socket.") or event == "subprocess.Popen"):
        _opened.append(event)


@pytest.fixture
def opened() -> Iterator[list[str]]:
    """What this process opens towards others: an audit hook can't be taken out, only silenced."""
    global _opened  # noqa: PLW0603
    sys.addaudithook(_on_event)
    _opened = []
    yield _opened
    _opened = None


def check(path: Path) -> Result:
    return CliRunner().invoke(main, ["config", "check", str(path)])


def test_a_check_opens_no_connection(tmp_path: Path, opened: list[str]) -> None:
    path = tmp_path / "headrace.yaml"
    path.write_text(FILE)
    found = check(path)
    assert found.exit_code == 0, found.output
    names = [line.partition(":")[0] for line in found.stdout.splitlines()]
    assert names == ["repeater", "partner", "painter", "talker"]
    assert "Warning: headrace.yaml:7: agents.talker.reasoning.engine: has no" in found.stderr
    assert opened == []


def test_a_file_that_can_not_be_used_is_refused_with_all_reasons(tmp_path: Path) -> None:
    path = tmp_path / "headrace.yaml"
    path.write_text(FILE.replace("name:", "nam:").replace("target:", "traget:", 1))
    found = check(path)
    assert found.exit_code == 1
    assert "headrace.yaml:2: agents.repeater.traget: unknown field" in found.stderr
    assert (
        "headrace.yaml:2: agents.repeater.nam: unknown field; did you mean 'name'?" in found.stderr
    )


def test_memory_that_lives_in_one_process_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """\
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from headrace.adapters import langgraph_agent

graph = StateGraph(MessagesState)
graph.add_node("node", lambda _: {})
graph.add_edge(START, "node")
desk = langgraph_agent(
    graph.compile(checkpointer=InMemorySaver()), name="desk", saver="graph"
)
"""
    (tmp_path / "one_process_desk.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "headrace.yaml"
    path.write_text('agents:\n  desk: {target: "one_process_desk:desk"}\n')
    found = check(path)
    assert found.exit_code == 0, found.output
    assert "Warning: agents.desk: InMemorySaver keeps the graph's state in one" in found.stderr
    assert '(use the fleet\'s (saver="fleet"), or one that all workers share' in found.stderr
