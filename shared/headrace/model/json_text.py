"""JSON as this fleet writes and reads it: exact numbers, whole text, nothing that ends a line.

`encode` and `decode` are a pair. What others sent is read by `decode_foreign`.

* Integers beyond 64 bits stay exact, up to the largest double, which every reader of JSON can take.
  They are written behind a tab, so that a reader sees at once that it needs the exact parser, which
  takes ten times as long. JSON allows a tab only between values.
* Halves of a character (surrogates) that follow each other become the character; other halves
  become U+FFFD, because UTF-8 has no bytes for them.
* U+0085, U+2028 and U+2029 are escaped. JSON allows them, but many clients split lines at them, as
  Python's `str.splitlines` does. The control characters at which it splits are always escaped.
* JSON has no NaN and no infinity, which become null.
"""

import json
import math
import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import orjson

_LARGEST = int(1.7976931348623157e308)
_RULE = "must be an integer of at most 1.8e308; send larger ones as text"

EXACT = ord("\t")
"""The byte before an integer beyond 64 bits."""
_DIGITS = bytes.maketrans(b"0123456789", b"0000000000")
_LONG_NUMBER = b"0" * 19
"""As many digits as the shortest integer beyond 64 bits has."""


_E2, _A8, _A9 = 0xE2, 0xA8, 0xA9
_C2, _85 = 0xC2, 0x85
"""First and last bytes of the characters at which clients split lines."""

_HIGH, _LOW = rb"\\u[dD][89abAB][0-9a-fA-F]{2}", rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPED_HALF = re.compile(b"%b(?!%b)|(?<!%b)%b" % (_HIGH, _LOW, _HIGH, _LOW))
_BACKSLASH = rb"\\"
_DEEPEST = 254
"""Levels that orjson writes."""


def encode(value: object, option: int | None = None) -> bytes:
    """Return `value` as JSON; `option` is one of orjson's.

    Raises:
        TypeError: it is not JSON; names the field of a number that is too large.
    """
    try:
        text = orjson.dumps(value, option=option)
    except TypeError:
        text = orjson.dumps(_writable(value, "", 0), option=option)
    return text if text.isascii() else one_line(text)


def text(value: object) -> str:
    """Return `value` as JSON for text that people, models and other programs read.

    It has no tab before an integer beyond 64 bits, so it is read by `decode_foreign`, as theirs is.

    Raises:
        TypeError: as for `encode`.
    """
    encoded = encode(value)
    # Within strings, JSON has a tab as an escape only.
    return (encoded.replace(b"\t", b"") if EXACT in encoded else encoded).decode()


def as_text(value: object) -> str:
    """Return `value` as a reader of text expects it: text unchanged, any other value as JSON.

    Raises:
        TypeError: as for `encode`.
    """
    return value if isinstance(value, str) else text(value)


def decode(text: bytes | str) -> Any:  # noqa: ANN401 - any JSON
    """Return the value that `encode` wrote.

    Raises:
        orjson.JSONDecodeError: it is not JSON.
    """
    if isinstance(text, str):
        text = text.encode()
    return _exact(text) if EXACT in text else orjson.loads(text)


def decode_foreign(text: bytes | bytearray | str, *, keep_halves: bool = False) -> Any:  # noqa: ANN401 - any JSON
    """Return the value of JSON that somebody else wrote.

    With `keep_halves`, halves of characters stay as they are, for text whose other half may follow
    in another message.

    Raises:
        orjson.JSONDecodeError: it is not JSON, or has a number that no double is near; names it.
    """
    if isinstance(text, str):
        text = mended(text).encode()
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if (whole := without_halves(text)) != text:
            return _exact(text) if keep_halves else decode_foreign(whole)
        raise _named(text, error) from None
    # Half of the time of parsing, so not for every line of a log.
    return found if text.translate(_DIGITS).find(_LONG_NUMBER) < 0 else _exact(text)


def one_line(text: bytes) -> bytes:
    """Return JSON, or several lines of it, in which all readers find the same lines."""
    # Few texts have both bytes, and to look for one takes a tenth of the time.
    if _E2 in text and (_A8 in text or _A9 in text):
        text = text.replace(b"\xe2\x80\xa8", rb"\u2028").replace(b"\xe2\x80\xa9", rb"\u2029")
    if _C2 in text and _85 in text:
        text = text.replace(b"\xc2\x85", rb"\u0085")
    return text


