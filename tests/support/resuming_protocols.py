"""List of protocols in which a task can be followed. Add new protocols here."""

from tests.support.resuming_bindings import JSON_RPC, REST_GET, REST_POST, REST_QUERY, Binding
from tests.support.resuming_grpc import GRPC
from tests.support.resuming_websocket import WEBSOCKET, WEBSOCKET_RPC

A2A: tuple[Binding, ...] = (
    REST_GET,
    REST_POST,
    REST_QUERY,
    JSON_RPC,
    WEBSOCKET,
    WEBSOCKET_RPC,
    GRPC,
)
"""Those whose events are the log's own: they take each other's cursors."""
