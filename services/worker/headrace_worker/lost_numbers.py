"""A warning about an agent's numbers that JSON does not have: clients get null for them."""

import logging

from headrace.model import json_text
from headrace.sdk.emit import File, Status, Text, Thinking, ToolArguments
from headrace.sdk.signals import Step, Subagent

_log = logging.getLogger(__name__)

_WITHOUT_NUMBERS = frozenset({str, Text, Thinking, ToolArguments, File, Status, Step, Subagent})
"""Types of output whose fields are all text, so that a token costs nothing."""


class LostNumbers:
    """Warns once in an attempt at a run."""

    __slots__ = ("_has_warned", "_task")

    def __init__(self, task: str) -> None:
        """Warn about the output of the attempt at a run of `task`."""
        self._task, self._has_warned = task, False

    def check(self, output: object, encoded: bytes, name: str = "") -> None:
        """Warn if `encoded` has null for a number of `output`, which is called `name`."""
        if self._has_warned or type(output) in _WITHOUT_NUMBERS:
            return
        found = json_text.lost_number(output, encoded, name or type(output).__name__)
        if found is not None:
            self._has_warned = True
            _log.warning(
                "task %s: %s is %s, which JSON does not have: clients get null. This is reported "
                "once for each attempt at a run",
                self._task,
                *found,
            )
