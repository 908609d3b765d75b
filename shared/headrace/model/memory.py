"""What the fleet remembers for agents: values under keys, each in a scope."""

from dataclasses import dataclass
from typing import NamedTuple

from headrace.model.errors import HeadraceError, InvalidName
from headrace.model.events import MEMORY, Json
from headrace.model.subjects import decode_token, encode_token

LARGEST_VALUE = 16 * 1024 * 1024
"""Maximum size of a value in bytes."""

LONGEST_KEY = 400
"""Maximum length of a key in characters, as encoded for NATS."""

EMPTY = "_"
"""The token of an empty segment of a key. `encode_token` never returns it."""


class MemoryChanged(HeadraceError):
    """A value has another revision than a write expects. Read it again."""

    code = "memory_changed"


class MemoryFull(HeadraceError):
    """A value is too large, or the fleet's memory is at its limit."""

    code = "memory_full"


class MemoryScope(NamedTuple):
    """Whose memory it is, and for how long it lasts.

    With a `task`, it is the task's. With a `context` only, it is the conversation's. Without both,
    it is the owner's, across conversations. Agents share none.
    """

    tenant: str
    """As a subject token, like the following two."""
    agent: str
    owner: str
    context: str | None = None
    """The context's id."""
    task: str | None = None

    @property
    def kind(self) -> str:
        """What the memory belongs to: ``task``, ``conversation`` or ``owner``."""
        if self.task is not None:
            return "task"
        return "owner" if self.context is None else "conversation"


def shown_writes(metadata: Json) -> dict[str, int]:
    """Return how often each kind of memory was written, as an event with this metadata shows."""
    found = metadata.get(MEMORY)
    if not isinstance(found, dict):
        return {}
    return {kind: count for kind, count in found.items() if isinstance(count, int)}


@dataclass(frozen=True, slots=True)
class MemoryValue:
    """A value and its revision."""

    data: bytes
    revision: int
    """Positive. Each write of a key gives it a greater one."""


def encode_key(key: str) -> str:
    """Return `key` as subject tokens, one for each segment between slashes.

    Raises:
        InvalidName: The key is empty, too long or not valid Unicode.
    """
    if not key:
        raise InvalidName("memory key", key, "must not be empty; name what the value is")
    tokens = ".".join(_encode_segment(key, part) if part else EMPTY for part in key.split("/"))
    if len(tokens) > LONGEST_KEY:
        rule = f"must have at most {LONGEST_KEY} characters when encoded; use a hash of it"
        raise InvalidName("memory key", key, rule)
    return tokens


def _encode_segment(key: str, segment: str) -> str:
    try:
        return encode_token(segment)
    except InvalidName as invalid:
        raise InvalidName("memory key", key, f"{invalid.rule}, in each segment") from None


def decode_key(tokens: str) -> str:
    """Return the key that `encode_key` encoded."""
    return "/".join("" if one == EMPTY else decode_token(one) for one in tokens.split("."))


def prefix_of(*names: str) -> str:
    """Return the prefix of the keys whose first segments are `names`, each any text.

    `unquote` reverses a segment. Only what has a meaning is quoted, because keys are encoded later.
    """
    return "".join(f"{name.replace('%', '%25').replace('/', '%2F')}/" for name in names)


def check_prefix(prefix: str) -> str:
    """Return `prefix` if keys can be listed by it.

    Raises:
        InvalidName: It ends within a segment.
    """
    if prefix and not prefix.endswith("/"):
        raise InvalidName("memory prefix", prefix, "must be empty or end with '/'")
    return prefix


def check_size(key: str, data: bytes) -> None:
    """Check the size of a value.

    Raises:
        MemoryFull: It is too large.
    """
    if len(data) > LARGEST_VALUE:
        raise MemoryFull(
            f"the value of memory key {key!r} has {len(data)} bytes, more than {LARGEST_VALUE};"
            " store it as several keys, or as a file"
        )


def latest(values: dict[str, MemoryValue]) -> tuple[str, MemoryValue] | None:
    """Return the key that was written last, and its value."""
    return max(values.items(), key=lambda item: item[1].revision, default=None)


def changed_meanwhile(key: str) -> MemoryChanged:
    """Return the error for a `key` with another revision than a write expects."""
    return MemoryChanged(f"memory key {key!r} has another revision; get it again, then write")
