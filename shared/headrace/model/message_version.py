"""The version of messages that are no entries: run requests, and task state's requests and replies.

It is the log's: one range, and one setting that says which version is written.
"""

from collections.abc import Mapping
from typing import Final

from headrace.model.entry import NEXT_VERSION, READABLE, VERSION, is_newer
from headrace.model.errors import NewerVersion, UndecodableMessage

UNSTATED: Final = "1"
"""Version of a message without the header: before version 2 was stated, no message had it."""

_READ = (UNSTATED, *READABLE)

RANGE: Final = f"{UNSTATED} to {NEXT_VERSION}"
"""The versions that this code reads, for people."""


def stating(version: str) -> dict[str, str]:
    """Return the headers of a message of `version`."""
    return {VERSION: version}


def check_version(subject: str, headers: Mapping[str, str] | None) -> None:
    """Return if this code reads messages of the version in `headers`.

    Raises:
        NewerVersion: it is a later one; the reason names it and those that are read.
        UndecodableMessage: it is none.
    """
    version = headers.get(VERSION, UNSTATED) if headers else UNSTATED
    if version not in _READ:
        error = NewerVersion if is_newer(version) else UndecodableMessage
        raise error(subject, f"{VERSION} is {version}; this release reads {RANGE}")
