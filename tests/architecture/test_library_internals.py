"""What our NATS client, HTTP and gRPC servers override or use inside libraries is still there.

Those members are no part of the libraries' interfaces, so an update may change them. Updates are
bounded in `pyproject.toml`; whoever raises a bound finds here what to compare.
"""

import ast
import inspect
import re
import textwrap
import tomllib
from importlib.metadata import version
from itertools import chain

import pytest
from grpc._cython import cygrpc
from nats.aio.client import Client
from nats.aio.subscription import Subscription
from nats.aio.transport import TcpTransport
from nats.js.client import JetStreamContext
from packaging.requirements import Requirement
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from headrace.jetstream.client import FastParser, NatsClient
from headrace_gateway.server.http_protocol import HttpProtocol
from headrace_gateway.server.http_server import HttpServer
from headrace_gateway.server.websocket_protocol import WebSocketProtocol
from tests.architecture.tree import ROOT

ATTRIBUTE = "attribute"

INTERNALS: dict[type, dict[str, str]] = {
    FastParser: {
        "nc": ATTRIBUTE,
        "parse": "self, data=b''",
        "reset": "self",
    },
    NatsClient: {
        "_attempt_reconnect": "self",
        "_build_message": "self, sid, subject, reply, data, headers",
        "_close": "self, status, do_cbs=True",
        "_connect_command": "self",
        "_connect_to_server": "self, s",
        "_current_server": ATTRIBUTE,
        "_err": ATTRIBUTE,
        "_error_cb": ATTRIBUTE,
        "_flush_pending": "self, force_flush=False",
        "_flush_queue": ATTRIBUTE,
        "_max_payload": ATTRIBUTE,
        "_max_pending_size": ATTRIBUTE,
        "_parse_header_lines": "raw",
        "_pending": ATTRIBUTE,
        "_pending_data_size": ATTRIBUTE,
        "_pongs": ATTRIBUTE,
        "_process_connect_init": "self",
        "_process_err": "self, err_msg",
        "_process_op_err": "self, e",
        "_process_pong": "self",
        "_ping_interval": "self",
        "_ps": ATTRIBUTE,
        "_read_loop": "self",
        "_reconnection_task": ATTRIBUTE,
        "_remove_sub": "self, sid, max_msgs=0",
        "_request_new_style": "self, subject, payload, timeout=1, headers=None",
        "_select_next_server": "self",
        "_send_command": "self, cmd, priority=False",
        "_send_ping": "self, future=None",
        "_send_publish": "self, subject, reply, payload, payload_size, headers",
        "_server_info": ATTRIBUTE,
        "_server_pool": ATTRIBUTE,
        "_sid": ATTRIBUTE,
        "_subs": ATTRIBUTE,
        "_transport": ATTRIBUTE,
        "is_closed": ATTRIBUTE,
        "is_connected": ATTRIBUTE,
        "is_connecting": ATTRIBUTE,
        "is_draining": ATTRIBUTE,
        "is_draining_pubs": ATTRIBUTE,
        "is_reconnecting": ATTRIBUTE,
        "new_inbox": "self",
        "publish": "self, subject, payload=b'', reply='', headers=None",
        "ssl_context": ATTRIBUTE,
        "stats": ATTRIBUTE,
    },
    HttpProtocol: {
        "_get_upgrade": "self",
        "_should_upgrade": "self",
        "_unset_keepalive_if_required": "self",
        "app_state": ATTRIBUTE,
        "config": ATTRIBUTE,
        "connection_lost": "self, exc",
        "connection_made": "self, transport",
        "cycle": ATTRIBUTE,
        "data_received": "self, data",
        "connections": ATTRIBUTE,
        "flow": ATTRIBUTE,
        "headers": ATTRIBUTE,
        "loop": ATTRIBUTE,
        "on_body": "self, body",
        "on_header": "self, name, value",
        "on_headers_complete": "self",
        "on_message_begin": "self",
        "on_message_complete": "self",
        "parser": ATTRIBUTE,
        "pipeline": ATTRIBUTE,
        "scope": ATTRIBUTE,
        "send_400_response": "self, msg",
        "server_state": ATTRIBUTE,
        "transport": ATTRIBUTE,
        "url": ATTRIBUTE,
        "ws_protocol_class": ATTRIBUTE,
    },
    WebSocketProtocol: {
        "close_sent": ATTRIBUTE,
        "conn": ATTRIBUTE,
        "config": ATTRIBUTE,
        "connection_lost": "self, exc",
        "data_received": "self, data",
        "frames": ATTRIBUTE,
        "handle_connect": "self, event",
        "handle_cont": "self, event",
        "handle_parser_exception": "self",
        "handle_ping": "self",
        "handle_pong": "self, event",
        "queue": ATTRIBUTE,
        "read_paused": ATTRIBUTE,
        "receive": "self",
        "resume_writing": "self",
        "run_asgi": "self",
        "scope": ATTRIBUTE,
        "send_receive_event_to_app": "self",
        "start_keepalive": "self",
        "transport": ATTRIBUTE,
        "writable": ATTRIBUTE,
    },
    HttpServer: {
        "capture_signals": "self",
        "main_loop": "self",
        "on_tick": "self, counter",
        "should_exit": ATTRIBUTE,
    },
}
"""What each class overrides or uses of its base, and the parameters of the base's methods."""