def without_halves(text: bytes | bytearray) -> bytes:
    """Return JSON with U+FFFD for each escaped half of a character that stands alone."""
    # Between pairs of backslashes, which are one each, a backslash begins an escape.
    between = text.split(_BACKSLASH)
    return _BACKSLASH.join([_ESCAPED_HALF.sub(rb"\\ufffd", one) for one in between])


def mended(text: str) -> str:
    """Return `text` with halves of a character joined or replaced."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def ends_in_half(text: str) -> bool:
    """Return whether the last character of `text` is the first half of one."""
    return "\ud800" <= text[-1:] <= "\udbff"


def not_finite(value: object, path: str = "") -> tuple[str, float] | None:
    """Return path and value of the first number that is NaN or infinite; None: there is none."""
    return _first(value, path, lambda one: isinstance(one, float) and not math.isfinite(one))


def lost_number(value: object, text: bytes, path: str = "") -> tuple[str, float] | None:
    """Return path and value of the first number of `value` that is null in `text`, its JSON."""
    return not_finite(value, path) if text.find(b"null") >= 0 else None


def _named(text: bytes | bytearray, error: orjson.JSONDecodeError) -> orjson.JSONDecodeError:
    """Return the error with the field of a number that JSON does not have, if that is the fault."""
    if not (b"NaN" in text or b"Infinity" in text or "infinity" in error.msg):
        return error
    try:
        lenient = json.loads(text.decode())
    except (ValueError, RecursionError):
        return error
    found = _first(lenient, "", _is_no_number)
    if found is None:
        return error
    name, number = found[0].removeprefix(".") or "the value", found[1]
    fault = "is NaN" if number != number else "is not from -1.8e308 to 1.8e308"  # noqa: PLR0124
    return orjson.JSONDecodeError(f"{name} {fault}", error.doc, error.pos)


def _is_no_number(value: object) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    return isinstance(value, int) and abs(value) > _LARGEST


def _first(value: object, path: str, is_wanted: Callable[[object], bool]) -> tuple[str, Any] | None:
    waiting = [(path, value)]
    while waiting:
        at, one = waiting.pop()
        if is_wanted(one):
            return at, one
        if isinstance(one, dict):
            inner = [(f"{at}.{name}", each) for name, each in one.items()]
        elif isinstance(one, list | tuple):
            inner = [(f"{at}[{number}]", each) for number, each in enumerate(one)]
        elif is_dataclass(one) and not isinstance(one, type):
            inner = [(f"{at}.{each.name}", getattr(one, each.name)) for each in fields(one)]
        else:
            continue
        waiting.extend(reversed(inner))
    return None


def _exact(text: bytes | bytearray) -> Any:  # noqa: ANN401 - any JSON
    """Parse with a parser that keeps integers of any size, and halves of characters."""
    try:
        return json.loads(text.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise orjson.JSONDecodeError(str(error), "", 0) from None


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _writable(value: object, path: str, depth: int) -> object:
    """Return `value` without what orjson refuses although JSON can have it.

    Raises:
        TypeError: an integer is too large; names the field.
    """
    if isinstance(value, str | int):
        return _writable_scalar(value, path)
    if depth > _DEEPEST:
        return value  # orjson refuses it.
    if is_dataclass(value) and not isinstance(value, type):
        public = [one.name for one in fields(value) if not one.name.startswith("_")]
        value = {name: getattr(value, name) for name in public}
    if isinstance(value, dict):
        return {
            mended(name) if isinstance(name, str) else name: _writable(
                one, f"{path}.{name}", depth + 1
            )
            for name, one in value.items()
        }
    if isinstance(value, list | tuple):
        return [_writable(one, f"{path}[{at}]", depth + 1) for at, one in enumerate(value)]
    return value


def _writable_scalar(value: str | int, path: str) -> object:
    if isinstance(value, bool | Enum):
        return value
    if isinstance(value, str):
        return mended(value)
    if -(2**63) <= value < 2**64:
        return value
    if abs(value) > _LARGEST:
        raise TypeError(f"{path.removeprefix('.') or 'the number'} {_RULE}")
    return orjson.Fragment(b"%c%d" % (EXACT, value))
