"""The tests' servers as containers of the images that `docker-compose.yml` names.

With ``HEADRACE_TEST_SERVERS=containers`` every server that a test starts runs in one, on the host's
network and on the same files, so that a test can kill and freeze it as it does a process.
"""

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from docker.errors import DockerException
from testcontainers.core.container import DockerContainer
from testcontainers.core.docker_client import DockerClient

_VARIABLE = "HEADRACE_TEST_SERVERS"


class NoEngine(Exception):
    """Containers are asked for, and there is no engine to run them."""


def are_wanted() -> bool:
    """Tell whether the servers are to run in containers.

    Raises:
        ValueError: the variable asks for something else.
    """
    wanted = os.environ.get(_VARIABLE, "")
    if wanted not in {"", "containers"}:
        raise ValueError(f"{_VARIABLE} is {wanted!r}; it may be 'containers', or not set")
    return wanted == "containers"


def require_engine() -> None:
    """Return if an engine answers.

    Raises:
        NoEngine: none does.
    """
    try:
        DockerClient().client.ping()
    except DockerException as error:
        message = f"{_VARIABLE}=containers needs a container engine, and none answers: {error}"
        raise NoEngine(message) from error


class ContainerProcess:
    """A running container, handled as `subprocess.Popen` handles a process."""

    def __init__(self, image: str, command: Sequence[str], folder: Path, log: Path) -> None:
        """Start `command`, whose files all lie under `folder`; its output goes to `log`."""
        self._log = log
        self._code: int | None = None
        container = DockerContainer(
            image, network_mode="host", user=f"{os.getuid()}:{os.getgid()}", working_dir=str(folder)
        )
        container.with_volume_mapping(folder, str(folder), "rw")
        container.with_command([Path(command[0]).name, *command[1:]])
        self._container = container.start().get_wrapped_container()
        self._container.reload()
        self.pid: int = self._container.attrs["State"]["Pid"]

    def poll(self) -> int | None:
        """Return its exit code; None if it runs."""
        if self._code is None:
            self._container.reload()
            state = self._container.attrs["State"]
            if not (state["Running"] or state["Status"] == "created"):
                self._end(state["ExitCode"])
        return self._code

    def send_signal(self, number: int) -> None:
        """Freeze it, thaw it, or hand it any other signal."""
        if self.poll() is not None:
            return
        is_paused = self._container.status == "paused"
        if number == signal.SIGSTOP:
            self._container.pause()
            return
        if is_paused:
            self._container.unpause()
        if number != signal.SIGCONT:
            with suppress(DockerException):  # It has ended in the moment.
                self._container.kill(int(number))

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code once it has ended, at most `timeout` seconds from now."""
        if self._code is None:
            self._end(self._container.wait(timeout=timeout)["StatusCode"])
        assert self._code is not None
        return self._code

    def _end(self, code: int) -> None:
        self._code = code
        with self._log.open("ab") as lines:
            lines.write(self._container.logs())
        self._container.remove(force=True, v=True)
