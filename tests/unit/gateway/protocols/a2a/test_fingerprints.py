"""A repeated request has the fingerprint of the first one, and no other request has it."""

from typing import Any

import pytest

from headrace_gateway.protocols.a2a.parameters import ForkTaskParams, SendMessageParams

type Json = dict[str, Any]

MESSAGE: Json = {
    "message": {"role": "ROLE_USER", "messageId": "m", "parts": [{"text": "hello"}]},
    "metadata": {"b": 1, "a": 2},
    "configuration": {"historyLength": 3, "acceptedOutputModes": ["text/plain"]},
}
FORK: Json = {
    "id": "t",
    "generation": 2,
    "message": MESSAGE["message"],
    "metadata": MESSAGE["metadata"],
}


def reordered(value: Any) -> Any:  # noqa: ANN401  # any JSON
    if isinstance(value, dict):
        return {name: reordered(value[name]) for name in reversed(value)}
    return value


def test_the_order_of_fields_does_not_matter() -> None:
    sent = SendMessageParams.read(MESSAGE), SendMessageParams.read(reordered(MESSAGE))
    assert sent[0].fingerprint() == sent[1].fingerprint()
    forks = ForkTaskParams.read(FORK), ForkTaskParams.read(reordered(FORK))
    assert forks[0].fingerprint() == forks[1].fingerprint()


@pytest.mark.parametrize(
    "changed",
    [
        {"message": MESSAGE["message"] | {"parts": [{"text": "other"}]}},
        {"message": MESSAGE["message"] | {"messageId": "n"}},
        {"metadata": {"a": 2}},
        {"configuration": {"historyLength": 0}},
    ],
)
def test_another_content_has_another_fingerprint(changed: Json) -> None:
    first = SendMessageParams.read(MESSAGE).fingerprint()
    assert SendMessageParams.read(MESSAGE | changed).fingerprint() != first


def test_a_message_and_a_fork_with_it_have_different_ones() -> None:
    content = {name: MESSAGE[name] for name in ("message", "metadata")}
    fork = ForkTaskParams.read(content | {"id": "t", "generation": 2})
    assert fork.fingerprint() != SendMessageParams.read(content).fingerprint()
