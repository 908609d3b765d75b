"""Where ADK's services keep what belongs to an app, a user or a session in the fleet's memory."""

import hashlib

from headrace.model.memory import prefix_of
from headrace.model.subjects import encode_token

_LONGEST = 90
"""Characters of an id as encoded for NATS: an app, a user and a session fit into one key."""


def place_of(root: str, *ids: str) -> str:
    """Return the prefix of the keys of an app, of its user, or of the user's session.

    A long id, such as a context that its client has named, is replaced by its hash.
    """
    return prefix_of(root, *map(short_id, ids))


def short_id(given: str) -> str:
    """Return an id, or the hash that stands for it in keys. The hash stands for itself."""
    if sum(len(encode_token(one)) for one in given) <= _LONGEST:
        return given
    return hashlib.sha256(given.encode()).hexdigest()
