"""Agent cards, signed: what they say as JSON that anybody can canonicalise, and whose word it is.

A card is signed once for as long as it says the same, and kept: a signature differs each time.
"""

import time
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import orjson
from a2a.types import a2a_pb2
from a2a.utils.signing import create_agent_card_signer
from google.protobuf.json_format import MessageToDict, ParseDict

from headrace.events import Json
from headrace.jwk import SigningKey
from headrace.signing import SigningKeys

JWKS_PATH = "/.well-known/jwks.json"

_KEPT = 1024


@dataclass(frozen=True, slots=True)
class SignedCard:
    """A card as it is served."""

    card: Json
    etag: str
    """The same for the same words under the same key, on every gateway."""
    modified: float
    """When this gateway first saw it say this, seconds since 1970."""


class SignedCards:
    """Signs cards with the key of the moment."""

    def __init__(self, keys: SigningKeys) -> None:
        """Sign with `keys`."""
        self._keys = keys
        self._kept = OrderedDict[tuple[str, str], SignedCard]()

    def sign(self, what: str, base: str, card: Json) -> SignedCard:
        """Return `card` with its signature; `what` of `base` (scheme and host) it is."""
        key = self._keys.current
        said = blake2b(orjson.dumps([card, key.id]), digest_size=12).hexdigest()
        # Weak: the bytes of two signatures differ, what they say does not.
        etag = f'W/"{said}"'
        kept = self._kept.get((what, base))
        if kept is None or kept.etag != etag:
            kept = SignedCard(_signed(card, base, key), etag, time.time())
            self._kept[what, base] = kept
        self._kept.move_to_end((what, base))
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return kept


def _signed(card: Json, base: str, key: SigningKey) -> Json:
    message = ParseDict(card, a2a_pb2.AgentCard(), ignore_unknown_fields=True)
    header: Any = {"alg": key.algorithm, "kid": key.id, "typ": "JOSE", "jku": base + JWKS_PATH}
    sign = create_agent_card_signer(key.pem, header)
    # As it was signed, without what says nothing: who canonicalises it meets the same bytes.
    return MessageToDict(sign(message))
