"""Messages that are not stored yet, and receipts for their events."""

import asyncio
from collections.abc import Iterator

from headrace.model.events import Draft, TextChunks
from headrace.model.queued_message import QueuedMessage
from headrace.model.task import WORKING
from headrace.sdk.errors import MalformedOutput, RunOver

BATCH = 512
"""Maximum events in one message: readers process a message as a whole."""

_GENERATION_ROOM = 21
"""Bytes of a line in addition to its draft: a generation and the line's end."""

_MOST_ESCAPED = 6
"""Bytes of a character in JSON, at most."""


class Receipt:
    """The outcome of one event's append."""

    __slots__ = ("_failure", "_waiting", "generation", "index", "is_conditional", "queued")

    def __init__(
        self, queued: QueuedMessage | None = None, *, is_conditional: bool = False
    ) -> None:
        """Create the receipt of an event that is not stored yet.

        Args:
            queued: The message that the event queues.
            is_conditional: Whether the append fails if another event comes before this one.
        """
        self.queued, self.is_conditional = queued, is_conditional
        self.index = 0
        """Index of the event in its message."""
        self.generation = 0
        """0 until the event is stored."""
        self._failure: Exception | None = None
        self._waiting: list[asyncio.Future[int]] = []

    async def stored(self) -> int:
        """Wait until the event is stored and return its generation.

        Raises:
            RunOver: the event will not be stored, or its fate is unknown.
            Overtaken: another message came first.
        """
        if self._failure is not None:
            raise self._failure
        if not self.generation:
            waiting: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            await waiting
        return self.generation

    def settle(self, generation: int) -> None:
        """Record that the event is stored as `generation`."""
        self.generation = generation
        if self.queued is not None:
            self.queued.generation = generation
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(generation)

    def fail(self, failure: Exception) -> None:
        """Record why the event is not stored."""
        self._failure = failure
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_exception(failure)
                each.exception()  # Retrieved, or asyncio would warn about it.


class PendingMessage:
    """A message that is being assembled: of events, or of pieces that continue one text."""

    __slots__ = ("checkpoint", "chunks", "drafts", "receipts", "size", "state", "step", "texts")

    def __init__(self) -> None:
        """Start empty."""
        self.texts: list[str] = []
        """Pieces of a text. They are encoded together, when the message is sent."""
        self.chunks: TextChunks | None = None
        """What encodes `texts`."""
        self.drafts: list[Draft] = []
        self.receipts: list[Receipt] = []
        """Receipts of the events that have one."""
        self.size = 0
        """Bytes of the events' lines, at most."""
        self.state = WORKING
        """The task's state after the message, unless it is the run's last."""
        self.checkpoint: str | None = None
        """Checkpoint stored with the events: JSON for the agent's next attempt."""
        self.step: str | None = None
        """JSON of the step that the last event stands for."""

    @property
    def events(self) -> int:
        """Number of events."""
        return len(self.drafts) + len(self.texts)

    def payload(self, first: int) -> bytes:
        """Return the lines of the events, from generation `first` on."""
        if self.chunks is not None:
            return self.chunks.lines(self.texts, first)
        return b"\n".join([draft.line(at) for at, draft in enumerate(self.drafts, first)])

    def encode_texts(self) -> int:
        """Make events of `texts`; return by how many bytes `size` was too large for them."""
        chunks, texts, self.texts = self.chunks, self.texts, []
        if chunks is None or not texts:
            return 0
        self.chunks, before = None, self.size
        self.drafts = [chunks.draft(text) for text in texts]
        self.size = sum(map(size_of, self.drafts))
        return before - self.size

    def stored(self, first: int) -> None:
        """Record that the events are stored, from generation `first` on."""
        for receipt in self.receipts:
            receipt.settle(first + receipt.index)

    def lost(self) -> None:
        """Record that the events are not stored, or not for certain."""
        for receipt in self.receipts:
            receipt.fail(RunOver("the run is over"))

    def drop(self, receipt: Receipt) -> int:
        """Drop the event of `receipt` and return its size."""
        self.receipts.remove(receipt)
        for other in self.receipts:
            other.index -= other.index > receipt.index
        return self._shrink(self.drafts.pop(receipt.index))

    def drop_last(self) -> int:
        """Drop the last event and return its size."""
        return self._shrink(self.drafts.pop())

    def _shrink(self, draft: Draft) -> int:
        size = size_of(draft)
        self.size -= size
        return size


def size_of(draft: Draft) -> int:
    """Return the bytes of the event's line, at most."""
    return len(draft.head) + len(draft.tail) + _GENERATION_ROOM


