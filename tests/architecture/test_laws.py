"""What only one place may do, as the text of the source shows it; each rule notices its breach.

Import contracts stand in `pyproject.toml`; these are the rules that imports do not show.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.architecture.measure import ERROR_NUMBERS, streams_a_feed
from tests.architecture.tree import ROOT, modules, parsed


@dataclass(frozen=True, slots=True)
class Law:
    """What may stand in certain files only."""

    statement: str
    pattern: re.Pattern[str]
    allowed: tuple[str, ...]
    """Files, and folders with a slash at the end, that may have it."""
    breach: str
    """A line that breaks it."""


LAWS = [
    Law(
        "nobody swallows a cancellation, which may be the caller's own: see background.cancelled",
        re.compile(r"\bsuppress\(.*\b(CancelledError|BaseException)\b"),
        (),
        "with suppress(asyncio.CancelledError): pass",
    ),
    Law(
        "only log/, the commands on a task and the holder of a run append to logs",
        re.compile(r"\bLogWriter\b"),
        (
            "shared/headrace/log/",
            "shared/headrace/tasks/",
            "services/worker/headrace_worker/appender.py",
            "services/worker/headrace_worker/claim.py",
        ),
        "writer = LogWriter(bus, key)",
    ),
    Law(
        "only headrace.tasks begins a task",
        re.compile(r"\btask_submitted\("),
        ("shared/headrace/tasks/begin.py", "shared/headrace/model/events.py"),
        "draft = events.task_submitted(task, context, message)",
    ),
    Law(
        "only headrace.tasks continues a task",
        re.compile(r"\bstatus_update\(.*\bSUBMITTED\b"),
        ("shared/headrace/tasks/continue_.py",),
        "draft = events.status_update(task, context, SUBMITTED, message)",
    ),
    Law(
        "only headrace.tasks cancels through a holder",
        re.compile(r"\bask=[\"']cancel[\"']"),
        ("shared/headrace/tasks/cancel.py",),
        'CANCEL = Control(ask="cancel")',
    ),
    Law(
        "only headrace.tasks publishes run requests",
        re.compile(r"\bsubjects\.run\("),
        ("shared/headrace/tasks/runs.py",),
        "subject = bus.subjects.run(key, 1)",
    ),
    Law(
        "only headrace.tasks writes and reads dead letters",
        re.compile(r"\bsubjects\.dead\("),
        ("shared/headrace/tasks/dead_letters.py",),
        "subject = bus.subjects.dead(tenant, agent)",
    ),
    Law(
        "only jetstream/ names JetStream's API, buckets and object stores",
        re.compile(r"\$(?:JS|KV|O)\."),
        ("shared/headrace/jetstream/",),
        'SUBJECT = f"$JS.API.STREAM.INFO.{stream}"',
    ),
    Law(
        "only jetstream/ names NATS' own headers",
        re.compile(r"Nats-[A-Z]|KV-Operation"),
        ("shared/headrace/jetstream/",),
        'HEADER = "Nats-Msg-Id"',
    ),
    Law(
        "only jetstream/ names JetStream's error numbers",
        re.compile(rf"err_code|{ERROR_NUMBERS}"),
        ("shared/headrace/jetstream/",),
        "FULL = 10077",
    ),
    Law(
        "no protocol asks itself whether its caller may: a call can't be had otherwise",
        re.compile(r"\baccess\.(?:admit|permitted)\(|\bcallers\.of\(|(?<!\w)Caller\("),
        (
            "services/gateway/headrace_gateway/call.py",
            "services/gateway/headrace_gateway/server/auth/",
            "shared/headrace/testing/gateway.py",  # a test's caller, who may do everything
        ),
        'services.access.admit(caller, agent, "SendMessage")',
    ),
    Law(
        "feeds are held by `async with` and handed over, nowhere released by hand: see HeldFeed",
        re.compile(
            r"\bfeeds?\.(?:acquire|release|share|users)\b|\.end_use\(|\bhanded_on\b"
            r"|\b(?:accepted|opened|streaming)\.(?:held\.)?(?:release|share)\("
        ),
        ("services/gateway/headrace_gateway/feeds.py",),
        "services.feeds.release(accepted.feed)",
    ),
    Law(
        "only streaming/ writes to clients' streams",
        re.compile(
            r"http\.response\.(?:start|body)|websocket\.send|\.send_(?:text|bytes|json)\("
            r"|context\.write\(|StreamingResponse"
        ),
        (
            "services/gateway/headrace_gateway/streaming/",
            "services/gateway/headrace_gateway/file_download.py",
            "services/gateway/headrace_gateway/server/open_requests.py",  # passes them on
        ),
        'await send({"type": "http.response.body", "body": frame, "more_body": True})',
    ),
]


def breaches(law: Law, root: Path) -> list[str]:
    """Return where the source under `root` breaks the law."""
    return [
        f"{name}:{line}"
        for path in modules(root)
        if not (name := str(path.relative_to(root))).startswith(law.allowed)
        if law.pattern.search(source := path.read_text(encoding="utf-8"))
        for line, text in code_of(source)
        if law.pattern.search(text)
    ]


def code_of(source: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of `source` without comments and docstrings, by number."""
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            for row in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                lines[row - 1] = ""
    return iter(list(enumerate(lines, 1)))


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.statement)
def test_the_source_keeps_the_law(law: Law) -> None:
    assert breaches(law, ROOT) == []


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.statement)
def test_a_breach_of_the_law_is_seen(law: Law, tmp_path: Path) -> None:
    name = "services/gateway/headrace_gateway/intruder.py"
    file = tmp_path / name
    file.parent.mkdir(parents=True)
    file.write_text(f'"""Breaks a law."""\n\n{law.breach}\n')
    assert breaches(law, tmp_path) == [f"{name}:3"]
    for allowed in law.allowed:
        home = tmp_path / (f"{allowed}home.py" if allowed.endswith("/") else allowed)
        home.parent.mkdir(parents=True, exist_ok=True)
        file.rename(home)
        assert breaches(law, tmp_path) == []
        home.rename(file)


LOOP = """async def serve(reader, transport):
    while blocks := await reader.read_now():
        await transport.write(blocks)
"""


def loops(root: Path) -> list[str]:
    """Return the modules under `root` that read a feed and write to a client."""
    return [
        str(path.relative_to(root))
        for path in modules(root)
        if streams_a_feed(source := path.read_text(encoding="utf-8"))
        if streams_a_feed("\n".join(line for _, line in code_of(source)))
    ]


def test_one_loop_serves_every_stream() -> None:
    assert loops(ROOT) == ["services/gateway/headrace_gateway/streaming/subscription.py"]


def test_a_second_loop_is_seen(tmp_path: Path) -> None:
    name = "services/gateway/headrace_gateway/protocols/intruder.py"
    file = tmp_path / name
    file.parent.mkdir(parents=True)
    file.write_text(LOOP)
    assert loops(tmp_path) == [name]
