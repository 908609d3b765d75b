"""0.3 in each JSON binding."""

from a2a.utils.constants import PROTOCOL_VERSION_0_3

from headrace.model.events import Json
from headrace_gateway.protocols.a2a.wording import HTTP, Reworded, Wording
from headrace_gateway.protocols.a2a_v03 import answering, reading
from headrace_gateway.sse import JSON_RPC, REST

RPC_03 = Wording(
    PROTOCOL_VERSION_0_3,
    reading.METHODS,
    reading.rpc_params,
    answering.rpc_answer,
    answering.rpc_event,
    Reworded(answering.rpc_event, JSON_RPC),
)
"""Over JSON-RPC."""

_REST = {name: name for name in HTTP.operations if name != "ListTasks"}

HTTP_03 = Wording(
    PROTOCOL_VERSION_0_3,
    _REST,
    reading.rest_params,
    answering.rest_answer,
    answering.rest_event,
    Reworded(answering.rest_event, REST),
)
"""Over REST."""

HTTP_03_KINDED = Wording(
    PROTOCOL_VERSION_0_3,
    _REST,
    reading.rest_params,
    answering.rpc_answer,
    answering.rpc_event,
    Reworded(answering.rpc_event, REST),
)
"""Over REST, for clients that send and expect what JSON-RPC has as params and result."""

UNKNOWN_CODES = frozenset({-32008, -32009, -32010})
"""JSON-RPC codes that 0.3 does not have."""

INTERNAL = -32603
"""What they are told as."""


def rest_wording(version: str, operation: str, params: Json) -> Wording:
    """Return how a REST request with these parameters, as they came, is read and answered."""
    if version != PROTOCOL_VERSION_0_3:
        return HTTP
    is_kinded = operation in reading.SENDS and not reading.is_protobufs(params)
    return HTTP_03_KINDED if is_kinded else HTTP_03
