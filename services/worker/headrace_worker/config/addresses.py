"""What ``headrace.yaml`` says of places elsewhere, checked once its variables are filled in."""

import re
from urllib.parse import urlsplit

_FIELD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def check_url(url: str) -> str:
    """Return the URL.

    Raises:
        ValueError: it has no host, or is none.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"is no URL: {error}") from None
    if not parts.hostname or port == 0 or url != url.strip() or " " in url:
        raise ValueError("is no URL: it needs a host")
    return url


def check_headers(headers: dict[str, str]) -> dict[str, str]:
    """Return the headers.

    Raises:
        ValueError: HTTP can't carry one of them.
    """
    for name, value in headers.items():
        if not _FIELD.fullmatch(name):
            raise ValueError(f"{name!r} can't be a header's name")
        if "\n" in value or "\r" in value or not value.isascii():
            raise ValueError(f"the value of {name} can't be a header's")
    return headers
