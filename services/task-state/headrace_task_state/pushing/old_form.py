"""What webhooks of A2A 0.3 are told: the whole Task, in 0.3's JSON.

That is what 0.3's specification shows (9.5) and its SDKs send. Their receivers know no updates.
"""

import orjson
from a2a.compat.v0_3 import conversions
from a2a.types import a2a_pb2
from google.protobuf.json_format import ParseDict, ParseError

from headrace.model.errors import HeadraceError
from headrace.model.events import Json
from headrace.model.whole_numbers import whole


class Unsayable(HeadraceError):
    """The event can't be said in 0.3."""

    code = "unsayable"


def in_old_form(event: Json) -> bytes:
    """Return a StreamResponse of 1.0 as 0.3 has what is in it: a Task with its ``kind``, say.

    Raises:
        Unsayable: 0.3, or protobuf, has no words for it.
    """
    try:
        core = ParseDict(event, a2a_pb2.StreamResponse(), ignore_unknown_fields=True)
        said = conversions.to_compat_stream_response(core).result
    except (ParseError, ValueError, TypeError, KeyError, RecursionError) as trouble:
        raise Unsayable(f"it does not fit A2A 0.3: {trouble}"[:300]) from None
    return orjson.dumps(whole(said.model_dump(mode="json", by_alias=True, exclude_none=True)))
