"""Counts calls of Python functions: a measure of cost that is the same in every run."""

import sys
from collections.abc import Iterable
from types import FrameType, ModuleType
from typing import Self

from headrace.jetstream import memory


class CallCounter:
    """Counts calls within packages during a block, as a profile function (`sys.setprofile`).

    It leaves out the server in memory, the loop and the standard library.
    """

    def __init__(self, packages: Iterable[ModuleType]) -> None:
        """Count calls of functions in `packages`."""
        self.calls = 0
        self._folders = tuple(folder for package in packages for folder in package.__path__)
        self._memory = tuple(memory.__path__)

    def __enter__(self) -> Self:
        """Begin to count."""
        sys.setprofile(self)
        return self

    def __exit__(self, *_: object) -> None:
        """Count no more."""
        sys.setprofile(None)

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Count a call."""
        if event == "call":
            name = frame.f_code.co_filename
            self.calls += name.startswith(self._folders) and not name.startswith(self._memory)
