"""A task's name and its states.

The shard of a task is part of its id, so whoever holds an id knows the log's subject without
asking anybody.
"""

import re
import secrets
import uuid
from dataclasses import dataclass

from headrace.model.errors import InvalidName

SHARDS_PER_STREAM = 16
"""Stream k owns the shards 16k … 16k+15 for ever (DESIGN, the bus contract)."""

_LOG_ID_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
_LOG_ID_LENGTH = 8
_LOG_IDS = len(_LOG_ID_ALPHABET) ** _LOG_ID_LENGTH
_TASK_ID = re.compile(r"(0|[1-9][0-9]{0,3})-[0-9a-f]{32}")

SUBMITTED = "TASK_STATE_SUBMITTED"
WORKING = "TASK_STATE_WORKING"
INPUT_REQUIRED = "TASK_STATE_INPUT_REQUIRED"
AUTH_REQUIRED = "TASK_STATE_AUTH_REQUIRED"
COMPLETED = "TASK_STATE_COMPLETED"
FAILED = "TASK_STATE_FAILED"
CANCELED = "TASK_STATE_CANCELED"
REJECTED = "TASK_STATE_REJECTED"

TERMINAL = frozenset({COMPLETED, FAILED, CANCELED, REJECTED})
"""A task in one of these is over."""

INTERRUPTED = frozenset({INPUT_REQUIRED, AUTH_REQUIRED})
"""A task in one of these waits for its user."""

RUN_ENDED = TERMINAL | {INPUT_REQUIRED}
"""A run in one of these is over; at AUTH_REQUIRED its holder waits on."""

STATES = frozenset({SUBMITTED, WORKING}) | TERMINAL | INTERRUPTED


@dataclass(frozen=True, slots=True)
class TaskKey:
    """Where a task's log is: every field is a subject token."""

    tenant: str
    agent: str
    task: str

    @property
    def shard(self) -> int:
        """The shard that the task id names."""
        return int(self.task.partition("-")[0])


def mint_task_id(shard: int) -> str:
    """Return a new, unguessable task id in `shard`."""
    return f"{shard}-{uuid.uuid4().hex}"


def derive_task_id(shard: int, namespace: str, key: str) -> str:
    """Return the one task id of `key` under `namespace`: asking twice meets the same task."""
    return f"{shard}-{uuid.uuid5(uuid.NAMESPACE_URL, f'{namespace}\x00{key}').hex}"


def is_task_id(text: str) -> bool:
    """Tell whether `text` has the form of a task id."""
    return _TASK_ID.fullmatch(text) is not None


def check_task_id(task: str) -> str:
    """Return `task` if it has the form of a task id.

    Raises:
        InvalidName: it has not, so no such task can exist.
    """
    if not is_task_id(task):
        raise InvalidName("task", task, "is not a task id")
    return task


def mint_log_id() -> str:
    """Return a new log id: 8 characters of ``[0-9a-z]``, minted with generation 1."""
    number, letters = secrets.randbelow(_LOG_IDS), []
    for _ in range(_LOG_ID_LENGTH):
        number, letter = divmod(number, len(_LOG_ID_ALPHABET))
        letters.append(_LOG_ID_ALPHABET[letter])
    return "".join(letters)
