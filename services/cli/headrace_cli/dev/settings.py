"""Settings of ``headrace dev``: the bus's settings and the size of the stack."""

import os
from pathlib import Path

import click
from pydantic import Field, ValidationError

from headrace.secret_settings import setting_errors
from headrace.setting_names import ineffective_settings
from headrace.settings import BusSettings
from headrace_cli.failures import CannotStart


class DevSettings(BusSettings):
    """Settings of the development stack; a flag beats a variable."""

    nats_url: str = ""
    """Comma-separated URLs of NATS servers to use. If empty, an embedded server is started."""

    redis_url: str = ""
    """URL of the Redis or Valkey to use. If empty, an embedded server is started."""

    http_host: str = "127.0.0.1"
    """Address that the gateways listen on."""

    http_port: int = Field(default=8080, ge=0, le=65535)
    """HTTP port of the first gateway; the others use the following ports. 0: any free ports."""

    grpc_port: int = Field(default=50051, ge=0, le=65535)
    """gRPC port of the first gateway; the others use the following ports. 0: any free ports."""

    gateways: int = Field(default=1, ge=1, le=64)
    """Number of gateways."""

    workers: int = Field(default=1, ge=0, le=64)
    """Number of workers."""

    task_states: int = Field(default=1, ge=1, le=64)
    """Number of task state services."""

    triggers: int = Field(default=1, ge=0, le=64)
    """Number of triggers services, which begin tasks for events and by the clock."""

    push_allow: str = "127.0.0.0/8,::1/128"
    """Hosts and networks that webhooks may use in addition to public addresses. By default this
    machine, where receivers under development run."""

    cors_origins: str = "loopback"
    """Origins whose pages may call the gateways. By default pages of this machine, where front ends
    under development are served."""

    agents: str = "headrace_dojo:agents"
    """MODULE:ATTR of the agents to run; several are separated by commas. Unless this or `config` is
    set, the agents of the current folder are run, if it has any."""

    config: str = ""
    """A ``headrace.yaml`` with agents to run, instead of `agents`."""

    default_agent: str = ""
    """The default agent. If empty, the first one of a ``headrace.yaml`` or of the folder."""

    nats_sync_interval: str = Field(default="", pattern=r"^(always|\d+(ms|s|m|h))?$")
    """How often the embedded nats-server syncs to disk, such as ``always`` or ``10s``. If empty,
    every 2 minutes."""

    console: bool = True
    """Serve the console at ``/console/`` of the gateways."""

    ephemeral: bool = False
    """Keep the data of the embedded servers in a temporary directory and delete it at exit."""

    restart: bool = True
    """Restart a service that exits."""

    reload: bool = True
    """Reload the agents when their code or their ``headrace.yaml`` is saved."""

    observe: bool = False
    """Serve metrics of all services, on loopback, and start Prometheus beside the stack, if it is
    installed."""

    observe_rules: Path | None = None
    """File of rules that the Prometheus of `--observe` evaluates, such as ``deploy/alerts.yml``."""

    @property
    def data_folder(self) -> Path:
        """`data_dir`, absolute."""
        return self.data_dir.expanduser().absolute()


def load(**flags: str | int | bool | None) -> DevSettings:
    """Return the environment's settings, overridden by the `flags` that are not None.

    HTTP port 0 without a gRPC port picks free ports for both.

    Raises:
        CannotStart: a value is invalid; the message says which and why.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    try:
        settings = DevSettings.model_validate(given)
    except ValidationError as invalid:
        raise CannotStart("\n".join(setting_errors(invalid))) from None
    if settings.http_port == 0 and "grpc_port" not in settings.model_fields_set:
        return settings.model_copy(update={"grpc_port": 0})
    return settings


def drop_ineffective_settings() -> None:
    """Warn of misspelt and former settings, and remove them: each service would repeat it."""
    for setting in list(ineffective_settings(os.environ)):
        click.echo(str(setting), err=True)
        del os.environ[setting.name]
