"""The fields by which clients of 0.3 read a card, beside those of 1.0.

They come on top of a card that may be signed: 1.0's clients read and verify what 1.0 defines.
"""

from a2a.compat.v0_3.conversions import to_compat_agent_card
from a2a.types import a2a_pb2
from a2a.utils.constants import PROTOCOL_VERSION_0_3
from google.protobuf.json_format import ParseDict

from headrace.model.events import Json
from headrace_gateway.protocols.a2a_v03.answering import dumped


def readable_by_old(card: Json) -> Json:
    """Return `card` with what 0.3 needs to know; nothing that stands there is changed."""
    old = [
        interface | {"protocolVersion": PROTOCOL_VERSION_0_3}
        for interface in card["supportedInterfaces"]
    ]
    unsigned = {key: value for key, value in card.items() if key != "signatures"}
    core = ParseDict(
        unsigned | {"supportedInterfaces": old}, a2a_pb2.AgentCard(), ignore_unknown_fields=True
    )
    return _merged(card, dumped(to_compat_agent_card(core)))


def _merged(into: Json, more: Json) -> Json:
    merged = dict(into)
    for key, value in more.items():
        if key not in merged:
            merged[key] = value
        elif isinstance(value, dict) and isinstance(merged[key], dict):
            merged[key] = _merged(merged[key], value)
    return merged
