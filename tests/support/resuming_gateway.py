"""An additional gateway for one test."""

from pathlib import Path

from tests.support.deployment import get
from tests.support.servers import ports
from tests.support.service_process import ServiceProcess


class OwnGateway(ServiceProcess):
    """One gateway on free ports, with settings of its own."""

    def __init__(self, folder: Path, nats_url: str, **settings: object) -> None:
        """Make the gateway that is to be; `settings` are ``HEADRACE_*`` in lower case."""
        port = ports.pick()
        given = {f"HEADRACE_{name.upper()}": str(value) for name, value in settings.items()}
        environment = {
            "HEADRACE_NATS_URL": nats_url,
            "HEADRACE_HTTP_PORT": str(port),
            "HEADRACE_GRPC_PORT": str(ports.pick()),
            **given,
        }
        self.url = f"http://127.0.0.1:{port}"
        super().__init__("gateway", folder, ["gateway"], environment, self._is_ready)

    @property
    def memory(self) -> int:
        """What it has in memory now, bytes."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        [line] = [line for line in status.splitlines() if line.startswith("VmRSS:")]
        return int(line.split()[1]) * 1024

    def _is_ready(self) -> bool:
        status, _ = get(self.url.removeprefix("http://"), "/readyz")
        return status == 200
