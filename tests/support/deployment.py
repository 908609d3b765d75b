"""The fleet of `docker-compose.yml` without containers.

Each service runs the command line that the file gives it, in the environment that the file gives
it, against real servers on the configuration files that it mounts. Only addresses and folders are
replaced by those of this machine.
"""

import json
import os
import socket
import subprocess
from abc import abstractmethod
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import TracebackType
from typing import Self

from headrace_cli.dev.nats_server import program_path as nats_program
from headrace_cli.dev.valkey_server import program_path as valkey_program
from tests.support.compose_file import ROOT, ComposeService, load
from tests.support.server_process import ServerProcess
from tests.support.servers import ports
from tests.support.service_process import ServiceProcess

_TIMEOUT = 10.0


def adjusted(text: str, changes: dict[str, str]) -> str:
    """Return `text` with each key of `changes` replaced by its value.

    Raises:
        AssertionError: a key does not occur exactly once, so the file is not what was expected.
    """
    for old, new in changes.items():
        assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times"
        text = text.replace(old, new)
    return text


class _ShippedServer(ServerProcess):
    """A server on a configuration file of `deploy/`."""

    def __init__(self, service: ComposeService, program: Path, folder: Path) -> None:
        super().__init__(service.name, folder)
        self._service, self._program = service, program
        self.port = ports.pick()

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.port}"

    @abstractmethod
    def changes(self) -> dict[str, str]:
        """Return what is replaced in its configuration file."""

    def arguments(self) -> list[str]:
        """Return the container's arguments with local files for the mounted ones."""
        return [self._local(word) for word in self._service.command]

    def command(self) -> list[str]:
        arguments = self.arguments()
        is_named = arguments[0] == self._program.name
        return [str(self._program), *arguments[1 if is_named else 0 :]]

    def _local(self, word: str) -> str:
        if word not in self._service.files:
            return word
        shipped = self._service.files[word]
        local = self.folder / shipped.name
        local.write_text(adjusted(shipped.read_text(), self.changes()))
        return str(local)


class ShippedNats(_ShippedServer):
    """nats-server on `deploy/nats.conf`."""

    def __init__(self, service: ComposeService, folder: Path) -> None:
        """Keep everything under `folder`."""
        super().__init__(service, nats_program(), folder)
        self.monitor_port = ports.pick()
        self.environment = {"PATH": os.environ["PATH"], **service.environment}

    def changes(self) -> dict[str, str]:
        return {
            "port: 4222\n": f"host: 127.0.0.1\nport: {self.port}\n",
            "http: 8222 ": f'http: "127.0.0.1:{self.monitor_port}" ',
            '"/data"': json.dumps(str(self.folder / "data")),
        }

    def command(self) -> list[str]:
        accounts = self._service.files["/etc/nats/nats-accounts.conf"]
        (self.folder / accounts.name).write_text(accounts.read_text())
        return super().command()

    def answers(self) -> bool:
        return get(f"127.0.0.1:{self.monitor_port}", "/healthz?js-server-only=true")[0] == 200

    def url(self, user: str) -> str:
        """Return where one of its users connects."""
        variable = f"HEADRACE_NATS_{user.upper().replace('-', '_')}_PASSWORD"
        return f"nats://{user}:{self._service.environment[variable]}@{self.address}"


