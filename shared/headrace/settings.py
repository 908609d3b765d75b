"""Settings of the services: environment variables ``HEADRACE_*``, one class per service.

The docstring under a field is its description in the generated table in ``docs/``.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self
from urllib.parse import SplitResult, unquote, urlsplit

from pydantic import BeforeValidator, Field, field_validator, model_validator

from headrace.environment import variable
from headrace.log_lines import LogOptions
from headrace.model.entry import CONTRACT_VERSION
from headrace.model.subjects import Subjects
from headrace.secret_settings import SecretSettings, SecretStr
from headrace.setting_groups import CHOICE, LIMIT, LOGIN, MUST_SET, RETENTION, SIZE

_LOGINS = ("nats_user", "nats_token", "nats_nkey", "nats_creds")
"""The ways to log in to NATS. A connection uses one."""


def _lower(value: Any) -> Any:  # noqa: ANN401  # it is not checked yet
    return value.lower() if isinstance(value, str) else value


_LOWERED = BeforeValidator(_lower)

_NO_SERVERS = (
    "not comma-separated URLs of servers; a password with special characters belongs in "
    "HEADRACE_NATS_PASSWORD or HEADRACE_NATS_PASSWORD_FILE"
)


class BusSettings(SecretSettings):
    """Settings of the bus and its streams. Each service's settings extend this class."""

    role: ClassVar[str] = "operator"
    """What a process with these settings is on the bus."""

    nats_url: Annotated[str, MUST_SET] = "nats://127.0.0.1:4222"
    """Comma-separated NATS server URLs (``nats://``, ``tls://``). One server is enough: clients
    learn the other servers of a cluster from it. Prefer the credential settings below to
    credentials in the URL, which must be percent-encoded and apply to all servers."""

    nats_user: Annotated[SecretStr, MUST_SET] = SecretStr("")
    """NATS user name. Requires HEADRACE_NATS_PASSWORD."""

    nats_user_file: Annotated[Path | None, MUST_SET] = None
    """File that contains the NATS user name."""

    nats_password: Annotated[SecretStr, MUST_SET] = SecretStr("")
    """NATS password. Any characters are allowed."""

    nats_password_file: Annotated[Path | None, MUST_SET] = None
    """File that contains the NATS password."""

    nats_token: Annotated[SecretStr, LOGIN] = SecretStr("")
    """NATS token, instead of user and password."""

    nats_token_file: Annotated[Path | None, LOGIN] = None
    """File that contains the NATS token."""

    nats_nkey: Annotated[SecretStr, LOGIN] = SecretStr("")
    """NKey seed of the NATS user (``SU…``), instead of user and password."""

    nats_nkey_file: Annotated[Path | None, LOGIN] = None
    """File that contains the NKey seed."""

    nats_creds: Annotated[SecretStr, LOGIN] = SecretStr("")
    """Content of a NATS ``.creds`` file (user JWT and NKey seed), instead of user and password."""

    nats_creds_file: Annotated[Path | None, LOGIN] = None
    """Path of a NATS ``.creds`` file."""

    nats_ca: Annotated[SecretStr, LOGIN] = SecretStr("")
    """CA certificates (PEM) that verify the NATS servers. Default: the system's CAs. If set,
    connections without TLS are refused."""

    nats_ca_file: Annotated[Path | None, LOGIN] = None
    """File that contains the CA certificates."""

    nats_cert: Annotated[SecretStr, LOGIN] = SecretStr("")
    """Client certificate (PEM) for NATS. Requires HEADRACE_NATS_KEY."""

    nats_cert_file: Annotated[Path | None, LOGIN] = None
    """File that contains the client certificate."""

    nats_key: Annotated[SecretStr, LOGIN] = SecretStr("")
    """Private key (PEM) of the client certificate."""

    nats_key_file: Annotated[Path | None, LOGIN] = None
    """File that contains the private key."""

    nats_tls_first: Annotated[bool, LOGIN] = False
    """Start TLS before the server sends its INFO message (``handshake_first`` in the configuration
    of nats-server)."""

    nats_jetstream_domain: Annotated[str, LOGIN] = Field(default="", pattern=r"^[A-Za-z0-9_-]*$")
    """JetStream domain of the servers that hold the streams, where the server in `nats_url` is a
    leaf node with a domain of its own."""

    prefix: Annotated[str, CHOICE] = Field(
        default="headrace", pattern=r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$"
    )
    """Prefix of all NATS subjects."""

    stream_prefix: Annotated[str, CHOICE] = Field(default="", pattern=r"^[A-Za-z0-9_-]*$")
    """Prefix of all stream and bucket names. Use it to run several fleets in one NATS account."""

    log_version: Literal["2", "3"] = CONTRACT_VERSION
    """Version of the bus contract in which this process writes logs. It reads both. Set the later
    one in all services once none runs that reads only the earlier ones (docs/upgrades.md)."""

    replicas: Annotated[int | None, MUST_SET] = Field(default=None, ge=1, le=5)
    """Replicas of each stream and bucket; use 3 on a cluster. If unset, existing streams keep
    theirs, and new ones get 1. To change it: `headrace streams apply`."""

    event_streams: Annotated[int, SIZE] = Field(default=1, ge=1, le=64)
    """Number of event streams, with 16 shards each. To add some: `headrace streams apply`; the
    number can't shrink."""

    events_max_bytes: Annotated[int | None, MUST_SET] = Field(default=None, ge=-1)
    """Maximum size of each event stream in bytes; -1: unlimited. A full stream refuses new tasks
    with 503. Unset: as it is, or unlimited. To change it: `headrace streams apply`."""

    retention: Annotated[float | None, RETENTION] = Field(default=None, gt=0)
    """Seconds for which a finished task is kept. If unset, it is what the fleet was created with,
    or 7 days. To change it: `headrace streams apply`, then restart task state."""

    waiting_retention: Annotated[float | None, RETENTION] = Field(default=None, gt=0)
    """Seconds for which a task may wait for its user's input. After that it is CANCELED. If unset,
    it is what the fleet was created with, or 30 days. To change it: `headrace streams apply`, then
    restart task state."""

    tombstone_seconds: Annotated[float, RETENTION] = Field(default=600.0, ge=1, le=30 * 24 * 3600)
    """Seconds for which an expired task leaves an empty tombstone in place of its log, so that a
    process that was frozen meanwhile cannot restart it; for deleted tasks at least a day."""

    files_max_bytes: Annotated[int | None, SIZE] = Field(default=None, ge=-1)
    """Maximum size of the file store in bytes; -1: unlimited. A full store refuses files with 503.
    Unset: as it is, or unlimited. To change it: `headrace streams apply`."""

    memory_max_bytes: Annotated[int | None, SIZE] = Field(default=None, ge=-1)
    """Maximum size in bytes of what agents remember; -1: unlimited. A full store refuses values.
    Unset: as it is, or unlimited. To change it: `headrace streams apply`."""

    inline_bytes: Annotated[int, LIMIT] = Field(default=128 * 1024, ge=0)
    """Largest file in bytes that is stored inside a task's log. Larger files are stored in the file
    store."""

    runs_max: Annotated[int | None, SIZE] = Field(default=None, ge=-1)
    """Maximum number of runs in the work queue; -1: unlimited. Tasks that do not fit are REJECTED.
    If unset, an existing queue keeps its limit, and a new one gets 1,000,000. To change it:
    `headrace streams apply`."""

    startup_timeout: float = Field(default=60.0, gt=0)
    """Seconds that a service waits for NATS and Redis at startup before it exits with an error."""

    data_dir: Path = Path(".headrace")
    """Data directory of `headrace dev`."""

    log_level: Annotated[Literal["debug", "info", "warning", "error"], _LOWERED, CHOICE] = "info"
    """Log level: debug, info, warning or error. `headrace logs level` changes that of running
    services; SIGUSR2 switches between this level and debug."""

    log_format: Annotated[Literal["text", "json"], _LOWERED, CHOICE] = "text"
    """Format of log lines: text, or json with one object per line."""

    log_lines_per_minute: int = Field(default=30, ge=0)
    """Maximum number of lines per minute that one place in Headrace's code logs; further ones are
    counted. Errors of agents and audit lines are never left out. 0: no limit."""

    @field_validator("nats_url")
    @classmethod
    def _servers_are_urls(cls, value: str) -> str:
        # A URL that does not parse may contain part of a password, so messages never show it.
        urls = comma_separated(value)
        servers = [_server(url) for url in urls]
        if len(urls) > 1 and any("@" in url and "://" not in url for url in urls):
            raise ValueError(_NO_SERVERS)  # a password with a comma
        logins = {(one.username, one.password) for one in servers if _has_login(one)}
        if len(logins) > 1:
            raise ValueError("its URLs have different credentials; set HEADRACE_NATS_USER instead")
        return value

    @model_validator(mode="after")
    def _one_login(self) -> Self:
        given = [variable(name) for name in _LOGINS if self.has(name)]
        if self._login_of_url() is not None:
            given.append("credentials in HEADRACE_NATS_URL")
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} are set; set one of them")
        self._require_pair("nats_user", "nats_password")
        self._require_pair("nats_password", "nats_user")
        self._require_pair("nats_cert", "nats_key")
        self._require_pair("nats_key", "nats_cert")
        return self

    @property
    def subjects(self) -> Subjects:
        """The subjects under `prefix`."""
        return Subjects(self.prefix)

    @property
    def nats_servers(self) -> list[str]:
        """The URLs in `nats_url`, without credentials."""
        return comma_separated(without_credentials(self.nats_url))

    def log_options(self, service: str) -> LogOptions:
        """Return how the `service` logs."""
        return LogOptions(
            self.log_level, self.log_format == "json", self.log_lines_per_minute, service
        )

    def nats_login(self) -> tuple[str, str | None] | None:
        """Return user and password, or a token and None. None: another login or none is set.

        Raises:
            SecretUnreadable: A file with a credential can't be read.
        """
        if self.has("nats_user"):
            return self.secret("nats_user"), self.secret("nats_password")
        if self.has("nats_token"):
            return self.secret("nats_token"), None
        return self._login_of_url()

    def _login_of_url(self) -> tuple[str, str | None] | None:
        for server in map(_server, comma_separated(self.nats_url)):
            if _has_login(server):
                password = server.password
                return unquote(server.username or ""), password and unquote(password)
        return None


