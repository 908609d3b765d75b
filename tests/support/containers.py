"""Choose the tests' servers: embedded ones, or containers of `docker-compose.yml`'s images.

In containers every server that a test starts runs in one, on the host's network and on the same
files, so that a test can kill and freeze it as it does a process. The engine's client is imported
where containers are asked for: it takes 0.3 s in each of the processes that share the tests.
"""

import gc
import os
import signal
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread

_VARIABLE = "HEADRACE_TEST_SERVERS"
_EMBEDDED, _CONTAINERS, _AUTO = "embedded", "containers", "auto"


class NoEngine(Exception):
    """There is no container engine, or it does not have the images and can't get them."""


def are_wanted() -> bool:
    """Tell whether the servers run in containers."""
    return os.environ.get(_VARIABLE) == _CONTAINERS


def choose(images: Iterable[str]) -> str:
    """Choose as ``HEADRACE_TEST_SERVERS`` says, for this process and those it starts; say what.

    ``auto`` is containers where there is an engine that runs `images`, else embedded servers.

    Raises:
        ValueError: the variable asks for something else.
        NoEngine: it asks for containers, and nothing can run them.
    """
    wanted = os.environ.get(_VARIABLE) or _EMBEDDED
    if wanted not in {_EMBEDDED, _CONTAINERS, _AUTO}:
        raise ValueError(f"{_VARIABLE} is {wanted!r}; it may be embedded, containers or auto")
    chosen, why = wanted, ""
    if wanted != _EMBEDDED:
        try:
            _require(images)
            chosen = _CONTAINERS
        except NoEngine as missing:
            if wanted == _CONTAINERS:
                raise
            chosen, why = _EMBEDDED, f" ({missing})"
    os.environ[_VARIABLE] = chosen
    return chosen + why


def _trouble(images: Iterable[str]) -> str:
    """Return why no engine runs `images`; empty: one has them, or has got them now."""
    from docker.errors import DockerException  # noqa: PLC0415  # as this module's text says
    from testcontainers.core.config import testcontainers_config  # noqa: PLC0415  # likewise
    from testcontainers.core.docker_client import DockerClient  # noqa: PLC0415  # likewise

    try:
        engine = DockerClient().client
        engine.ping()
        present = {tag for image in engine.images.list() for tag in image.tags}
        # testcontainers' own, which removes what a killed run leaves behind.
        reaper = () if testcontainers_config.ryuk_disabled else (testcontainers_config.ryuk_image,)
        for image in {*images, *reaper} - present:
            engine.images.pull(image)
    except DockerException as error:
        return " ".join(str(error).split())[:200]
    return ""


def _require(images: Iterable[str]) -> None:
    """Return if there is an engine that runs `images`.

    Raises:
        NoEngine: there is none.
    """
    with warnings.catch_warnings():
        # The client leaves its socket open where nobody listens.
        warnings.simplefilter("ignore", ResourceWarning)
        error = _trouble(images)
        gc.collect()
    if error:
        raise NoEngine(f"no container engine that runs the images: {error}")


class ContainerProcess:
    """A running container, handled as `subprocess.Popen` handles a process."""

    def __init__(self, image: str, command: Sequence[str], folder: Path, log: Path) -> None:
        """Start `command` in `folder`; its output goes to `log` as it comes.

        It sees the files of the whole tree that `folder` is in, as certificates lie beside it.
        """
        from testcontainers.core.container import DockerContainer  # noqa: PLC0415  # likewise

        self._log = log
        self._code: int | None = None
        container = DockerContainer(
            image, network_mode="host", user=f"{os.getuid()}:{os.getgid()}", working_dir=str(folder)
        )
        tree = Path(*folder.parts[:2])
        container.with_volume_mapping(tree, str(tree), "rw")
        container.with_command([Path(command[0]).name, *command[1:]])
        self._container = container.start().get_wrapped_container()
        self._container.reload()
        self.pid: int = self._container.attrs["State"]["Pid"]
        log.touch()
        self._copying = Thread(target=self._copy_log, name=f"log of {log.stem}", daemon=True)
        self._copying.start()

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
            from docker.errors import DockerException  # noqa: PLC0415  # likewise

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
        self._copying.join()
        self._container.remove(force=True, v=True)

    def _copy_log(self) -> None:
        with self._log.open("ab", buffering=0) as lines:
            for some in self._container.logs(stream=True, follow=True):
                lines.write(some)
