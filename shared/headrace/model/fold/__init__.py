"""The fold of a log into an A2A Task: pure, deterministic, the same wherever it is made.

An event is read into a `Change` (`change.py`), whose items two write-only accumulations take in
order: `History` and `Artifacts`. Nothing that was written is ever read back to be changed, so the
items can be kept anywhere, a list in Redis included, and give the same task when taken again.
"""

from headrace.model.fold.change import Change, IllFormedEvent, Item, read_artifact, read_change
from headrace.model.fold.task import Standing, TaskFold

__all__ = [
    "Change",
    "IllFormedEvent",
    "Item",
    "Standing",
    "TaskFold",
    "read_artifact",
    "read_change",
]
