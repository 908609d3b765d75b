"""Who is asking: from the caller's credentials, never from the body (promise 6)."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Caller:
    """A tenant and an owner, as subject tokens; without credentials somebody is anonymous."""

    tenant: str = "default"
    owner: str = "anonymous"
    priority: str | None = field(default=None, compare=False)
    """Class of the caller's work among that of others, a token; None: the usual one."""
    identified: bool = field(default=False, compare=False)
    """Whether credentials say who it is."""
