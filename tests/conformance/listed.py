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
_UNIMPLEMENTED_STREAM = f"{_UNIMPLEMENTED} (A card without streaming only.)"
_NO_STREAM = "The item opens a stream though the card offers none, and fails at the refusal."
_STATUS_415 = "The kit is pinned to v1.0.0 and expects 415; v1.0.1 maps the error to 400."
_OPEN_CARD = (
    "The kit's schema allows no further fields, while A2A 1.0 has unrecognized fields ignored. "
    "Those that it finds are what clients of 0.3 read in a card."
)
_CODES = "TestGrpcStatusCodes"

LISTED: Reasons = {
    "test_must_requirement[CORE-SEND-003-grpc]": _UNSUPPORTED_TYPE,
    "test_must_requirement[CORE-SEND-003-jsonrpc]": _UNSUPPORTED_TYPE,
    "test_must_requirement[CORE-SEND-003-http_json]": _UNSUPPORTED_TYPE,
    "TestHttpJsonStatusCodes.test_content_type_not_supported_returns_415": _STATUS_415,
    "TestAgentCardStructure.test_agent_card_validates_against_schema": _OPEN_CARD,
    f"{_CODES}.test_version_not_supported_returns_unimplemented": _UNIMPLEMENTED,
    f"{_CODES}.test_unsupported_operation_returns_unimplemented": _UNIMPLEMENTED_STREAM,
    "TestRestStreaming.test_streaming_content_type": _NO_STREAM,
    f"{_CODES}.test_push_not_supported_returns_unimplemented": _UNIMPLEMENTED_PUSH,
}
"""Reasons by item: the test's class, if it has one, and name."""

_NO_SUCH_CALL = "The item hands a whole request over as the method's name, which is no string."
_NO_CARD_CALL = "The item requests the card by JSON-RPC, under a name that is not a method of 0.3."
_ADDRESS = "gRPC's own address form is host:port; a URL there is refused by gRPC's clients."
_BLOCKING = (
    "Sending blocks until the task rests unless told otherwise, as the SDK's server for 0.3 does."
)
_NO_KIND = "The item's part has no kind and a text: read as a text, as the SDK's models read it."
_KIT_CLIENT = f"The kit's gRPC client finds no server: it takes the address for a URL. {_ADDRESS}"
_DEFAULT = (
    "The item requests the configuration with the id `default`, after creating one without an id."
)
_DECLARED = "The item expects that deleting an unknown configuration fails; deleting is idempotent."

LISTED_03: Reasons = {
    "test_sensitive_information_protection": (
        "The item looks for 127.0.0.1 in the card's text, which is where the agent is."
    ),
    "test_invalid_method_error_validation": _NO_SUCH_CALL,
    "test_agent_card_access_equivalence": _NO_CARD_CALL,
    "test_agent_interfaces_structure": _ADDRESS,
    "test_same_error_handling_task_not_found": _KIT_CLIENT,
    "test_same_error_handling_invalid_params": _KIT_CLIENT,
    "test_get_push_notification_config": _DEFAULT,
    "test_push_notification_not_supported_error_32003_enhanced": _DECLARED,
    "test_task_state_transitions": _BLOCKING,
    "test_unsupported_part_kind": _NO_KIND,
}
"""The same for the kit for 0.3."""
