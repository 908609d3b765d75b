"""Logs with everything that AG-UI has an event for, hand-written or random."""

import re
from collections.abc import Callable
from typing import Any

import orjson
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from headrace.model import events, parts
from headrace.model.events import AGUI, Draft, Json
from headrace.model.task import (
    CANCELED,
    COMPLETED,
    FAILED,
    INPUT_REQUIRED,
    REJECTED,
    WORKING,
    TaskKey,
)
from headrace_gateway.protocols.agui.fold import Fold
from headrace_gateway.protocols.agui.frame import AguiFrame
from tests.support.agui.child_tasks import ChildTasks
from tests.support.legal_logs import LegalLog

KEY = TaskKey("t", "agent", "0-" + "0" * 32)
THREAD, RUN = "context-1", "run-1"
RUN_METADATA: Json = {
    "runId": RUN,
    "protocolVersion": "1.0",
    "state": {"count": 0},
    "messages": [{"id": "s", "role": "system", "content": "be kind"}, {"id": "u", "role": "user"}],
}
GIVEN = [RUN_METADATA["messages"][0], {"id": "u", "role": "user", "content": "hello"}]
"""The client's messages when the run begins."""


class AguiLog(LegalLog):
    """A log that an AG-UI run began."""

    @classmethod
    def started(cls, **metadata: Any) -> "AguiLog":  # noqa: ANN401
        """Return a log whose first attempt has begun."""
        log = cls(KEY)
        log.submit("hello", {AGUI: RUN_METADATA | metadata})
        log.begin_attempt()
        return log

    def say(self, *output: Json, message: str = "m-1") -> "AguiLog":
        """Append parts as an utterance."""
        self.append([self.uttered(list(output), message)], state=WORKING)
        return self

    def uttered(self, output: list[Json], message: str = "m-1") -> Draft:
        """Build an utterance."""
        content = {"messageId": message, "role": "ROLE_AGENT", "parts": output}
        return self.status(WORKING, content)

    def show(self, *shown: Json, artifact: str = "b-1", append: bool = False) -> "AguiLog":
        """Append parts as an artifact's chunk."""
        self.append([self.shown(list(shown), artifact, append=append)], state=WORKING)
        return self

    def shown(self, shown: list[Json], artifact: str, *, append: bool, last: bool = False) -> Draft:
        """Build a chunk."""
        body = {"artifactId": artifact, "parts": shown}
        return events.artifact_update(
            self.key.task, self.context, body, append=append, last_chunk=last
        )

    def end(self, state: str = COMPLETED, output: Json | None = None, **more: Any) -> "AguiLog":  # noqa: ANN401
        """Append a status that ends the run."""
        message = {"messageId": "last", "role": "ROLE_AGENT", "parts": [output], **more}
        self.append([self.status(state, message if output else None)], state=state)
        return self

    def frames(self, run: int = 1) -> list[AguiFrame]:
        """Return the fold of a run."""
        fold = Fold(run)
        return [frame for entry in self.parsed() for frame in fold.read(entry)]

    def agui_events(self, run: int = 1) -> list[Json]:
        """Return the fold's events without their times, by the ids that the agent gave."""
        return [as_agent_named(event) for event in self.client_events(run)]

    def client_events(self, run: int = 1) -> list[Json]:
        """Return the fold's events without their times, by the ids that clients receive."""
        return [untimed(frame.event) for frame in self.frames(run)]


_SUFFIX = re.compile(r"_[0-9a-f]{14}(?=[^0-9a-z])")
"""What makes an id unique in its thread, where it is the first of its run."""


def as_agent_named(event: Json) -> Json:
    """Return the event with the agent's ids instead of those that clients receive."""
    named: Json = orjson.loads(_SUFFIX.sub("", orjson.dumps(event).decode()))
    return named


def untimed(event: Json) -> Json:
    """Return the event without its timestamp."""
    return {key: value for key, value in event.items() if key != "timestamp"}


