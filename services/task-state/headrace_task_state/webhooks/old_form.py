"""Notifications in the form of A2A 0.3."""

from a2a.compat.v0_3 import conversions
from a2a.types import a2a_pb2
from google.protobuf.json_format import ParseDict, ParseError

from headrace.model import json_text
from headrace.model.events import Json
from headrace.model.whole_numbers import carried, whole
from headrace_task_state.webhooks.notice import NotConvertible


def in_old_form(event: Json) -> bytes:
    """Return what a StreamResponse of 1.0 contains in 0.3's form, such as a Task with its ``kind``.

    Raises:
        NotConvertible: 0.3, or protobuf, can't represent it.
    """
    try:
        core = ParseDict(carried(event), a2a_pb2.StreamResponse(), ignore_unknown_fields=True)
        converted = conversions.to_compat_stream_response(core).result
    except (ParseError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise NotConvertible(f"the event can't be converted to A2A 0.3: {error}"[:300]) from None
    return json_text.encode(
        whole(converted.model_dump(mode="json", by_alias=True, exclude_none=True))
    )
