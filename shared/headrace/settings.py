"""What every service is told by its environment: variables ``HEADRACE_*``, one class per service.

A field's description stands under the field and is what the table in ``docs/`` is generated from.
"""

from pathlib import Path
from typing import ClassVar, Self
from urllib.parse import SplitResult, unquote, urlsplit

from pydantic import Field, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from headrace.model.subjects import Subjects
from headrace.secret_settings import SecretSettings, SecretStr, variable

_LOGINS = ("nats_user", "nats_token", "nats_nkey", "nats_creds")
"""Ways to log in to NATS, of which a connection has one."""

_NO_SERVERS = (
    "not comma-separated URLs of servers; a password with special characters belongs into "
    "HEADRACE_NATS_PASSWORD or HEADRACE_NATS_PASSWORD_FILE"
)


class BusSettings(SecretSettings):
    """Where the bus is and how its streams are kept; each service's settings extend this."""

    model_config = SettingsConfigDict(
        env_prefix="HEADRACE_",
        env_ignore_empty=True,
        use_attribute_docstrings=True,
        extra="ignore",
        frozen=True,
        hide_input_in_errors=True,
    )

    role: ClassVar[str] = "operator"
    """What a process with these settings is on the bus."""

    nats_url: str = "nats://127.0.0.1:4222"
    """NATS servers, comma-separated URLs (``nats://``, ``tls://``). One is enough: the others of a
    cluster are learned from it. Credentials are better in settings of their own; in a URL they are
    percent-encoded, and count for all servers."""

    nats_user: SecretStr = SecretStr("")
    """User, with HEADRACE_NATS_PASSWORD."""

    nats_user_file: Path | None = None
    """File that holds it."""

    nats_password: SecretStr = SecretStr("")
    """Password, of any characters."""

    nats_password_file: Path | None = None
    """File that holds it."""

    nats_token: SecretStr = SecretStr("")
    """Token, instead of user and password."""

    nats_token_file: Path | None = None
    """File that holds it."""

    nats_nkey: SecretStr = SecretStr("")
    """NKey seed of the user (``SU…``), instead of user and password."""

    nats_nkey_file: Path | None = None
    """File that holds it."""

    nats_creds: SecretStr = SecretStr("")
    """Content of a ``.creds`` file (a user's JWT and NKey seed), instead of user and password."""

    nats_creds_file: Path | None = None
    """That file."""

    nats_ca: SecretStr = SecretStr("")
    """Certificates (PEM) of the authorities that NATS' certificate is checked with; without it the
    system's. Who sets it has TLS and nothing else, whatever the server offers."""

    nats_ca_file: Path | None = None
    """File that holds them."""

    nats_cert: SecretStr = SecretStr("")
    """Client certificate (PEM), with HEADRACE_NATS_KEY."""

    nats_cert_file: Path | None = None
    """File that holds it."""

    nats_key: SecretStr = SecretStr("")
    """Private key of the client certificate (PEM)."""

    nats_key_file: Path | None = None
    """File that holds it."""

    nats_tls_first: bool = False
    """Shake hands for TLS before NATS says anything (``handshake_first`` in its configuration)."""

    prefix: str = Field(default="headrace", pattern=r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$")
    """First tokens of every subject."""

    stream_prefix: str = Field(default="", pattern=r"^[A-Za-z0-9_-]*$")
    """Put before every stream's and bucket's name, for several fleets on one NATS account."""

    replicas: int | None = Field(default=None, ge=1, le=5)
    """Copies of each stream; 3 on a cluster. Unset: those that there are, 1 where a stream is made.
    A service refuses to start on streams with another number (`headrace streams apply`)."""

    event_streams: int = Field(default=1, ge=1, le=64)
    """Number of event streams, 16 shards each. May grow; never shrinks: a service refuses to start
    where there are more."""

    events_max_bytes: int | None = Field(default=None, ge=-1)
    """Size limit of each event stream, bytes; -1 is none. A full stream refuses new tasks (503).
    Unset: the one that there is, none where a stream is made. See HEADRACE_REPLICAS."""

    tombstone_seconds: float = Field(default=600.0, ge=1, le=30 * 24 * 3600)
    """Seconds for which a task past retention leaves a tombstone without content in its log's
    place, so that a process that was frozen for that long can't begin the log anew; a deleted task
    leaves one for a day at least. Then nothing is left."""

    files_max_bytes: int | None = Field(default=None, ge=-1)
    """Size limit of the store of large files, bytes; -1 is none. A full store refuses (503). Unset:
    the one that there is, none where it is made. See HEADRACE_REPLICAS."""

    inline_bytes: int = Field(default=128 * 1024, ge=0)
    """Largest file that travels in a task's log, bytes; larger ones go to the store of files."""

    runs_max: int | None = Field(default=None, ge=-1)
    """Runs that the work queue holds, waiting or at work; -1 is no limit. What a full queue does
    not take is REJECTED. Unset: the limit that there is, 1,000,000 where the queue is made. See
    HEADRACE_REPLICAS."""

    startup_timeout: float = Field(default=60.0, gt=0)
    """How long a service waits for NATS or Redis at start, seconds, before it exits non-zero."""

    data_dir: Path = Path(".headrace")
    """Folder for the development stack's data."""

    log_level: str = Field(default="info", pattern=r"^(?i:debug|info|warning|error)$")
    """debug, info, warning or error."""

    @field_validator("nats_url")
    @classmethod
    def _servers_are_urls(cls, value: str) -> str:
        # What does not parse may hold a part of a password, so that no message shows it.
        urls = comma_separated(value)
        servers = [_server(url) for url in urls]
        if len(urls) > 1 and any("@" in url and "://" not in url for url in urls):
            raise ValueError(_NO_SERVERS)  # a password with a comma
        logins = {(one.username, one.password) for one in servers if _has_login(one)}
        if len(logins) > 1:
            raise ValueError("different credentials in different URLs; set HEADRACE_NATS_USER")
        return value

    @model_validator(mode="after")
    def _one_login(self) -> Self:
        given = [variable(name) for name in _LOGINS if self.has(name)]
        if self._login_of_url() is not None:
            given.append("credentials in HEADRACE_NATS_URL")
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} are set; a connection has one of them")
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
        """The URLs of `nats_url`, without credentials."""
        return comma_separated(without_credentials(self.nats_url))

    def nats_login(self) -> tuple[str, str | None] | None:
        """Return user and password, or a token and None, or None where it is something else.

        Raises:
            SecretUnreadable: a file that holds one can't be read.
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
        ValueError: it is none.
    """
    try:
        parts = urlsplit(url if "://" in url else f"nats://{url}")
        is_one = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        is_one, parts = False, urlsplit("")
    beside = parts.path.strip("/") or parts.query or parts.fragment
    if not is_one or (beside and parts.scheme in {"nats", "tls"}):
        raise ValueError(_NO_SERVERS)
    return parts


def _has_login(server: SplitResult) -> bool:
    return server.username is not None or server.password is not None


def split_commas(value: object) -> object:
    """Return the items of a comma-separated list; what is no text stays as it is."""
    return comma_separated(value) if isinstance(value, str) else value


def comma_separated(text: str) -> list[str]:
    """Return the items of a comma-separated list."""
    return [item.strip() for item in text.split(",") if item.strip()]


def without_credentials(urls: str) -> str:
    """Return comma-separated URLs as they may stand in a log: without user, password and token."""
    shown = []
    for url in comma_separated(urls):
        scheme, separator, rest = url.rpartition("://")
        shown.append(f"{scheme}{separator}{rest.rpartition('@')[2]}")
    return ",".join(shown)
