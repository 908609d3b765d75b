"""What a gateway is told by its environment."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator
from pydantic_settings import NoDecode

from headrace.settings import BusSettings, split_commas
from headrace.wait_for import ELECTION


class GatewaySettings(BusSettings):
    """Variables ``HEADRACE_*`` that a gateway reads, beside those of the bus."""

    role = "gateway"

    http_host: str = "127.0.0.1"
    """Address to listen on."""

    http_port: int = Field(default=8080, ge=0, le=65535)
    """Port for HTTP and WebSocket; 0 picks a free one."""

    grpc_port: int = Field(default=50051, ge=0, le=65535)
    """Port for gRPC; 0 picks a free one."""

    public_url: str | None = None
    """URL under which clients reach the fleet; without it, the request's own host is used."""

    public_grpc: str | None = None
    """Address, ``host:port``, under which clients reach gRPC. Without it cards name the request's
    own host; under a HEADRACE_PUBLIC_URL they then name none."""

    credentials: Path | None = None
    """File that says who may call, as whom (docs/security.md); without it everybody may, and all
    are one owner, and the gateway listens on loopback only. A change takes effect within a second
    or two."""

    allow_anonymous: bool = False
    """Whether a gateway without HEADRACE_CREDENTIALS may listen elsewhere than on loopback: whoever
    reaches it may then call, and sees everybody's tasks."""

    signing_keys: Annotated[list[Path], NoDecode] = Field(default_factory=list)
    """Files with private keys (PEM), comma-separated: cards and notifications are signed with the
    first, the others are published too. None: the fleet makes a key and keeps it in NATS."""

    push_notifications: bool = True
    """Whether clients may have webhooks told of their tasks."""

    default_agent: str = "assistant"
    """The agent that answers at the root. Unless it is set, the only agent that there is does."""

    cors_origins: Annotated[list[str], NoDecode] = Field(default_factory=list)
    """Origins whose pages may call, comma-separated; ``*`` for all, ``loopback`` for pages of this
    machine that ask by CORS (`headrace dev` has it so). Same origin always may."""

    allowed_hosts: Annotated[list[str], NoDecode] = Field(default_factory=list)
    """Host names, comma-separated, that the gateway goes by beside loopback's own, any IP address
    and that of HEADRACE_PUBLIC_URL. Where it is empty, a gateway that listens elsewhere than on
    loopback goes by any."""

    max_body_bytes: int = Field(default=10_000_000, gt=0)
    """Largest request body; more is refused with 413."""

    feed_bytes: int = Field(default=1024 * 1024, gt=0)
    """Recent events that a gateway keeps per watched task, bytes; older ones are read again."""

    keepalive: float = Field(default=15.0, gt=0)
    """Seconds of silence after which a stream carries a comment."""

    stall_timeout: float = Field(default=180.0, gt=0)
    """Seconds after which a client that takes nothing is disconnected. One that reads 1 KB/s may
    seem to take nothing for a minute, until its kernel's buffer is empty."""

    long_poll: float = Field(default=25.0, gt=0, le=60)
    """Seconds that GetTask with currentGeneration waits for a newer generation, at most."""

    max_streams: int = Field(default=20_000, ge=-1)
    """Streams (SSE, AG-UI, WebSockets and what they subscribe to) that a gateway has open at once;
    more are refused with 503. -1 is no limit."""

    max_streams_per_owner: int = Field(default=-1, ge=-1)
    """Streams that one owner may have open on a gateway; more are refused with 429. -1 is no
    limit: without authentication everybody is one owner."""

    socket_streams: int = Field(default=256, ge=1)
    """Subscriptions and calls that one WebSocket or gRPC connection may have under way. Of more, a
    WebSocket refuses them and gRPC clients wait."""

    max_waiting_per_agent: int = Field(default=20_000, ge=-1)
    """Runs that may wait for one agent's workers; more are refused with 429. -1 is no limit. Many
    gateways together keep to it but for what they take in at the same moment."""

    max_waiting_per_tenant: int = Field(default=10_000, ge=-1)
    """Runs of one tenant that may wait for one agent's workers; more are refused with 429. -1 is no
    limit."""

    append_timeout: float = Field(default=ELECTION, gt=0)
    """Seconds within which the log has to take a message: longer than the election of a leader.
    After that its sender is told the task's id, and the gateway goes on until the outcome is
    known."""

    owner_requests_per_minute: int = Field(default=-1, ge=-1)
    """Requests that one owner may send in a minute, to all gateways together; more are refused with
    429. -1 is no limit."""

    tenant_requests_per_minute: int = Field(default=-1, ge=-1)
    """Requests that one tenant may send in a minute, to all gateways together; more are refused
    with 429. -1 is no limit."""

    idempotency_seconds: int = Field(default=86400, ge=1)
    """Seconds for which an Idempotency-Key stands for the request that it was first used with."""

    @field_validator("cors_origins", "allowed_hosts", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return [item.strip().rstrip("/") for item in value.split(",") if item.strip()]
        return value

    _split_files = field_validator("signing_keys", mode="before")(split_commas)
