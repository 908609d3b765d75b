"""Names of environment variables that are no settings: misspelt ones.

A service defines only its own settings, but its environment may contain those of all.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

_PREFIX = "HEADRACE_"

SETTING_NAMES = frozenset(
    {
        "HEADRACE_AGENTS",
        "HEADRACE_AGENT_REQUESTS_PER_MINUTE",
        "HEADRACE_ALLOWED_HOSTS",
        "HEADRACE_ALLOW_ANONYMOUS",
        "HEADRACE_APPEND_LINGER",
        "HEADRACE_APPEND_TIMEOUT",
        "HEADRACE_AUDIT",
        "HEADRACE_CHAIN_RATE",
        "HEADRACE_CHAIN_TASKS",
        "HEADRACE_CLEANUP_SECONDS",
        "HEADRACE_CONCURRENCY",
        "HEADRACE_CONFIG",
        "HEADRACE_CONSOLE",
        "HEADRACE_CORS_ORIGINS",
        "HEADRACE_CREDENTIALS",
        "HEADRACE_DATA_DIR",
        "HEADRACE_DEFAULT_AGENT",
        "HEADRACE_DELEGATION_CHILDREN",
        "HEADRACE_DELEGATION_DEPTH",
        "HEADRACE_DELEGATION_REPEATS",
        "HEADRACE_DEV_CONTROL",
        "HEADRACE_DRAIN_SECONDS",
        "HEADRACE_EMIT_BUFFER_BYTES",
        "HEADRACE_EMIT_BUFFER_EVENTS",
        "HEADRACE_EPHEMERAL",
        "HEADRACE_EVENTS_MAX_BYTES",
        "HEADRACE_EVENT_STREAMS",
        "HEADRACE_EXTRA_HTTP_PORTS",
        "HEADRACE_FEED_BYTES",
        "HEADRACE_FEED_TOTAL_BYTES",
        "HEADRACE_FILES_MAX_BYTES",
        "HEADRACE_GATEWAYS",
        "HEADRACE_GRPC_PORT",
        "HEADRACE_HTTP_HOST",
        "HEADRACE_HTTP_PORT",
        "HEADRACE_IDEMPOTENCY_SECONDS",
        "HEADRACE_INLINE_BYTES",
        "HEADRACE_KEEPALIVE",
        "HEADRACE_LOG_FORMAT",
        "HEADRACE_LOG_LEVEL",
        "HEADRACE_LOG_LINES_PER_MINUTE",
        "HEADRACE_LOG_VERSION",
        "HEADRACE_LONG_POLL",
        "HEADRACE_MAX_BODY_BYTES",
        "HEADRACE_MAX_HELD_BYTES",
        "HEADRACE_MAX_HELD_BYTES_PER_OWNER",
        "HEADRACE_MAX_STREAMS",
        "HEADRACE_MAX_STREAMS_PER_OWNER",
        "HEADRACE_MAX_WAITING_PER_AGENT",
        "HEADRACE_MAX_WAITING_PER_TENANT",
        "HEADRACE_MAX_WATCHES_PER_OWNER",
        "HEADRACE_METRICS_HOST",
        "HEADRACE_METRICS_PORT",
        "HEADRACE_NATS_CA",
        "HEADRACE_NATS_CA_FILE",
        "HEADRACE_NATS_CERT",
        "HEADRACE_NATS_CERT_FILE",
        "HEADRACE_NATS_CREDS",
        "HEADRACE_NATS_CREDS_FILE",
        "HEADRACE_NATS_JETSTREAM_DOMAIN",
        "HEADRACE_NATS_KEY",
        "HEADRACE_NATS_KEY_FILE",
        "HEADRACE_NATS_NKEY",
        "HEADRACE_NATS_NKEY_FILE",
        "HEADRACE_NATS_PASSWORD",
        "HEADRACE_NATS_PASSWORD_FILE",
        "HEADRACE_NATS_SYNC_INTERVAL",
        "HEADRACE_NATS_TLS_FIRST",
        "HEADRACE_NATS_TOKEN",
        "HEADRACE_NATS_TOKEN_FILE",
        "HEADRACE_NATS_URL",
        "HEADRACE_NATS_USER",
        "HEADRACE_NATS_USER_FILE",
        "HEADRACE_OBSERVE",
        "HEADRACE_OBSERVE_RULES",
        "HEADRACE_OWNER_REQUESTS_PER_MINUTE",
        "HEADRACE_PREFIX",
        "HEADRACE_PUBLIC_GRPC",
        "HEADRACE_PRICES",
        "HEADRACE_PUBLIC_URL",
        "HEADRACE_PUSH_ALLOW",
        "HEADRACE_PUSH_ATTEMPTS",
        "HEADRACE_PUSH_BACKOFF",
        "HEADRACE_PUSH_BACKOFF_MAX",
        "HEADRACE_PUSH_NOTIFICATIONS",
        "HEADRACE_PUSH_PER_HOST",
        "HEADRACE_PUSH_PER_OWNER",
        "HEADRACE_PUSH_TIMEOUT",
        "HEADRACE_QUOTAS",
        "HEADRACE_REDIS_CA",
        "HEADRACE_REDIS_CA_FILE",
        "HEADRACE_REDIS_CERT",
        "HEADRACE_REDIS_CERT_FILE",
        "HEADRACE_REDIS_KEY",
        "HEADRACE_REDIS_KEY_FILE",
        "HEADRACE_REDIS_MASTER",
        "HEADRACE_REDIS_PASSWORD",
        "HEADRACE_REDIS_PASSWORD_FILE",
        "HEADRACE_REDIS_SENTINELS",
        "HEADRACE_REDIS_SENTINEL_PASSWORD",
        "HEADRACE_REDIS_SENTINEL_PASSWORD_FILE",
        "HEADRACE_REDIS_SENTINEL_USER",
        "HEADRACE_REDIS_SENTINEL_USER_FILE",
        "HEADRACE_REDIS_URL",
        "HEADRACE_REDIS_USER",
        "HEADRACE_REDIS_USER_FILE",
        "HEADRACE_RELOAD",
        "HEADRACE_REPLICAS",
        "HEADRACE_RESTART",
        "HEADRACE_RETENTION",
        "HEADRACE_RUNS_MAX",
        "HEADRACE_SIGNING_KEYS",
        "HEADRACE_SOCKET_STREAMS",
        "HEADRACE_STALL_TIMEOUT",
        "HEADRACE_STARTUP_TIMEOUT",
        "HEADRACE_START_WITHIN",
        "HEADRACE_STREAM_PREFIX",
        "HEADRACE_SWEEP_AFTER",
        "HEADRACE_TASK_STATES",
        "HEADRACE_TENANT_REQUESTS_PER_MINUTE",
        "HEADRACE_TOKEN",
        "HEADRACE_TOMBSTONE_SECONDS",
        "HEADRACE_TRIGGERS",
        "HEADRACE_TRIGGER_SUBJECTS",
        "HEADRACE_TRUSTED_PROXIES",
        "HEADRACE_URL",
        "HEADRACE_USAGE_DAYS",
        "HEADRACE_WAITING_RETENTION",
        "HEADRACE_WORKERS",
    }
)
"""Variables that a service or the command line reads."""

_OF_KUBERNETES = re.compile(r"(_SERVICE_(HOST|PORT(_.+)?)|_PORT_\d+_(TCP|UDP)(_.+)?)$")
"""How variables end that Kubernetes adds for a Service called ``headrace-…``."""

_SIMILARITY = 0.8

_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class IneffectiveSetting:
    """A variable that looks like a setting and has no effect."""

    name: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        """Return it as a line of a log. The value is not part of it: it may be a secret."""
        return f"{self.name} {self.problem}; {self.remedy}"


def ineffective_settings(variables: Mapping[str, str]) -> Iterator[IneffectiveSetting]:
    """Yield those of `variables` that are misspelt settings.

    Variables without a similar setting are not included: they belong to others.
    """
    for name, value in sorted(variables.items()):
        if (
            name.startswith(_PREFIX)
            and name not in SETTING_NAMES
            and not _is_of_kubernetes(name, value)
            and (similar := _similar(name))
        ):
            remedy = f"did you mean {' or '.join(similar)}?"
            yield IneffectiveSetting(name, "is not a setting", remedy)


def _similar(name: str) -> list[str]:
    """Return the most similar setting, or else some that have all words of the name."""
    # Without the prefix, which makes all names similar.
    own = name.removeprefix(_PREFIX)
    settings = sorted(one.removeprefix(_PREFIX) for one in SETTING_NAMES)
    found = get_close_matches(own, settings, n=1, cutoff=_SIMILARITY)
    if not found:
        longer = [one for one in settings if set(own.split("_")) <= set(one.split("_"))]
        found = get_close_matches(own, longer, n=_MOST_NAMED, cutoff=0.0)
    return [_PREFIX + one for one in found]


def _is_of_kubernetes(name: str, value: str) -> bool:
    is_address = name.endswith("_PORT") and "://" in value
    return is_address or _OF_KUBERNETES.search(name) is not None