def hinted(kind: str, data: Any = None, **metadata: Any) -> Json:  # noqa: ANN401
    """Build a data part of one of AG-UI's own types."""
    return {"data": data, "metadata": {parts.EVENT_TYPE: kind, **metadata}}


unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""For tests on drawn logs: a busy machine is no failure."""

TEXTS = st.text(alphabet='ab \n"\\é😀', max_size=4)
NAMES = st.sampled_from(["x", "y", "u", "call-x"])
"""Few, so that ids meet: blocks, calls, artifacts, and the user's own message."""
VALUES = st.one_of(st.none(), st.integers(0, 3), TEXTS, st.lists(st.integers(0, 3), max_size=2))
COUNTS = st.sampled_from([1, 2.0, -1, 2.5, True, "3"])
PATHS = st.sampled_from(
    ["/count", "/list", "/list/-", "/list/0", "", "/missing/deep", "no pointer"]
)


@st.composite
def patches(draw: st.DrawFn) -> Any:  # noqa: ANN401
    """Draw a patch, of which many do not fit."""
    operation = draw(st.sampled_from(["add", "replace", "remove", "test", "nonsense"]))
    patch: Json = {"op": operation, "path": draw(PATHS)}
    if operation != "remove":
        patch["value"] = draw(VALUES)
    return draw(st.sampled_from([[patch], [patch, patch], [], "no list"]))