USED = [
    (Client, "_process_msg"),
    (FlowControl, "_is_writable_event"),
    (RequestResponseCycle, "chunked_encoding"),
    (RequestResponseCycle, "disconnected"),
    (RequestResponseCycle, "flow"),
    (RequestResponseCycle, "message_event"),
    (RequestResponseCycle, "response_complete"),
    (RequestResponseCycle, "transport"),
    (Subscription, "_closed"),
    (Subscription, "_conn"),
    (Subscription, "_drain"),
    (Subscription, "_id"),
    (Subscription, "_max_msgs"),
    (Subscription, "_message_iterator"),
    (Subscription, "_pending_next_msgs_calls"),
    (Subscription, "_pending_queue"),
    (Subscription, "_queue"),
    (Subscription, "_received"),
    (Subscription, "_stop_processing"),
    (Subscription, "_subject"),
    (Subscription, "_wait_for_msgs_task"),
    (TcpTransport, "_io_writer"),
    (JetStreamContext, "_api_request"),
]
"""Private members of other classes that we use."""


def internals(ours: type) -> dict[str, str]:
    """Return the base's members that a class overrides, or uses by ``self``."""
    bases = [base for base in ours.__mro__[1:] if base.__module__.startswith(("nats", "uvicorn"))]
    source = "\n".join(map(inspect.getsource, bases))
    found = {name: _member(name, bases, source) for name in sorted(_mentioned(ours))}
    return {name: member for name, member in found.items() if member is not None}


def _mentioned(ours: type) -> set[str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(ours)))
    by_self = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self"
    }
    return {name for name in by_self | set(vars(ours)) if not name.startswith("__")}


def _member(name: str, bases: list[type], source: str) -> str | None:
    for base in bases:
        if inspect.isroutine(vars(base).get(name)):
            parameters = inspect.signature(getattr(base, name)).parameters.values()
            return ", ".join(str(one.replace(annotation=one.empty)) for one in parameters)
    is_set = re.search(rf"\bself\.{name}\b[^=\n(]*=[^=]|\bdef {name}\(", source)
    return ATTRIBUTE if is_set else None


@pytest.mark.parametrize("ours", INTERNALS, ids=lambda ours: ours.__name__)
def test_a_library_still_has_what_we_override(ours: type) -> None:
    assert internals(ours) == INTERNALS[ours]


@pytest.mark.parametrize(("owner", "name"), USED)
def test_a_library_still_has_what_we_use(owner: type, name: str) -> None:
    is_set = re.search(rf"\bself\.{name}\b[^=\n(]*=[^=]", inspect.getsource(owner))
    assert hasattr(owner, name) or is_set


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        (
            "_handle_rpc",
            "method_name method_resolver interceptors rpc_state loop concurrency_exceeded",
        ),
        ("_schedule_rpc_coro", "rpc_coro rpc_state loop method_name"),
    ],
)
def test_grpc_still_has_the_functions_we_call(name: str, parameters: str) -> None:
    code = getattr(cygrpc, name).__code__
    assert list(code.co_varnames[: code.co_argcount]) == parameters.split()


@pytest.mark.parametrize(
    "name", ["_make_request_call_future", "_request_call", "_request_registered_call"]
)
def test_grpcs_server_still_has_the_methods_we_override_or_call(name: str) -> None:
    assert callable(getattr(cygrpc.AioServer, name))


def test_a_member_that_the_library_does_not_have_is_left_out() -> None:
    class Renamed(FastParser):
        async def parse_anew(self) -> None:
            await self.parse_more()

        async def parse_more(self) -> None: ...

    assert internals(Renamed) == {}


@pytest.mark.parametrize("library", ["grpcio", "nats-py", "uvicorn"])
def test_its_version_is_bounded(library: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    declared = map(Requirement, chain(project["dependencies"], *extras))
    [found] = [one.specifier for one in declared if one.name == library]
    assert version(library) in found
    assert "99" not in found, "an update may change what test_a_library_still_has_… look at"
