"""Lines of streamed text that differ from one another in nothing but text and generation.

A stream of tokens says the same around each of them. What stands around a text is looked at once
per task, and compared as bytes from then on: a third of what parsing every line costs.
"""

import orjson

from headrace.model.events import GENERATION, Json

_TEXT = b'"text":'
_END = b"}}}"
_MARK = "\ue000"


class ChunkFrame:
    """What stands before and behind the text of an artifact's chunk."""

    __slots__ = ("_after", "_before", "_least")

    def __init__(self, before: bytes, after: bytes) -> None:
        """Know lines that are `before`, a text, `after`, a generation and an end."""
        self._before, self._after = before, after
        self._least = len(before) + len(after) + len(_END)

    @classmethod
    def of(cls, line: bytes, generation: int) -> "ChunkFrame | None":
        """Return the frame of an artifact update with one text; None: it is written otherwise."""
        update = orjson.loads(line)
        [part] = update["artifactUpdate"]["artifact"]["parts"]
        before, text, after = line.partition(_TEXT + orjson.dumps(part["text"]))
        number = b"%d%b" % (generation, _END)
        if not text or not after.endswith(number):
            return None
        frame = cls(before + _TEXT, after.removesuffix(number))
        # The same bytes may stand elsewhere. If these are the ones, another text and another
        # number in their place make the event with that text and that number, and nothing else.
        part["text"] = _MARK
        metadata: Json = update["artifactUpdate"].get("metadata") or {}
        metadata[GENERATION] = generation + 1
        return frame if frame._reads_as(update, generation + 1) else None

    def _reads_as(self, event: Json, generation: int) -> bool:
        inner = self._before + orjson.dumps(_MARK) + self._after
        try:
            return bool(orjson.loads(b"%b%d%b" % (inner, generation, _END)) == event)
        except orjson.JSONDecodeError:
            return False

    def text_of(self, line: bytes, generation: int) -> str | None:
        """Return the text of a line of this frame at that generation; None: it is another line."""
        tail = b"%b%d%b" % (self._after, generation, _END)
        if len(line) < self._least or not (line.startswith(self._before) and line.endswith(tail)):
            return None
        try:
            text = orjson.loads(line[len(self._before) : -len(tail)])
        except orjson.JSONDecodeError:
            return None
        return text if type(text) is str else None
