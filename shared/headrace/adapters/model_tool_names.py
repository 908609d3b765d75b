"""Names of tools as models take them."""

import re
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b

LONGEST = 64
"""Maximum characters of a name, in OpenAI's API; others allow more."""

_REFUSED = re.compile(r"[^A-Za-z0-9_-]")


def model_tool_names(names: Sequence[str]) -> list[str]:
    """Return the names by which models call tools that their sources call `names`, in order.

    MCP allows dots and 128 characters (revision 2025-11-25, server/tools), models do not. A name
    that has to change so far that it could be another one's ends in a digest of the original.
    """
    plain = [_REFUSED.sub("_", name) for name in names]
    uses = Counter(plain)
    return [
        one if len(one) <= LONGEST and (one == name or uses[one] == 1) else _distinct(one, name)
        for one, name in zip(plain, names, strict=True)
    ]


def _distinct(plain: str, name: str) -> str:
    digest = blake2b(name.encode(errors="surrogatepass"), digest_size=4).hexdigest()
    return f"{plain[: LONGEST - len(digest) - 1]}_{digest}"