@st.composite
def conversations(draw: st.DrawFn) -> Any:  # noqa: ANN401
    """Draw AG-UI messages of every role, of which some lists are none."""
    called = {"id": "call-x", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    makers: list[Callable[[str], Json]] = [
        lambda name: {"id": name, "role": "user", "content": draw(TEXTS)},
        lambda name: {"id": name, "role": "assistant", "content": draw(TEXTS)},
        lambda name: {"id": name, "role": "assistant", "toolCalls": [called]},
        lambda name: {"id": name, "role": "tool", "toolCallId": "call-x", "content": "3"},
        lambda name: {"id": name, "role": "reasoning", "content": draw(TEXTS)},
        lambda name: {"id": name, "role": "activity", "activityType": "a", "content": {"n": 1}},
        lambda name: {"id": name, "role": "nobody"},
    ]
    names = draw(st.lists(st.sampled_from(["x", "y", "u", "s", "b-1"]), max_size=3))
    return [_drawn(draw, makers)(name) for name in names]


def _drawn[Maker](draw: st.DrawFn, makers: list[Maker]) -> Maker:
    """Draw one of `makers`, which were made for this draw.

    By number: what is sampled itself is told apart by its hash, that of a function is its address,
    and other addresses lead Hypothesis to draw something else.
    """
    return makers[draw(st.integers(0, len(makers) - 1))]


def _said(draw: st.DrawFn) -> list[Callable[[], Json]]:
    """Return makers of parts of every kind, in most of the spellings that readers know."""

    def name() -> str:
        return draw(NAMES)

    def text() -> str:
        return draw(TEXTS)

    def end() -> bool:
        return draw(st.booleans())

    old_call = {"data": {"data": {"id": "x", "name": "old", "input": "{}"}}}
    return [
        lambda: parts.text_part(text(), name(), end=end()),
        lambda: parts.text_part(text(), name()),
        lambda: parts.thinking_part(text(), name(), end=end(), title="why"),
        lambda: parts.tool_arguments_part(text(), name(), "tool", end=end()),
        lambda: parts.tool_call_part("tool", draw(VALUES), name()),
        lambda: parts.tool_result_part(name(), draw(VALUES), draw(st.sampled_from(["", "boom"]))),
        lambda: {"text": text()},
        lambda: {"text": text(), "filename": "a.txt"},
        lambda: {**old_call, "metadata": {"part_type": "tool_call", "tool_call_id": name()}},
        lambda: {"text": text(), "metadata": {"part_type": "thinking", "title": "Planning"}},
        lambda: parts.notice_part(text()),
        lambda: parts.file_part(b"abc", "a.txt"),
        lambda: hinted(parts.STATE_SNAPSHOT, {"count": draw(VALUES), "list": []}),
        lambda: hinted(parts.STATE_DELTA, draw(patches())),
        lambda: parts.messages_part(draw(conversations())),
        lambda: hinted(parts.ACTIVITY_SNAPSHOT, {"list": []}, agui_block_id=name()),
        lambda: hinted(parts.ACTIVITY_SNAPSHOT, "no object", agui_block_id=name()),
        lambda: hinted(parts.ACTIVITY_DELTA, draw(patches()), agui_block_id=name()),
        lambda: hinted(parts.STEP_STARTED, agui_step_name=name()),
        lambda: hinted(parts.STEP_FINISHED, agui_step_name=name()),
        lambda: hinted(parts.CUSTOM, draw(VALUES), agui_custom_name=name()),
        lambda: hinted(parts.RAW, draw(VALUES), agui_source=name()),
        lambda: hinted(parts.USAGE, {"model": name(), "inputTokens": draw(COUNTS)}),
        lambda: hinted(parts.TOOL_CALL, 3),
        lambda: {"text": 7, "metadata": {parts.EVENT_TYPE: parts.CONTENT_BLOCK}},
        lambda: {"metadata": {parts.EVENT_TYPE: parts.STATE_DELTA}},
    ]


@st.composite
def said_parts(draw: st.DrawFn) -> Json:
    """Draw a part of any kind."""
    part = _drawn(draw, _said(draw))()
    if draw(st.integers(0, 5)):
        return part
    return {**part, "metadata": {**part.get("metadata", {}), parts.ENCRYPTED_VALUE: "sealed"}}


@st.composite
def agui_logs(draw: st.DrawFn, /, **metadata: Any) -> AguiLog:  # noqa: ANN401
    """Draw a log of one run: interleaved, retried, aborted, ended in any way or not at all.

    Children, and children of theirs, speak in it too: they outlive attempts of their parent.
    """
    version = draw(st.sampled_from([{}, {"protocolVersion": None}]))
    log = AguiLog.started(**version, **metadata)
    children = ChildTasks(log.key.task, log.context)
    for attempt in range(draw(st.integers(1, 3))):
        if attempt:
            log.begin_attempt()
        for _ in range(draw(st.integers(0, 5))):
            drawn = [_draw_events(draw, log, children) for _ in range(draw(st.integers(1, 5)))]
            if drafts := [draft for some in drawn for draft in some]:
                log.append(drafts, state=WORKING, checkpoint=draw(st.integers(0, 3)) == 0)
    end = draw(st.sampled_from([None, COMPLETED, FAILED, CANCELED, REJECTED, INPUT_REQUIRED]))
    if end is not None:
        # An end with an ill-formed message is no entry.
        output = said_parts().filter(lambda part: isinstance(part.get("text", ""), str))
        log.end(end, draw(st.none() | output))
    return log


def _draw_events(draw: st.DrawFn, log: AguiLog, children: ChildTasks) -> list[Draft]:
    if draw(st.integers(0, 2)) > 0:
        return [_draw_event(draw, log)]
    return children.draw(
        draw,
        lambda: draw(st.lists(said_parts(), min_size=1, max_size=2)),
        lambda: draw(NAMES),
    )


def _draw_event(draw: st.DrawFn, log: AguiLog) -> Draft:
    output = draw(st.lists(said_parts(), min_size=1, max_size=2))
    if draw(st.booleans()):
        return log.uttered(output, draw(NAMES))
    artifact = draw(NAMES)
    append = artifact in log.begun and draw(st.integers(0, 4)) > 0
    log.begun.add(artifact)
    return log.shown(output, artifact, append=append, last=draw(st.booleans()))
