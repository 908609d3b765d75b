"""Agent cards for clients of A2A 0.3."""

from a2a.compat.v0_3 import types
from a2a.compat.v0_3.conversions import to_compat_agent_card
from a2a.types import a2a_pb2
from a2a.utils.constants import PROTOCOL_VERSION_0_3
from google.protobuf.json_format import ParseDict
from pydantic import BaseModel

from headrace.model.events import Json
from headrace.model.whole_numbers import whole


def dumped(model: BaseModel) -> Json:
    """Return a 0.3 model as wire JSON."""
    content: Json = whole(model.model_dump(mode="json", by_alias=True, exclude_none=True))
    return content


def readable_by_old(card: Json, default_agent: str = "") -> Json:
    """Return `card` with the fields of 0.3 added; existing fields are not changed."""
    return _merged(card, dumped(old_card(card, default_agent)))


def old_card(card: Json, default_agent: str = "") -> types.AgentCard:
    """Return `card` as 0.3 has it, without signatures, which are of the whole card.

    0.3 has no tenant. Over gRPC, where the tenant names the agent, its clients reach the default
    agent only, so the interface is left out for all others, or if that agent is not stated.
    """
    old = [
        interface | {"protocolVersion": PROTOCOL_VERSION_0_3}
        for interface in card["supportedInterfaces"]
        if interface.get("tenant", default_agent) == default_agent
    ]
    unsigned = {key: value for key, value in card.items() if key != "signatures"}
    core = ParseDict(
        unsigned | {"supportedInterfaces": old}, a2a_pb2.AgentCard(), ignore_unknown_fields=True
    )
    return to_compat_agent_card(core)


def _merged(into: Json, more: Json) -> Json:
    merged = dict(into)
    for key, value in more.items():
        if key not in merged:
            merged[key] = value
        elif isinstance(value, dict) and isinstance(merged[key], dict):
            merged[key] = _merged(merged[key], value)
    return merged
