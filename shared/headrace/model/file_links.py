"""Links to files that are stored outside a log (`headrace.jetstream.objects`)."""

import re

SCHEME = "headrace-file:"
"""Prefix of links to stored files."""

LINKS_ARE_OURS = f"must not begin with {SCHEME}, which is reserved for stored files"
"""Error message for a client's URL with that prefix."""

LINK = re.compile(r"headrace-file:([\w-]+)/tasks/([\w-]+)/files/([0-9a-f]+)")


def is_link(url: object) -> bool:
    """Return whether `url` is a link to a stored file, valid or not."""
    return isinstance(url, str) and url.lstrip().lower().startswith(SCHEME)
