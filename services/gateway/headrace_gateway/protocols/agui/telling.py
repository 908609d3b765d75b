"""The events of one run, in order, as AG-UI events."""

from headrace.model import parts
from headrace.model.delegation import CHILD
from headrace.model.events import ATTEMPT, RETRACTED, TAKEN, Json
from headrace.model.task import FAILED, INTERRUPTED, REJECTED, TERMINAL, WORKING
from headrace_gateway.protocols.agui.attempts import Attempts
from headrace_gateway.protocols.agui.blocks import TEXT
from headrace_gateway.protocols.agui.lifecycle import Lifecycle
from headrace_gateway.protocols.agui.output import OpenItem, Output
from headrace_gateway.protocols.agui.part_events import PartEvents
from headrace_gateway.protocols.agui.run import Run
from headrace_gateway.protocols.agui.snapshot import say_messages
from headrace_gateway.protocols.agui.subagents import Subagents
from headrace_gateway.protocols.agui.utterances import utter
from headrace_gateway.protocols.agui.view import View

_PLAIN_ARTIFACT = 2
"""Number of its fields: id and parts."""
_PLAIN_PART = 2
"""Number of its fields: text and metadata."""


class TextChunks:
    """Recognises chunks that differ from an earlier one in nothing but their text."""

    def __init__(self, output: Output) -> None:
        """Say them to `output`."""
        self._output = output
        self._known: dict[str, tuple[Json, OpenItem]] = {}

    def learn(self, artifact: Json) -> None:
        """Remember an artifact's chunk that the long way has said."""
        if len(artifact["parts"]) != 1:
            return
        part = artifact["parts"][0]
        block = parts.block_id(part) or artifact["artifactId"]
        item = self._output.open.get((TEXT.use, block))
        if item is not None and "metadata" in part and not parts.encrypted_value(part):
            self._known[artifact["artifactId"]] = part["metadata"], item

    def say(self, event: Json) -> bool:
        """Say the event if it is such a chunk; return whether it was."""
        update = event.get("artifactUpdate")
        if update is None or "lastChunk" in update or not update.get("append"):
            return False
        artifact = update["artifact"]
        known = self._known.get(artifact["artifactId"])
        if known is None or len(artifact) != _PLAIN_ARTIFACT or len(artifact["parts"]) != 1:
            return False
        part, (metadata, item) = artifact["parts"][0], known
        if item.ended or len(part) != _PLAIN_PART or part.get("metadata") != metadata:
            return False
        text = part.get("text")
        if text and isinstance(text, str):
            item.pieces.append(text)
            self._output.emit("TEXT_MESSAGE_CONTENT", messageId=item.id, delta=text)
        return isinstance(text, str)


UNREADABLE = "headrace.unreadable"
"""Name of the CUSTOM event in place of what is not of the shape that it claims."""

_NO_METADATA: Json = {}


class Telling:
    """Tells what happens in a run to one output."""

    def __init__(self, output: Output, run: Run, number: int) -> None:
        """Tell the story of `run`, whose input has generation `number`."""
        self.view = View.at_start(run.messages, run.state)
        self.lifecycle = Lifecycle(output, self.view, run)
        self.attempts = Attempts(output, self.view, number)
        self.over = False
        self.wants_raw = run.raw
        self._output, self._run = output, run
        self._parts = PartEvents(output, self.view, modern=run.modern, thinking=run.thinking)
        self._chunks = TextChunks(output)
        self._subagents = Subagents(output, self.view, run)

    def tell(self, event: Json, generation: int) -> None:
        """Tell one event of the log.

        Any language can be a worker, so an event may be of another shape than it should: the
        client is told that there was one, and the run goes on.
        """
        try:
            if not self._chunks.say(event):
                self._tell(event, generation)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            # Python's own words differ between versions, and frames must not.
            reason = str(error) if isinstance(error, ValueError) else "not of the shape it claims"
            value = {"generation": generation, "reason": reason}
            self._output.emit("CUSTOM", name=UNREADABLE, value=value)

    def _tell(self, event: Json, generation: int) -> None:
        if (update := event.get("artifactUpdate")) is not None:
            self._artifact(update)
        elif (update := event.get("statusUpdate")) is not None:
            self._status(update, generation)
        elif (message := event.get("message")) is not None:
            self._utter(message, generation, final=True)
            self.lifecycle.answered()
            self.over = True

    def _artifact(self, update: Json) -> None:
        if (update.get("metadata") or _NO_METADATA).get(RETRACTED):
            # For clients that hold what a new attempt discarded; here it is gone already.
            return
        artifact, append = update["artifact"], bool(update.get("append"))
        name, chunk = artifact["artifactId"], artifact.get("parts", [])
        if not append:
            self._retract(name, chunk)
        rest = [part for part in chunk if not self._parts.say(part, name)]
        if rest or not append:
            self._parts.activities.artifact({**artifact, "parts": rest}, append=append)
        if update.get("lastChunk"):
            for block in _blocks(name, chunk):
                self._parts.text.end(block)
        elif not rest:
            self._chunks.learn(artifact)

    def _retract(self, name: str, chunk: list[Json]) -> None:
        """Take back what the artifact said before: a chunk without `append` replaces it."""
        retracted = [self._parts.text.retract(block) for block in _blocks(name, chunk)]
        if any(retracted):
            say_messages(self._output, self.view)

    def _status(self, update: Json, generation: int) -> None:
        status, metadata = update["status"], update.get("metadata") or _NO_METADATA
        state = status["state"]
        if (child := metadata.get(CHILD)) is not None:
            self._subagents.tell(child, status, generation)
            return
        if ATTEMPT in metadata:
            self.attempts.begin(metadata)
        if TAKEN in metadata:
            # The user's own words; an AG-UI client knows what it sent.
            return
        if "message" in status and state not in {FAILED, REJECTED}:
            self._utter(status["message"], generation, final=state != WORKING)
        if state in TERMINAL or state in INTERRUPTED:
            self.lifecycle.ended(state, update, f"{self._run.id}.{generation}")
            self.over = True

    def _utter(self, message: Json, generation: int, *, final: bool) -> None:
        name = message.get("messageId") or f"{self._run.id}.{generation}"
        utter(self._parts, message, name, final=final)


def _blocks(name: str, chunk: list[Json]) -> list[str]:
    """Return the ids of the chunk's blocks, each once, in an order that never varies."""
    return list(dict.fromkeys([name, *(parts.block_id(part) or name for part in chunk)]))
