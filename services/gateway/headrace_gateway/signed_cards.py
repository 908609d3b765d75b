"""Agent cards, signed: what they say as JSON that anybody can canonicalise, and whose word it is.

A card is signed once for as long as it says the same, and kept: a signature differs each time.
"""

import re
import time
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import orjson
from a2a.types import a2a_pb2
from a2a.utils.signing import create_agent_card_signer
from google.protobuf.json_format import MessageToDict, ParseDict

from headrace.jwk import SigningKey
from headrace.model.events import Json
from headrace.signing import SigningKeys

JWKS_PATH = "/.well-known/jwks.json"

_KEPT = 1024
_LOOPBACK = re.compile(r"https?://(localhost|127(\.[0-9]{1,3}){3}|\[::1\])(:[0-9]{1,5})?", re.ASCII)
"""Names nobody but the machine itself, so a card for it misleads nobody else."""


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

    def __init__(self, keys: SigningKeys, public_url: str | None) -> None:
        """Sign with `keys` what says that the fleet is at `public_url`, or on this machine."""
        self._keys, self._public_url = keys, public_url
        self._kept = OrderedDict[tuple[str, str], SignedCard]()

    def sign(self, what: str, base: str, card: Json) -> SignedCard:
        """Return `card` with its signature; `what` of `base` (scheme and host) it is.

        Without a public URL `base` is what a Host header says, and whoever sends one must not get
        the fleet's word that it is there: such a card has no signature.
        """
        key = self._keys.current
        said = blake2b(orjson.dumps([card, key.id]), digest_size=12).hexdigest()
        # Weak: the bytes of two signatures differ, what they say does not.
        etag = f'W/"{said}"'
        kept = self._kept.get((what, base))
        if kept is None or kept.etag != etag:
            served = _signed(card, base, key) if self._is_ours(base) else _unsigned(card)
            kept = SignedCard(served, etag, time.time())
            self._kept[what, base] = kept
        self._kept.move_to_end((what, base))
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return kept

    def _is_ours(self, base: str) -> bool:
        return bool(self._public_url) or _LOOPBACK.fullmatch(base) is not None


def _unsigned(card: Json) -> Json:
    return MessageToDict(ParseDict(card, a2a_pb2.AgentCard(), ignore_unknown_fields=True))


def _signed(card: Json, base: str, key: SigningKey) -> Json:
    message = ParseDict(card, a2a_pb2.AgentCard(), ignore_unknown_fields=True)
    header: Any = {"alg": key.algorithm, "kid": key.id, "typ": "JOSE", "jku": base + JWKS_PATH}
    sign = create_agent_card_signer(key.pem, header)
    # As it was signed, without what says nothing: who canonicalises it meets the same bytes.
    return MessageToDict(sign(message))
