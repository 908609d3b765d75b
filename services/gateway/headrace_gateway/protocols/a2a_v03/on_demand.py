"""What serves A2A 0.3, loaded with its first request: the SDK's models of it are a large import."""

from typing import TYPE_CHECKING

from headrace.lazy import Lazy
from headrace_gateway.protocols.a2a.versions import OldVersion

if TYPE_CHECKING:
    from headrace_gateway.protocols.a2a_v03.rpc_messages import RpcMessages


def _version() -> OldVersion:
    from headrace_gateway.protocols.a2a_v03.bindings import VERSION  # noqa: PLC0415 - see above

    return VERSION


def _rpc_messages() -> "RpcMessages":
    from headrace_gateway.protocols.a2a_v03.rpc_messages import RpcMessages  # noqa: PLC0415 - see above

    return RpcMessages()


JSON_BINDINGS = Lazy(_version)
"""0.3 in the JSON bindings and in agent cards."""

RPC_MESSAGES = Lazy(_rpc_messages)
"""0.3 over gRPC."""
