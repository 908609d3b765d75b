"""Which version of A2A a request speaks: what it says, or else what it looks like.

The specification takes an absent version for 0.3. Clients that know nothing of versions send 1.0
shapes just as well, so without a version the shape decides.
"""

import re
from collections.abc import Collection

from a2a.utils.constants import PROTOCOL_VERSION_0_3, PROTOCOL_VERSION_1_0, VERSION_HEADER
from a2a.utils.errors import VersionNotSupportedError
from starlette.requests import HTTPConnection

from headrace.model.events import Json

SERVED = (PROTOCOL_VERSION_1_0,)
"""Versions by major and minor number, the best one first, where nothing else is said."""

BOTH = (PROTOCOL_VERSION_1_0, PROTOCOL_VERSION_0_3)
"""Those of the JSON bindings."""

OLD = (PROTOCOL_VERSION_0_3,)
"""Those of routes and services that are 0.3's own."""

_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})(\.\d{1,9})?")


def requested_version(request: HTTPConnection) -> str | None:
    """Return the version that the request states, in a header or the query; None: it states none.

    Raises:
        VersionNotSupportedError: it is no version.
    """
    stated = request.headers.get(VERSION_HEADER) or request.query_params.get(VERSION_HEADER) or ""
    if not stated.strip():
        return None
    found = _VERSION.fullmatch(stated.strip())
    if found is None:
        raise VersionNotSupportedError(f"{VERSION_HEADER} {stated!r} is not of the form 1.0")
    return f"{int(found[1])}.{int(found[2])}"


def check_version(
    request: HTTPConnection, *, looks_like: str, served: Collection[str] = SERVED
) -> str:
    """Return the request's version if it is `served`; `looks_like` is the version of its shape.

    Raises:
        VersionNotSupportedError: it is not; names the versions that are.
    """
    version = requested_version(request) or looks_like
    if version not in served:
        raise VersionNotSupportedError(
            f"A2A {version} is not served here, only {', '.join(served)}"
        )
    return version


def shape_of_message(params: Json) -> str:
    """Return the version that the message in `params` looks like: 0.3's parts have a ``kind``."""
    message = params.get("message")
    parts = message.get("parts") if isinstance(message, dict) else None
    has_kind = isinstance(parts, list) and any(
        isinstance(part, dict) and "kind" in part for part in parts
    )
    return PROTOCOL_VERSION_0_3 if has_kind else PROTOCOL_VERSION_1_0


def shape_of_call(method: str) -> str:
    """Return the version that a JSON-RPC call looks like: 0.3's methods are ``message/send``."""
    return PROTOCOL_VERSION_0_3 if "/" in method else PROTOCOL_VERSION_1_0
