"""A task's artifacts."""

from dataclasses import dataclass, field

from headrace.model.events import Json
from headrace.model.fold.change import ADD, DROP, NEW, TEXTS, Item
from headrace.model.fold.pieces import Pieces


@dataclass(slots=True)
class _Version:
    """An artifact since it was last begun anew."""

    generation: int
    frames: list[tuple[int, Json]] = field(default_factory=list)
    """What chunks said beside parts, with their generations."""
    pieces: Pieces = field(default_factory=Pieces)

    def take(self, generation: int, chunk: Json) -> None:
        if not self.frames or len(chunk) > len(("artifactId", "parts")):
            frame = {key: value for key, value in chunk.items() if key != "parts"}
            self.frames.append((generation, frame))
        self.pieces.extend(generation, chunk.get("parts") or [])

    def drop_after(self, generation: int) -> None:
        self.pieces.drop_after(generation)
        while self.frames and self.frames[-1][0] > generation:
            self.frames.pop()

    def whole(self) -> Json:
        merged: Json = {}
        for _, frame in self.frames:
            metadata = {**(merged.get("metadata") or {}), **(frame.get("metadata") or {})}
            merged |= frame
            if metadata:
                merged["metadata"] = metadata
        return {**merged, "parts": self.pieces.merged()}


class Artifacts:
    """Takes artifact items in order; each costs O(1), amortised over what it brings.

    An artifact that is begun anew keeps its former versions: the attempt that replaced it may be
    discarded.
    """

    def __init__(self) -> None:
        """Hold nothing yet."""
        self._versions: dict[str, list[_Version]] = {}
        self._last: _Version | None = None

    def take(self, item: Item) -> None:
        """Take the next item."""
        generation, tag, value = item[0], item[1], item[2]
        if tag == TEXTS:
            if self._last is not None:
                self._last.pieces.go_on(generation, item[2:])
        elif tag == ADD:
            self._add(generation, value)
        elif tag == NEW:
            self._begin(generation, value)
        elif tag == DROP:
            self._drop_after(value)

    def whole(self) -> list[Json]:
        """Return the artifacts in the order in which they were first begun."""
        return [versions[-1].whole() for versions in self._versions.values()]

    def _begin(self, generation: int, chunk: Json) -> None:
        version = self._last = _Version(generation)
        self._versions.setdefault(chunk["artifactId"], []).append(version)
        version.take(generation, chunk)

    def _add(self, generation: int, chunk: Json) -> None:
        versions = self._versions.get(chunk["artifactId"])
        if not versions:
            self._begin(generation, chunk)
            return
        self._last = versions[-1]
        self._last.take(generation, chunk)

    def _drop_after(self, generation: int) -> None:
        self._last = None
        for name, versions in list(self._versions.items()):
            while versions and versions[-1].generation > generation:
                versions.pop()
            if versions:
                versions[-1].drop_after(generation)
            else:
                del self._versions[name]
