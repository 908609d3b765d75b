"""What task state is told by its environment."""

from pydantic import Field

from headrace.settings import BusSettings


class TaskStateSettings(BusSettings):
    """Where Redis is, how long tasks are kept, and when a waiting input is asked for again."""

    redis_url: str = "redis://127.0.0.1:6379/0"
    """Redis 7 or newer, or Valkey; one server, not a cluster, and with `maxmemory-policy
    noeviction`: a view from which keys vanish is wrong without anybody noticing."""

    retention: float = Field(default=7 * 24 * 3600.0, gt=0)
    """Seconds for which a finished task is kept; then only its log's last message is."""

    sweep_after: float = Field(default=5.0, gt=0)
    """Seconds after which a run is asked for again if no worker has taken it up."""

    delegation_depth: int = Field(default=8, ge=0, le=64)
    """How deep tasks may be delegated: 1 lets an agent ask another, but that one nobody."""

    delegation_repeats: int = Field(default=3, ge=1)
    """How often one agent may occur in a chain of delegations, so that agents that ask each other
    come to an end."""

    start_within: float = Field(default=24 * 3600.0, gt=0)
    """Seconds within which a worker must have begun a run; then its task is REJECTED. Agents and
    clients may want it sooner."""
