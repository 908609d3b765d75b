"""Random logs that gateways and workers could have written.

Every rule of the log holds in them: generations without holes, runs one after the other, attempts
that discard what came after the last checkpoint, an end after which nothing comes.
"""

from dataclasses import dataclass, field

from hypothesis import strategies as st

from headrace.model import events
from headrace.model.entry import Entry, Stamp, parse_entry
from headrace.model.events import Draft, Json
from headrace.model.task import (
    BARE_MESSAGE,
    CANCELED,
    COMPLETED,
    FAILED,
    INPUT_REQUIRED,
    REJECTED,
    RUN_ENDED,
    SUBMITTED,
    WORKING,
    TaskKey,
)

TEXTS = st.text(alphabet='ab \n"\\é😀', max_size=4)
METADATA = st.sampled_from([{"agui_block_type": "text"}, {"agui_block_type": "code"}, {}])
ARTIFACTS = ("a", "b", "c")
MESSAGES = ("m", "n", "")
DRAWN_STEPS = ("text", "text", "text", "think", "think", "file", "meta", "notice", "retract")


@dataclass(slots=True)
class LegalLog:
    """A log in the making: whole entries, as they would be stored."""

    key: TaskKey
    owner: str = "anonymous"
    context: str = "context-1"
    log: str = "abcdefgh"
    messages: list[tuple[Stamp, list[Draft]]] = field(default_factory=list)
    generation: int = 0
    state: str = SUBMITTED
    run: int = 0
    attempt: int = 0
    boundary: int = 0
    """Generation after which a new attempt discards."""
    begun: set[str] = field(default_factory=set)
    """Artifacts that the attempt has begun."""
    tells_owner: bool = True
    """Whether entries that end a run say whose it is, as of workers of this version."""

    def append(
        self, drafts: list[Draft], *, state: str | None = None, checkpoint: bool = False
    ) -> None:
        """Append one message."""
        first = self.generation + 1
        self.state = state or self.state
        stamp = Stamp(
            log=self.log,
            generation=first,
            writer=f"writer-{self.run}-{self.attempt}",
            state=self.state,
            run=self.run or 1,
            attempt=self.attempt,
            owner=self.owner if first == 1 or (self.tells_owner and self._is_end) else None,
            checkpoint="{}" if checkpoint else None,
        )
        self.messages.append((stamp, drafts))
        self.generation += len(drafts)
        if checkpoint:
            self.boundary = self.generation

    @property
    def _is_end(self) -> bool:
        return self.state in RUN_ENDED or self.state == BARE_MESSAGE

    @property
    def entries(self) -> list[tuple[Stamp, bytes]]:
        """Headers and body of each message."""
        return [(stamp, _body(stamp.generation, drafts)) for stamp, drafts in self.messages]

    def parsed(self) -> list[Entry]:
        """Return the entries as a reader of the log gets them; sequences count from 1."""
        return [
            parse_entry("subject", stamp.headers(), body, sequence, "2026-01-01T00:00:00Z")
            for sequence, (stamp, body) in enumerate(self.entries, 1)
        ]

    def events(self) -> list[Json]:
        """Return all events."""
        return [event for entry in self.parsed() for event in entry.events]

    def submit(self, text: str = "hello", metadata: Json | None = None) -> None:
        """Append an input: generation 1, or a follow-up."""
        message = {"messageId": "u", "role": "ROLE_USER", "parts": [{"text": text}]}
        if self.generation == 0:
            draft = events.task_submitted(self.key.task, self.context, message, metadata)
        else:
            draft = self.status(SUBMITTED, message, metadata)
        self.run, self.attempt = self.generation + 1, 0
        self.boundary = self.run
        self.append([draft], state=SUBMITTED)

    def begin_attempt(self) -> None:
        """Append the WORKING that begins an attempt."""
        self.attempt += 1
        self.begun = set()
        metadata: Json = {events.ATTEMPT: self.attempt, events.WORKER: "w"}
        if self.attempt > 1:
            metadata[events.DISCARDED_AFTER] = self.boundary
        self.append([self.status(WORKING, metadata=metadata)], state=WORKING)

    def status(
        self, state: str, message: Json | None = None, metadata: Json | None = None
    ) -> Draft:
        """Build a status."""
        return events.status_update(self.key.task, self.context, state, message, metadata)

    def chunk(self, artifact: str, text: str, metadata: Json | None = None) -> Draft:
        """Build a chunk of text; the attempt's first of an artifact begins it anew."""
        append = artifact in self.begun
        self.begun.add(artifact)
        part = {"text": text, "metadata": metadata} if metadata else {"text": text}
        body = {"artifactId": artifact, "parts": [part]}
        return events.artifact_update(self.key.task, self.context, body, append=append)


