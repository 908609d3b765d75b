"""The version of messages that are no entries: run requests, and task state's requests and replies.

It is the log's: one range, and one setting that says which version is written.
"""

from collections.abc import Mapping
from typing import Final

from headrace.model.entry import CONTRACT_VERSION, NEXT_VERSION, READABLE, VERSION, is_newer
from headrace.model.errors import NewerVersion, UndecodableMessage

RANGE: Final = f"{CONTRACT_VERSION} to {NEXT_VERSION}"
"""The versions that this code reads, for people."""


def stating(version: str) -> dict[str, str]:
    """Return the headers of a message of `version`."""
    return {VERSION: version}


def check_version(subject: str, headers: Mapping[str, str] | None) -> None:
    """Return if this code reads messages of the version in `headers`; it may be left out.

    Raises:
        NewerVersion: it is a later one; the reason names it and those that are read.
        UndecodableMessage: it is none.
    """
    version = (headers or {}).get(VERSION, CONTRACT_VERSION)
    if version not in READABLE:
        error = NewerVersion if is_newer(version) else UndecodableMessage
        raise error(subject, f"{VERSION} is {version}; this release reads {RANGE}")
