"""README's commands and its agent, run as they stand there but for the host.

What it says about `headrace init` and `headrace dev` is tested in `test_init.py`.
"""

import re
import shlex
import subprocess
from typing import Any

from headrace.testing import TestFleet
from tests.architecture.tree import ROOT
from tests.support.document import blocks, examples
from tests.support.javascript import program
from tests.support.stack import Stack

README = ROOT / "README.md"
[(STREAM, SHOWN)] = examples(README, "sh")
_HOST = "http://127.0.0.1:8080"
_IDS = {
    "o1mn8ibj": "[0-9a-z]+",
    re.escape("0-c4ac91"): r"\d+-[0-9a-f]+",
    re.escape("e8823e42-"): "[0-9a-f]{8}-",
}


def curl(command: str, stack: Stack) -> list[str]:
    """Return the lines that a command of README gets from a gateway."""
    name, *arguments = shlex.split(command.replace("\\\n", "").replace(_HOST, stack.url))
    sent = [program(name), "--silent", *arguments]
    return [
        line for line in subprocess.check_output(sent, text=True, timeout=60).split("\n") if line
    ]


def pattern_of(line: str) -> str:
    """Return what matches `line` with other ids, and anything for what it leaves out."""
    pattern = re.escape(line).replace("…", ".*")
    for shown, actual in _IDS.items():
        pattern = pattern.replace(shown, actual)
    return pattern


def test_the_stream_is_as_shown_and_goes_on_after_a_cursor(stack: Stack) -> None:
    lines = curl(STREAM, stack)
    shown = [line for line in SHOWN.splitlines() if line]
    assert len(shown) == 6
    differing = [
        (line, expected)
        for line, expected in zip(lines, shown, strict=False)
        if not re.fullmatch(pattern_of(expected), line)
    ]
    assert differing == []
    [task] = re.findall(r'"task":\{"id":"([^"]+)"', lines[1])
    cursor = lines[4].removeprefix("id: ")
    [resume] = [block.code for block in blocks(README, "sh") if "<task>" in block.code]
    command = resume.replace("<task>", task).replace("o1mn8ibj:3", cursor)
    assert curl(command, stack) == lines[6:]


async def test_the_agent_greets_the_user() -> None:
    names: dict[str, Any] = {}
    exec(compile(blocks(README, "python")[0].code, "README.md", "exec"), names)  # noqa: S102
    async with TestFleet([names["hello"]]) as fleet:
        answer = await fleet.send("hello", "World")
    assert (answer.thinking, answer.text) == ("This must be World.", "Hello, World!")
