"""The kit's items that a server which keeps to A2A v1.0.1 fails, each with the reason."""

from tests.conformance.outcome import Reasons

_UNSUPPORTED_TYPE = (
    "The item says that an unsupported media type is answered with ContentTypeNotSupported, then "
    "fails the server that does so, because it expects a success."
)
_UNIMPLEMENTED = (
    "The kit is pinned to v1.0.0 and expects UNIMPLEMENTED; v1.0.1 maps the error to "
    "FAILED_PRECONDITION."
)
_UNIMPLEMENTED_PUSH = f"{_UNIMPLEMENTED} (A card without push notifications only.)"
_CODES = "TestGrpcStatusCodes"

LISTED: Reasons = {
    "test_must_requirement[CORE-SEND-003-grpc]": _UNSUPPORTED_TYPE,
    "test_must_requirement[CORE-SEND-003-jsonrpc]": _UNSUPPORTED_TYPE,
    "test_must_requirement[CORE-SEND-003-http_json]": _UNSUPPORTED_TYPE,
    f"{_CODES}.test_version_not_supported_returns_unimplemented": _UNIMPLEMENTED,
    f"{_CODES}.test_push_not_supported_returns_unimplemented": _UNIMPLEMENTED_PUSH,
}
"""Reasons by item: the test's class, if it has one, and name."""

LISTED_03: Reasons = {
    "test_sensitive_information_protection": (
        "The item looks for 127.0.0.1 in the card's text, which is where the agent is."
    ),
}
"""The same for the kit for 0.3."""
