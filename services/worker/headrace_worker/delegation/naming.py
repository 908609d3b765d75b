"""What a child is called: the same in each attempt, in whatever order an agent asks."""

import hashlib
from collections import Counter
from collections.abc import Set as AbstractSet

import orjson

from headrace.model.delegation import MAX_NAME, child_task_id
from headrace.model.events import Json
from headrace.sdk.errors import DelegationRefused

_NOT_COMPARED = frozenset({"messageId", "taskId", "contextId", "role"})
"""What a message carries that says nothing of the question."""


class Names:
    """Names the children of one attempt."""

    def __init__(self, parent: str, leg: int, spent: AbstractSet[str]) -> None:
        """Name children of `leg` of `parent`; the `spent` task ids are not to be met again."""
        self._parent, self._leg, self._spent = parent, leg, spent
        self._asked: Counter[tuple[str, str]] = Counter()

    def of(self, agent: str, message: Json, key: str | None) -> tuple[str, str]:
        """Return the child's name and its task id.

        With a `key` that is the question's name; without one the same question asked n times is n
        children.

        Raises:
            DelegationRefused: the key is too long, or empty.
        """
        base = f"key:{key}" if key is not None else self._next(agent, fingerprint(message))
        if key == "" or len(base) > MAX_NAME:
            most = MAX_NAME - len("key:")
            raise DelegationRefused(agent, "bad_request", f"a key has 1 to {most} characters")
        name, again = base, 0
        while (task := child_task_id(self._parent, self._leg, agent, name)) in self._spent:
            again += 1
            name = f"again {again}:{base}"
        return name, task

    def _next(self, agent: str, question: str) -> str:
        self._asked[agent, question] += 1
        return f"ask:{question}:{self._asked[agent, question]}"


def fingerprint(message: Json) -> str:
    """Return a digest of what the message asks."""
    said = {key: value for key, value in message.items() if key not in _NOT_COMPARED}
    canonical = orjson.dumps(said, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(canonical).hexdigest()[:32]
