"""Who is asking: from the caller's credentials, never from the body (promise 6)."""

from dataclasses import dataclass, field

from headrace.lanes import Priority


@dataclass(frozen=True, slots=True)
class Caller:
    """A tenant and an owner, as subject tokens; without credentials somebody is anonymous."""

    tenant: str = "default"
    owner: str = "anonymous"
    priority: Priority | None = field(default=None, compare=False)
    """The highest class that the caller's work may wait in; None: the usual one."""
    identified: bool = field(default=False, compare=False)
    """Whether credentials say who it is."""
