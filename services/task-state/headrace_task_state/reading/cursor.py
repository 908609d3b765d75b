"""The token with which a list's next page is asked for: opaque to clients."""

from base64 import urlsafe_b64decode, urlsafe_b64encode

import orjson

from headrace.model.errors import InvalidName
from headrace.model.task import check_task_id
from headrace_task_state.store.reading import After


def encode_cursor(after: After) -> str:
    """Return the token of the page behind `after`."""
    return urlsafe_b64encode(orjson.dumps([int(after.time), after.task])).decode().rstrip("=")


def decode_cursor(token: str) -> After:
    """Return where the page of `token` begins; an empty one is the first page's.

    Raises:
        InvalidName: nobody was given this token.
    """
    if not token:
        return After()
    try:
        padded = token.encode("ascii") + b"=" * (-len(token) % 4)
        time, task = orjson.loads(urlsafe_b64decode(padded))
        return After(str(time + 0), check_task_id(task))
    except (ValueError, TypeError, InvalidName):
        raise InvalidName("pageToken", token, "is not one that a list has returned") from None
