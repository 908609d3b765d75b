"""A task's key and its states.

A task's shard and its thread are part of its id, so the log's subject follows from the key without
a look-up.
"""

import os
import re
import uuid
from hashlib import blake2b
from typing import NamedTuple

from headrace.model.errors import InvalidName

SHARDS_PER_STREAM = 16
"""Stream k always owns the shards 16k … 16k+15 (DESIGN, the bus contract)."""

THREAD_LENGTH = 12
"""Hex digits of a task id that stand for its thread."""

_LOG_ID_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
_LOG_ID_LENGTH = 8
_TO_ALPHABET = bytes(ord(_LOG_ID_ALPHABET[byte % len(_LOG_ID_ALPHABET)]) for byte in range(256))
_TASK_ID = re.compile(r"(0|[1-9][0-9]{0,3})-[0-9a-f]{32}")

TASK_HEADER = "Headrace-Task"
"""Response header of streams whose protocol does not name the task: its id."""

SUBMITTED = "TASK_STATE_SUBMITTED"
WORKING = "TASK_STATE_WORKING"
INPUT_REQUIRED = "TASK_STATE_INPUT_REQUIRED"
AUTH_REQUIRED = "TASK_STATE_AUTH_REQUIRED"
COMPLETED = "TASK_STATE_COMPLETED"
FAILED = "TASK_STATE_FAILED"
CANCELED = "TASK_STATE_CANCELED"
REJECTED = "TASK_STATE_REJECTED"

TERMINAL = frozenset({COMPLETED, FAILED, CANCELED, REJECTED})
"""States of a finished task."""

INTERRUPTED = frozenset({INPUT_REQUIRED, AUTH_REQUIRED})
"""States in which a task waits for its user."""

RUN_ENDED = TERMINAL | {INPUT_REQUIRED}
"""States in which a run is over. In AUTH_REQUIRED its holder keeps waiting."""

AT_WORK = frozenset({WORKING, AUTH_REQUIRED})
"""States in which a holder has the run."""

STATES = frozenset({SUBMITTED, WORKING}) | TERMINAL | INTERRUPTED

BARE_MESSAGE = "HEADRACE_ANSWERED"
"""Instead of a task state: the log ended with a bare Message, and there is no task to list."""

FINISHED = TERMINAL | {BARE_MESSAGE}
"""States after which nothing follows in a log."""

RUN_OVER = RUN_ENDED | {BARE_MESSAGE}
"""States in which no run is active until the user acts."""


class TaskKey(NamedTuple):
    """The key of a task and its log. Every field is a subject token."""

    tenant: str
    agent: str
    task: str

    @property
    def shard(self) -> int:
        """The shard that the task id names."""
        return int(self.task.partition("-")[0])

    @property
    def thread(self) -> str:
        """The token of the thread that the task id names, of `thread_token`."""
        return thread_in(self.task)


def thread_token(owner: str, context: str) -> str:
    """Return the hex digits that stand for an owner's context in the ids of its tasks.

    Others may compute the same ones for a context of theirs: whose a log is, its first entry says.
    """
    return blake2b(f"{owner}\x00{context}".encode(), digest_size=THREAD_LENGTH // 2).hexdigest()


def thread_in(task: str) -> str:
    """Return the token of the thread in a task id."""
    start = task.index("-") + 1
    return task[start : start + THREAD_LENGTH]


def mint_task_id(shard: int, thread: str = "") -> str:
    """Return a new, unguessable task id in `shard`; empty `thread`: in a thread of its own."""
    random = os.urandom(16).hex()
    return f"{shard}-{thread}{random[len(thread) :]}"


def derive_task_id(shard: int, namespace: str, key: str, thread: str) -> str:
    """Return the task id in `thread` that `key` under `namespace` gives, always the same."""
    derived = uuid.uuid5(uuid.NAMESPACE_URL, f"{namespace}\x00{key}").hex
    return f"{shard}-{thread}{derived[len(thread) :]}"


def is_task_id(text: str) -> bool:
    """Return whether `text` has the form of a task id."""
    return _TASK_ID.fullmatch(text) is not None


def check_task_id(task: str) -> str:
    """Return `task` if it has the form of a task id.

    Raises:
        InvalidName: It does not, so no such task can exist.
    """
    if not is_task_id(task):
        raise InvalidName("task", task, "is not a task id")
    return task


def mint_log_id() -> str:
    """Return a new log id: 8 characters of ``[0-9a-z]``, minted with generation 1.

    Four characters are a seventh more frequent than the others, which costs 0.01 bits of 41.
    """
    return os.urandom(_LOG_ID_LENGTH).translate(_TO_ALPHABET).decode()