class PendingMessages:
    """The messages that are being assembled, in order, with the number and size of their events."""

    __slots__ = (
        "_bytes",
        "_capacity",
        "_full",
        "_last",
        "_max_bytes",
        "_max_events",
        "_room",
        "events",
        "is_pressing",
    )

    def __init__(self, capacity: int, max_events: int, max_bytes: int) -> None:
        """Start empty.

        Args:
            capacity: Maximum bytes of a message.
            max_events: Events from which there is no room.
            max_bytes: Bytes from which there is no room.
        """
        self._capacity, self._max_events, self._max_bytes = capacity, max_events, max_bytes
        self._full: list[PendingMessage] = []
        """Messages that get no more events."""
        self._last = PendingMessage()
        self.events = self._bytes = 0
        self.is_pressing = False
        """Whether they must not wait for a tick."""
        self._room: asyncio.Event | None = None
        """Set when there may be room; None until somebody waits for it."""

    def __iter__(self) -> Iterator[PendingMessage]:
        """Yield the messages, the oldest first."""
        yield from self._full
        yield self._last

    @property
    def has_room(self) -> bool:
        """Whether the agent need not wait."""
        return self.events < self._max_events and self._bytes < self._max_bytes

    async def changed(self) -> None:
        """Wait until messages are removed or lost."""
        self._room = self._room or asyncio.Event()
        self._room.clear()
        await self._room.wait()

    def check(self, draft: Draft) -> None:
        """Check that an event fits into a message.

        Raises:
            MalformedOutput: the event is too large.
        """
        if (size := draft.size + 1) > self._capacity:
            raise MalformedOutput(
                f"an event of {size} bytes exceeds the limit of {self._capacity}; "
                "yield large content as a File"
            )

    def put(self, draft: Draft) -> None:
        """Add an event to the last message, or to a new one if it does not fit.

        Raises:
            MalformedOutput: as for `check`.
        """
        message = self._last
        if message.texts:
            self._bytes -= message.encode_texts()
        size = len(draft.head) + len(draft.tail) + _GENERATION_ROOM  # `size_of` in the hot path
        if message.size + size > self._capacity or len(message.drafts) == BATCH:
            self.check(draft)
            self._end_message()
            message = self._last
        message.drafts.append(draft)
        message.size += size
        self.events += 1
        self._bytes += size

    def put_text(self, chunks: TextChunks, text: str) -> None:
        """Add an event that `chunks` makes of `text`, for which `fits_line` is true.

        Raises:
            MalformedOutput: as for `check`.
        """
        message = self._last
        if len(message.texts) == BATCH:
            self._end_message()
            message = self._last
        if not message.drafts and (message.chunks is chunks or not message.texts):
            size = chunks.frame_size + _MOST_ESCAPED * len(text) + _GENERATION_ROOM
            if message.size + size <= self._capacity:
                message.chunks = chunks
                message.texts.append(text)
                message.size += size
                self.events += 1
                self._bytes += size
                return
        self.put(chunks.draft(text))

    def attach(
        self, receipt: Receipt, checkpoint: str | None, step: str | None, state: str
    ) -> None:
        """Attach what belongs to the last event.

        A `checkpoint`, a `step`, or a `state` other than WORKING, makes the event the last of its
        message.
        """
        message = self._last
        receipt.index = len(message.drafts) - 1
        message.receipts.append(receipt)
        if checkpoint is not None or step is not None or state != WORKING:
            message.checkpoint, message.step, message.state = checkpoint, step, state
            self._end_message()

    def pop(self) -> PendingMessage:
        """Remove the oldest message and return it."""
        if self._full:
            message = self._full.pop(0)
        else:
            message, self._last = self._last, PendingMessage()
            self.is_pressing = False
        self.events -= message.events
        self._bytes -= message.size
        if self._room is not None:
            self._room.set()
        return message

    def put_back(self, message: PendingMessage) -> None:
        """Undo `pop`; the message must not wait for a tick."""
        self._full.insert(0, message)
        self.events += message.events
        self._bytes += message.size
        self.is_pressing = True

    def queued(self) -> list[tuple[Receipt, QueuedMessage]]:
        """Return the receipts of the events that queue messages, and these messages."""
        receipts = [receipt for message in self for receipt in message.receipts]
        return [(each, each.queued) for each in receipts if each.queued is not None]

    def drop(self, receipt: Receipt) -> None:
        """Drop the event of `receipt`."""
        message = next(message for message in self if receipt in message.receipts)
        self._uncount(message.drop(receipt))
        self._forget_empty()

    def drop_last(self, count: int) -> int:
        """Drop the last `count` events, or all if there are fewer; return how many."""
        dropped = 0
        self._bytes -= sum([message.encode_texts() for message in self])
        for message in (self._last, *reversed(self._full)):
            while dropped < count and message.drafts:
                self._uncount(message.drop_last())
                dropped += 1
        self._forget_empty()
        return dropped

    def lose(self) -> None:
        """Drop all events: they are not stored."""
        for message in self:
            message.lost()
        self._full.clear()
        self._last = PendingMessage()
        self.events = self._bytes = 0
        if self._room is not None:
            self._room.set()

    def _uncount(self, size: int) -> None:
        self.events -= 1
        self._bytes -= size

    def _forget_empty(self) -> None:
        self._full = [message for message in self._full if message.events]

    def _end_message(self) -> None:
        """Start a new message with the next event."""
        self._full.append(self._last)
        self._last = PendingMessage()
