"""A checkpointer for tests that kill a worker."""

import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any, override

from langgraph.checkpoint.memory import InMemorySaver


class FileSaver(InMemorySaver):
    """Keeps its checkpoints in a file, for a worker that takes over from a dead one."""

    def __init__(self, file: Path) -> None:
        """Keep them in `file`."""
        super().__init__()
        self._file = file
        if file.exists():
            storage, writes, blobs = pickle.loads(file.read_bytes())  # noqa: S301  # our own
            for thread, spaces in storage.items():
                self.storage[thread] = defaultdict(dict, spaces)
            self.writes.update(writes)
            self.blobs.update(blobs)

    @override
    async def aput(self, *args: Any, **kwargs: Any) -> Any:
        kept = await super().aput(*args, **kwargs)
        self._write()
        return kept

    @override
    async def aput_writes(self, *args: Any, **kwargs: Any) -> None:
        await super().aput_writes(*args, **kwargs)
        self._write()

    def _write(self) -> None:
        storage = {thread: dict(spaces) for thread, spaces in self.storage.items()}
        held = pickle.dumps((storage, dict(self.writes), self.blobs))
        draft = self._file.with_suffix(".draft")
        draft.write_bytes(held)
        draft.replace(self._file)
