"""A2A 0.3 in the JSON bindings."""

from dataclasses import replace
from functools import partial

from a2a.utils.constants import PROTOCOL_VERSION_0_3

from headrace.model.events import Json
from headrace_gateway.protocols.a2a.versions import (
    HTTP,
    JSON_RPC,
    ConvertingRenderer,
    OldVersion,
    VersionBinding,
)
from headrace_gateway.protocols.a2a_v03 import requests, responses
from headrace_gateway.protocols.a2a_v03.cards import readable_by_old
from headrace_gateway.streaming.sse import LOG_LINES

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
