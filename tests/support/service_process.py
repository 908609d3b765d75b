"""One service in its own process, in addition to or instead of `headrace dev`."""

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.support.containers import ContainerProcess
from tests.support.forked_process import HEADRACE, ForkedProcess, start_service
from tests.support.server_process import ServerProcess


class ServiceProcess(ServerProcess):
    """``headrace ARGUMENTS`` in an environment that holds nothing of this one but PATH.

    It is a fork of a process that has imported the service, where it can be one.
    """

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
        self.anew = False
        """Whether it imports everything itself, as where its start or memory is measured."""
        self.imports: Sequence[str] = ()
        """Modules that it is to find imported, besides its service's."""
        usual = {"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1", "HEADRACE_METRICS_PORT": "0"}
        self.environment = usual | dict(environment)

    def command(self) -> list[str]:
        return [str(HEADRACE), *self._arguments]

    def answers(self) -> bool:
        return self._is_ready()

    def _launched(self) -> subprocess.Popen[bytes] | ContainerProcess | ForkedProcess:
        if self.anew or self.environment is None:
            return super()._launched()
        return start_service(
            self.command(),
            self.log,
            folder=self.folder,
            environment=self.environment,
            imports=self.imports,
        )
