"""A2A 0.3 in the JSON bindings and in agent cards."""

from dataclasses import replace
from functools import partial

from a2a.compat.v0_3.conversions import to_compat_agent_card
from a2a.types import a2a_pb2
from a2a.utils.constants import PROTOCOL_VERSION_0_3
from google.protobuf.json_format import ParseDict

from headrace.model.events import Json
from headrace_gateway.protocols.a2a.versions import (
    HTTP,
    JSON_RPC,
    ConvertingRenderer,
    OldVersion,
    VersionBinding,
)
from headrace_gateway.protocols.a2a_v03 import requests, responses
from headrace_gateway.protocols.a2a_v03.responses import dumped
from headrace_gateway.streaming.sse import LOG_LINES


def readable_by_old(card: Json, default_agent: str) -> Json:
    """Return `card` with the fields of 0.3 added; existing fields are not changed.

    0.3 has no tenant. Over gRPC, where the tenant names the agent, its clients reach the default
    agent only, so the interface is left out for all others.
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
    return _merged(card, dumped(to_compat_agent_card(core)))


def _merged(into: Json, more: Json) -> Json:
    merged = dict(into)
    for key, value in more.items():
        if key not in merged:
            merged[key] = value
        elif isinstance(value, dict) and isinstance(merged[key], dict):
            merged[key] = _merged(merged[key], value)
    return merged


RPC_03 = VersionBinding(
    PROTOCOL_VERSION_0_3,
    requests.METHODS,
    partial(requests.of_json, requests.rpc_params),
    responses.rpc_answer,
    responses.rpc_event,
    ConvertingRenderer(responses.rpc_event, JSON_RPC),
    unknown_codes=frozenset({-32008, -32009, -32010}),
    streams_errors=True,
)
"""0.3 over JSON-RPC."""

RPC_03_UNKINDED = replace(
    RPC_03,
    answer=responses.unkinded_answer,
    event=responses.unkinded_event,
    entry_renderer=ConvertingRenderer(responses.unkinded_event, JSON_RPC),
)
"""0.3 over JSON-RPC, for clients that expect 1.0's shapes."""


def rpc_binding(method: str, params: Json) -> VersionBinding:
    """Return the binding for a JSON-RPC call with these unconverted parameters."""
    return RPC_03_UNKINDED if responses.is_unkinded(method, params) else RPC_03


_REST = {name: name for name in HTTP.operations if name != "ListTasks"}

HTTP_03 = VersionBinding(
    PROTOCOL_VERSION_0_3,
    _REST,
    partial(requests.of_json, requests.rest_params),
    responses.rest_answer,
    responses.rest_event,
    ConvertingRenderer(responses.rest_event, LOG_LINES),
)
"""0.3 over REST."""

HTTP_03_KINDED = replace(
    HTTP_03,
    answer=responses.rpc_answer,
    event=responses.rpc_event,
    entry_renderer=ConvertingRenderer(responses.rpc_event, LOG_LINES),
)
"""0.3 over REST, for clients that send JSON-RPC params and expect JSON-RPC results."""


def rest_binding(operation: str, params: Json) -> VersionBinding:
    """Return the binding for a REST request with these unconverted parameters."""
    is_kinded = operation in requests.SENDS and not requests.is_protobufs(params)
    return HTTP_03_KINDED if is_kinded else HTTP_03


VERSION = OldVersion(rpc_binding, rest_binding, readable_by_old)
"""Version 0.3."""
