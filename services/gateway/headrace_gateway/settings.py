"""A gateway's settings, from its environment."""

from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator

from headrace.setting_groups import CHOICE, LIMIT, MUST_SET, RETENTION, SIZE
from headrace.settings import RunLimitSettings, split_commas
from headrace.wait_for import ELECTION

type Port = Annotated[int, Field(ge=0, le=65535)]


def _check_proxy(stated: str) -> str:
    """Refuse what is no address or network, which would trust nobody."""
    if stated != "*":
        ip_network(stated)
    return stated


type Proxy = Annotated[str, AfterValidator(_check_proxy)]


def _check_rate(rate: int) -> int:
    """Refuse 0, too: it can be read as no limit, and as no requests."""
    if rate != -1 and rate < 1:
        raise ValueError("must be -1 (unlimited) or at least 1")
    return rate


type RequestRate = Annotated[int, AfterValidator(_check_rate)]


class GatewaySettings(RunLimitSettings):
    """Variables ``HEADRACE_*`` that a gateway reads, in addition to those of the bus."""

    role = "gateway"

    http_host: Annotated[str, MUST_SET] = "127.0.0.1"
    """Address to listen on."""

    http_port: Annotated[int, CHOICE] = Field(default=8080, ge=0, le=65535)
    """Port for HTTP and WebSocket; 0: any free port."""

    extra_http_ports: Annotated[list[Port], CHOICE] = Field(default_factory=list)
    """Comma-separated further ports for HTTP and WebSocket, such as `8081,8082`."""

    grpc_port: Annotated[int, CHOICE] = Field(default=50051, ge=0, le=65535)
    """Port for gRPC; 0: any free port."""

    public_url: Annotated[str | None, MUST_SET] = None
    """URL under which clients reach the fleet. Default: the host of each request."""

    trusted_proxies: Annotated[list[Proxy], CHOICE] = Field(default_factory=list)
    """Comma-separated addresses and networks of reverse proxies whose `Forwarded`, or
    `X-Forwarded-Proto`, `-Host` and `-Prefix`, name the URL that a client used; they must replace
    these headers of their clients. `*`: any."""

    public_grpc: Annotated[str | None, CHOICE] = None
    """Address (``host:port``) under which clients reach gRPC. Default: the host of each request;
    with HEADRACE_PUBLIC_URL, agent cards then name no gRPC address."""

    credentials: Annotated[Path | None, MUST_SET] = None
    """File that defines who may call (docs/security.md). Without it any client may call, as one
    owner, and the gateway listens on loopback only."""

    audit: Annotated[Literal["operators", "changes", "all"], CHOICE] = "operators"
    """What the audit log contains besides denied requests: requests of operators; also those with
    which owners change something (changes); or all."""

    allow_anonymous: Annotated[bool, CHOICE] = False
    """Allow a gateway without HEADRACE_CREDENTIALS to listen on addresses other than loopback."""

    signing_keys: Annotated[list[Path], CHOICE] = Field(default_factory=list)
    """Comma-separated files with private keys (PEM). The first one signs cards and notifications;
    the others are only published. If empty, the fleet generates a key and stores it in NATS."""

    console: Annotated[bool, CHOICE] = True
    """Serve the console at ``/console/`` and send browsers there from ``/``. ``off``: ``/`` is the
    default agent's card for them too."""

    dev_control: Path | None = None
    """Set by `headrace dev` only: the socket through which the console's page *Break it* kills
    processes."""

    push_notifications: Annotated[bool, CHOICE] = True
    """Allow clients to register webhooks for their tasks."""

    default_agent: Annotated[str, CHOICE] = "assistant"
    """Agent that is served at the root paths. If unset and only one agent is registered, that agent
    is used."""

    cors_origins: Annotated[list[str], CHOICE] = Field(default_factory=list)
    """Comma-separated origins whose pages may call the gateway. ``*``: all; ``loopback``: pages of
    this machine that use CORS (the default of `headrace dev`). The same origin is always
    allowed."""

    allowed_hosts: Annotated[list[str], CHOICE] = Field(default_factory=list)
    """Comma-separated host names that requests may name, besides loopback names, IP addresses and
    the host of HEADRACE_PUBLIC_URL. If empty, any, unless the gateway listens on loopback."""

    max_body_bytes: Annotated[int, LIMIT] = Field(default=10_000_000, gt=0)
    """Maximum size of a request body in bytes. Larger requests are refused with 413."""

    max_held_bytes: Annotated[int, SIZE] = Field(default=256_000_000, ge=-1)
    """Maximum bytes of request bodies that a gateway holds at a time. More are refused with 503.
    -1: unlimited."""

    max_held_bytes_per_owner: Annotated[int, LIMIT] = Field(default=64_000_000, ge=-1)
    """Maximum bytes of one owner's request bodies that a gateway holds at a time. More are refused
    with 429. -1: unlimited."""

    feed_bytes: int = Field(default=1024 * 1024, gt=0)
    """Bytes of recent events that a gateway caches per watched task. Older events are read from the
    log again."""

    feed_total_bytes: Annotated[int, SIZE] = Field(default=256 * 1024 * 1024, gt=0)
    """Maximum bytes of recent events that a gateway caches for all watched tasks together."""

    keepalive: float = Field(default=15.0, gt=0)
    """Seconds of silence after which a stream sends a keep-alive comment."""

    stall_timeout: float = Field(default=180.0, gt=0)
    """Seconds after which a client that reads nothing is disconnected."""

    long_poll: float = Field(default=25.0, gt=0, le=60)
    """Maximum seconds that GetTask with currentGeneration waits for a newer generation."""

    max_streams: Annotated[int, SIZE] = Field(default=20_000, ge=-1)
    """Maximum number of open streams per gateway (SSE, AG-UI, WebSockets and their subscriptions).
    More are refused with 503. -1: unlimited."""

    max_streams_per_owner: Annotated[int, LIMIT] = Field(default=-1, ge=-1)
    """Maximum number of open streams per owner and gateway. More are refused with 429. -1:
    unlimited."""

    max_watches_per_owner: Annotated[int, LIMIT] = Field(default=256, ge=-1)
    """Maximum number of open watches of lists per owner and gateway. More are refused with 429. -1:
    unlimited."""

    socket_streams: Annotated[int, LIMIT] = Field(default=256, ge=1)
    """Maximum number of concurrent subscriptions and calls on one WebSocket or gRPC connection."""

    append_timeout: float = Field(default=ELECTION, gt=0)
    """Seconds to wait until the log has stored a message; must be longer than a leader election.
    After that the client gets the task's id."""

    owner_requests_per_minute: Annotated[RequestRate, LIMIT] = -1
    """Maximum requests per minute of one owner, over all gateways. More are refused with 429. -1:
    unlimited."""

    tenant_requests_per_minute: Annotated[RequestRate, LIMIT] = -1
    """Maximum requests per minute of one tenant, over all gateways. More are refused with 429. -1:
    unlimited."""

    agent_requests_per_minute: Annotated[RequestRate, LIMIT] = -1
    """Maximum requests per minute to one agent, over all gateways. More are refused with 429. -1:
    unlimited."""

    trigger_subjects: Annotated[list[str], CHOICE] = Field(default_factory=list)
    """Comma-separated NATS subjects whose events may begin tasks (docs/triggers.md). ``{tenant}``
    stands for the tenant's name; a subject without it is the default tenant's. If empty, the
    default tenant may use all subjects but the fleet's own, and other tenants none."""

    idempotency_seconds: Annotated[int, RETENTION] = Field(default=86400, ge=1)
    """Seconds for which an Idempotency-Key is remembered."""

    @field_validator("cors_origins", "allowed_hosts", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return [item.strip().rstrip("/") for item in value.split(",") if item.strip()]
        return value

    _split_lists = field_validator(
        "signing_keys", "extra_http_ports", "trigger_subjects", "trusted_proxies", mode="before"
    )(split_commas)