def _server(url: str) -> SplitResult:
    """Return the parts of a server's URL.

    Raises:
        ValueError: The URL is invalid.
    """
    try:
        parts = urlsplit(url if "://" in url else f"nats://{url}")
        is_one = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_one, parts = False, urlsplit("")
    extra = parts.path.strip("/") or parts.query or parts.fragment
    if not is_one or (extra and parts.scheme in {"nats", "tls"}):
        raise ValueError(_NO_SERVERS)
    return parts


def _has_login(server: SplitResult) -> bool:
    return server.username is not None or server.password is not None


def split_commas(value: object) -> object:
    """Return the items of a comma-separated list. Values of other types stay unchanged."""
    return comma_separated(value) if isinstance(value, str) else value


def comma_separated(text: str) -> list[str]:
    """Return the items of a comma-separated list."""
    return [item.strip() for item in text.split(",") if item.strip()]


def without_credentials(urls: str) -> str:
    """Return comma-separated URLs for logging, without user, password and token."""
    shown = []
    for url in comma_separated(urls):
        scheme, separator, rest = url.rpartition("://")
        shown.append(f"{scheme}{separator}{rest.rpartition('@')[2]}")
    return ",".join(shown)


class MetricsSettings(BusSettings):
    """Where a service without HTTP of its own serves its metrics and probes."""

    metrics_ports: ClassVar[range]
    """The service's own ports, of which it takes the first free one if none is set."""

    metrics_port: Annotated[int | None, MUST_SET] = Field(default=None, ge=0, le=65535)
    """Port for Prometheus metrics and the probes `/healthz` and `/readyz`; 0: disabled. Unset, the
    first free one of 20: from 9480 of task state, from 9500 of triggers, from 9520 of workers."""

    metrics_host: Annotated[str, MUST_SET] = "127.0.0.1"
    """Address that the metrics port listens on."""

    @property
    def metrics_choice(self) -> Sequence[int]:
        """The ports to try in turn. A single one is required; none: nothing is served."""
        if self.metrics_port is None:
            return self.metrics_ports
        return (self.metrics_port,) if self.metrics_port else ()


class RunLimitSettings(BusSettings):
    """Limits of services that begin tasks for clients, for events and by the clock."""

    max_waiting_per_agent: Annotated[int, LIMIT] = Field(default=20_000, ge=-1)
    """Maximum number of runs that wait for one agent's workers. More are refused with 429, and
    events and firings wait. -1: unlimited."""

    max_waiting_per_tenant: Annotated[int, LIMIT] = Field(default=10_000, ge=-1)
    """Maximum number of runs of one tenant that wait for one agent's workers. More are refused with
    429, and events and firings wait. -1: unlimited."""

    quotas: Annotated[Path | None, CHOICE] = None
    """File with quotas of tenants, owners and agents (docs/usage.md). Without it there are none.
    Read at the start."""
