"""Who is asking: from the caller's credentials, never from the body (promise 6)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Caller:
    """A tenant and an owner, as subject tokens; without authentication everybody is anonymous."""

    tenant: str = "default"
    owner: str = "anonymous"