def _body(generation: int, drafts: list[Draft]) -> bytes:
    return b"\n".join(draft.line(generation + offset) for offset, draft in enumerate(drafts))


@st.composite
def legal_logs(draw: st.DrawFn, key: TaskKey | None = None) -> LegalLog:
    """Draw a log of up to a few runs, ended or not."""
    log = LegalLog(key or TaskKey("t", "agent", "0-" + "0" * 32))
    log.submit(draw(TEXTS), draw(st.sampled_from([None, {"agui_run": "r"}, {events.VERSION: "1"}])))
    for _ in range(draw(st.integers(0, 3))):
        _draw_run(draw, log)
        if not _draw_next_run(draw, log):
            break
    return log


def _draw_run(draw: st.DrawFn, log: LegalLog) -> None:
    for _ in range(draw(st.integers(1, 3))):
        log.begin_attempt()
        for _ in range(draw(st.integers(0, 6))):
            steps = draw(st.lists(st.sampled_from(DRAWN_STEPS), min_size=1, max_size=5))
            drafts = [_draw_output(draw, log, step) for step in steps]
            log.append(drafts, state=WORKING, checkpoint=draw(st.integers(0, 4)) == 0)


def _draw_next_run(draw: st.DrawFn, log: LegalLog) -> bool:
    end = draw(
        st.sampled_from([None, INPUT_REQUIRED, INPUT_REQUIRED, COMPLETED, FAILED, BARE_MESSAGE])
    )
    if end == BARE_MESSAGE:
        answer = {"messageId": "x", "role": "ROLE_AGENT", "parts": [{"text": draw(TEXTS)}]}
        log.append([events.bare_message(log.context, answer)], state=BARE_MESSAGE)
    elif end is not None:
        message = _said("end", draw(TEXTS), {}) if draw(st.booleans()) else None
        log.append([log.status(end, message)], state=end)
    elif draw(st.booleans()):
        # A gateway may also end it, behind the worker's back.
        end = draw(st.sampled_from([CANCELED, REJECTED]))
        log.append([log.status(end)], state=end)
    if end != INPUT_REQUIRED:
        return False
    log.submit(draw(TEXTS), draw(st.sampled_from([None, {events.VERSION: "2"}])))
    return True


def _draw_output(draw: st.DrawFn, log: LegalLog, step: str) -> Draft:
    match step:
        case "text":
            return log.chunk(draw(st.sampled_from(ARTIFACTS)), draw(TEXTS), draw(METADATA))
        case "think":
            output = _said(draw(st.sampled_from(MESSAGES)), draw(TEXTS), draw(METADATA))
            return log.status(WORKING, output)
        case "file":
            part = {"raw": "YQ==", "mediaType": "text/plain"}
            artifact = draw(st.sampled_from(ARTIFACTS))
            log.begun.add(artifact)
            body = {"artifactId": artifact, "name": "f", "parts": [part]}
            return events.artifact_update(log.key.task, log.context, body, last_chunk=True)
        case "meta":
            return log.status(WORKING, metadata={"progress": draw(st.integers(0, 9))})
        case "retract":
            body = {"artifactId": "gone", "parts": [{"text": ""}]}
            metadata = {events.RETRACTED: True}
            return events.artifact_update(log.key.task, log.context, body, metadata=metadata)
        case _:
            return log.status(WORKING)


def _said(message_id: str, text: str, metadata: Json) -> Json:
    part = {"text": text, "metadata": metadata} if metadata else {"text": text}
    named = {"messageId": message_id} if message_id else {}
    return {**named, "role": "ROLE_AGENT", "parts": [part]}
