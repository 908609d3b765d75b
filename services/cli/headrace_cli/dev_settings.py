"""What ``headrace dev`` is told: the bus's settings, and how large the stack is to be."""

from pathlib import Path

from pydantic import Field, ValidationError

from headrace.secret_settings import first_error
from headrace.settings import BusSettings
from headrace_cli.failures import CannotStart


class DevSettings(BusSettings):
    """Settings of the development stack; a flag beats a variable."""

    nats_url: str = ""
    """NATS servers to use, comma-separated URLs; empty: an embedded one."""

    redis_url: str = ""
    """Redis or Valkey to use, a URL; empty: an embedded one."""

    http_host: str = "127.0.0.1"
    """Address that the gateways listen on."""

    http_port: int = Field(default=8080, ge=0, le=65535)
    """HTTP port of the first gateway, the others follow; 0 picks free ones."""

    grpc_port: int = Field(default=50051, ge=0, le=65535)
    """gRPC port of the first gateway, the others follow; 0 picks free ones."""

    gateways: int = Field(default=1, ge=1, le=64)
    """How many gateways."""

    workers: int = Field(default=1, ge=0, le=64)
    """How many workers."""

    task_states: int = Field(default=1, ge=1, le=64)
    """How many task states."""

    push_allow: str = "127.0.0.0/8,::1/128"
    """Hosts and networks that webhooks may have beside public addresses: those of this machine, as
    a receiver that is being developed runs here too."""

    cors_origins: str = "loopback"
    """Origins whose pages may call the gateways: those of this machine that ask by CORS, as a
    front end that is being developed is served here too."""

    agents: str = "headrace_dojo:agents"
    """MODULE:ATTR of the agents that the workers run."""

    config: str = ""
    """A ``headrace.yaml`` with agents to run, instead of `agents`."""

    nats_sync_interval: str = Field(default="", pattern=r"^(always|\d+(ms|s|m|h))?$")
    """How often the embedded nats-server syncs to disk: ``always``, ``10s``; empty: every 2 min."""

    ephemeral: bool = False
    """Keep the embedded servers' data in a temporary folder, deleted at the end."""

    restart: bool = True
    """Start a child again that died."""

    @property
    def data_folder(self) -> Path:
        """`data_dir`, absolute."""
        return self.data_dir.expanduser().absolute()


def load(**flags: str | int | bool | None) -> DevSettings:
    """Return the settings of the environment under the `flags` that are not None.

    Port 0 without a gRPC port picks free ones for both: who takes any port wants no collision.

    Raises:
        CannotStart: a value does not fit; says which and why.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    try:
        settings = DevSettings.model_validate(given)
    except ValidationError as invalid:
        raise CannotStart(first_error(invalid)) from None
    if settings.http_port == 0 and "grpc_port" not in settings.model_fields_set:
        return settings.model_copy(update={"grpc_port": 0})
    return settings