class ShippedValkey(_ShippedServer):
    """Valkey on `deploy/valkey.conf`."""

    def __init__(self, service: ComposeService, folder: Path) -> None:
        """Keep everything under `folder`."""
        super().__init__(service, valkey_program(), folder)
        self.environment = {"PATH": os.environ["PATH"], **service.environment}
        self.password = service.environment["REDISCLI_AUTH"]

    def command(self) -> list[str]:
        *shell, script = self._service.command
        changes = {
            "$$": "$",
            "/tmp/": f"{self.folder}/made-",  # noqa: S108 - replaced, not written to
            "/etc/valkey/valkey.conf": self._local("/etc/valkey/valkey.conf"),
            "docker-entrypoint.sh valkey-server": str(self._program),
        }
        for theirs, ours in changes.items():
            assert theirs in script
            script = script.replace(theirs, ours)
        assert shell == ["sh", "-c"]
        return ["/bin/sh", "-c", script]

    def changes(self) -> dict[str, str]:
        return {
            "port 6379\n": f"port {self.port}\n",
            "bind * -::*\n": "bind 127.0.0.1\n",
            'dir "/data"\n': f'dir "{self.folder}"\n',
        }

    def answers(self) -> bool:
        try:
            return self.ask("PING") == "+PONG"
        except OSError:
            return False

    def ask(self, question: str) -> str:
        """Return the last line of the answer to `question`."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.sendall(f"AUTH {self.password}\r\n".encode())
            assert connection.recv(4096) == b"+OK\r\n"
            connection.sendall(f"{question}\r\n".encode())
            return connection.recv(4096).decode().split("\r\n")[-2]


class Deployment:
    """Everything that the compose file starts, but the proxy."""

    def __init__(self, folder: Path) -> None:
        """Make the fleet that is to be, each replica in a folder of its own under `folder`."""
        self.services = load()
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([ROOT / "deploy" / "passwords", folder / ".env"], check=True, timeout=60)
        made = dict(line.split("=") for line in (folder / ".env").read_text().splitlines())
        self.token = made["HEADRACE_TOKEN"]
        self._credentials = folder / ".credentials.toml"
        self.nats = ShippedNats(self.services["nats"], folder / "nats")
        self.valkey = ShippedValkey(self.services["valkey"], folder / "valkey")
        self.gateways = [self._gateway(n, folder) for n in self._replicas("gateway")]
        self.gateway_urls = [
            f"http://127.0.0.1:{(g.environment or {})['HEADRACE_HTTP_PORT']}" for g in self.gateways
        ]
        self.others = [
            self._process(role, n, folder, _metrics_port())
            for role in ("task-state", "triggers", "worker")
            for n in self._replicas(role)
        ]

    def __enter__(self) -> Self:
        self.nats.start()
        self.valkey.start()
        for process in (*self.others, *self.gateways):
            process.start(wait=False)
        for gateway in self.gateways:
            gateway.until_answers(90)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        for process in (*self.gateways, *self.others, self.nats, self.valkey):
            process.kill()

    def health_urls(self, role: str) -> list[str]:
        """Return where each replica says how it is."""
        variable = "HEADRACE_HTTP_PORT" if role == "gateway" else "HEADRACE_METRICS_PORT"
        return [
            f"http://127.0.0.1:{(process.environment or {})[variable]}"
            for process in (*self.gateways, *self.others)
            if process.name.rpartition("-")[0] == role
        ]

    def _replicas(self, role: str) -> range:
        return range(self.services[role].replicas)

    def _gateway(self, number: int, folder: Path) -> ServiceProcess:
        port = ports.pick()
        mine = {
            "HEADRACE_CREDENTIALS": str(self._credentials),
            "HEADRACE_HTTP_HOST": "127.0.0.1",  # Tests listen on loopback only.
            "HEADRACE_HTTP_PORT": str(port),
            "HEADRACE_GRPC_PORT": str(ports.pick()),
        }
        return self._process("gateway", number, folder, mine)

    def _process(
        self, role: str, number: int, folder: Path, mine: dict[str, str]
    ) -> ServiceProcess:
        service, name = self.services[role], f"{role}-{number}"
        given = {key: self._at_home(value) for key, value in service.environment.items()}
        port = mine.get("HEADRACE_HTTP_PORT")
        return ServiceProcess(
            name,
            folder / name,
            service.command,
            given | mine,
            lambda: port is None or get(f"127.0.0.1:{port}", "/readyz")[0] == 200,
        )

    def _at_home(self, value: str) -> str:
        return value.replace("nats:4222", self.nats.address).replace(
            "valkey:6379", self.valkey.address
        )


def _metrics_port() -> dict[str, str]:
    return {"HEADRACE_METRICS_HOST": "127.0.0.1", "HEADRACE_METRICS_PORT": str(ports.pick())}


def get(address: str, path: str) -> tuple[int, bytes]:
    """Return status and body; status 0 if nobody answers."""
    connection = HTTPConnection(address, timeout=_TIMEOUT)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, HTTPException):
        return 0, b""
    finally:
        connection.close()
