"""A retry has the hash that the gateway before an upgrade stored for its Idempotency-Key."""

from dataclasses import field, replace
from typing import Any

import pytest

from headrace.dataclass import dataclass
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


@dataclass(frozen=True, slots=True)
class LaterParams(SendMessageParams):
    """The parameters of a version with more fields."""

    priority: str | None = None
    labels: list[str] = field(default_factory=list)


@pytest.mark.parametrize(
    ("fingerprint", "stored"),
    [
        (
            SendMessageParams.read(MESSAGE).fingerprint(),
            "6c24f360bec6fbe727f90e55ca65434205f81f2371af9b6522524904bad177ec",
        ),
        (
            ForkTaskParams.read(FORK).fingerprint(),
            "cf68079ff88a727f1ce7aa868741d16c1d05d2bfdf5d3b39cf0ae5585724008a",
        ),
        (
            ForkTaskParams.read({"id": "t"}).fingerprint(),
            "f56827b08ca186abf8c300105f0fa1bc1c3ace9b5b4d0b99536794f2b2af7b34",
        ),
    ],
)
def test_a_hash_stays_the_one_of_the_first_version(fingerprint: str, stored: str) -> None:
    assert fingerprint == stored


def test_a_field_that_a_later_version_adds_is_hashed_where_it_is_set() -> None:
    before = SendMessageParams.read(MESSAGE).fingerprint()
    later = LaterParams.read(MESSAGE)
    assert later.fingerprint() == before
    set_fields = [replace(later, priority="high"), replace(later, labels=["red"])]
    assert len({before, *(one.fingerprint() for one in set_fields)}) == 3
