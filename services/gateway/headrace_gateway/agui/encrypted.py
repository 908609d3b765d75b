"""What a provider wants back with a message, opaque to everybody else."""

from headrace import parts
from headrace.events import Json
from headrace.parts import ENCRYPTED_VALUE, SIGNATURE


def encrypted_value(part: Json) -> str | None:
    """Return the value that the part carries, or None."""
    value = parts.metadata_of(part, ENCRYPTED_VALUE) or parts.metadata_of(part, SIGNATURE)
    return value if isinstance(value, str) and value else None
