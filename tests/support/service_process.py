"""One service in its own process, in addition to or instead of `headrace dev`."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.support.server_process import ServerProcess

HEADRACE = Path(sys.executable).with_name("headrace")
"""The console script that the tests' environment has installed."""


class ServiceProcess(ServerProcess):
    """``headrace ARGUMENTS`` in an environment that holds nothing of this one but PATH."""

    def __init__(
        self,
        name: str,
        folder: Path,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        is_ready: Callable[[], bool],
    ) -> None:
        """Make the service that is to be; `is_ready` tells whether it serves."""
        super().__init__(name, folder)
        self._arguments, self._is_ready = list(arguments), is_ready
        self.environment = {"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1", **environment}

    def command(self) -> list[str]:
        return [str(HEADRACE), *self._arguments]

    def answers(self) -> bool:
        return self._is_ready()
