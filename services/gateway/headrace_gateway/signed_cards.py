"""Signed agent cards, in a form that clients can canonicalise to verify the signature.

A card is signed once and cached until its content changes, because each signature differs.
"""

import re
import time
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import orjson
from a2a.types import a2a_pb2
from google.protobuf.json_format import MessageToDict, ParseDict

from headrace.model import json_text
from headrace.model.events import Json
from headrace.signing import SigningKeys

if TYPE_CHECKING:
    from headrace.jwk import SigningKey

JWKS_PATH = "/.well-known/jwks.json"

_KEPT = 1024
_LOOPBACK = re.compile(
    r"https?://(localhost|127(\.[0-9]{1,3}){3}|\[::1\])(:[0-9]{1,5})?(/.*)?", re.ASCII
)
"""Addresses of the machine itself; a card for one can't mislead clients on other machines."""


@dataclass(frozen=True, slots=True)
class SignedCard:
    """A card as served to clients."""

    card: Json
    etag: str
    """Equal for equal content under the same key, on every gateway."""
    modified: float
    """When this gateway first served this content, in seconds since 1970."""


class SignedCards:
    """Signs cards with the current key."""

    def __init__(self, keys: SigningKeys, public_url: str | None) -> None:
        """Sign with `keys` those cards whose address is `public_url` or loopback."""
        self._keys, self._public_url = keys, public_url
        self._kept = OrderedDict[tuple[str, str], SignedCard]()

    async def ready(self) -> None:
        """Load what signs; the first card of a gateway needs it."""
        await self._keys.ready()

    def sign(self, what: str, base: str, card: Json) -> SignedCard:
        """Return `card` with its signature; `what` and `base` (scheme and host) identify it.

        Without a public URL `base` comes from a Host header, which any client can choose. Such a
        card is not signed unless `base` is loopback, because a signature would confirm a false
        address.
        """
        key = self._keys.current
        digest = blake2b(json_text.encode([card, key.id]), digest_size=12).hexdigest()
        # Weak, because two signatures of the same content differ in their bytes.
        etag = f'W/"{digest}"'
        kept = self._kept.get((what, base))
        if kept is None or kept.etag != etag:
            served = _signed(card, base, key) if self._is_ours(base) else _unsigned(card)
            kept = SignedCard(served, etag, time.time())
            self._kept[what, base] = kept
        self._kept.move_to_end((what, base))
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return kept

    def signed_catalog(self, base: str, catalog: Json) -> Json:
        """Return the AI Catalog with its signature, for the same addresses as cards.

        The signed bytes are the catalog's canonical form (RFC 8785): it has texts alone, and names
        in ASCII, for which that is JSON with sorted names.
        """
        if not self._is_ours(base):
            return catalog
        canonical = json_text.encode(catalog, option=orjson.OPT_SORT_KEYS)
        signature = self._keys.current.signature(canonical, jku=base + JWKS_PATH)
        return catalog | {"signature": signature}

    def _is_ours(self, base: str) -> bool:
        return bool(self._public_url) or _LOOPBACK.fullmatch(base) is not None


def _unsigned(card: Json) -> Json:
    return MessageToDict(ParseDict(card, a2a_pb2.AgentCard(), ignore_unknown_fields=True))


def _signed(card: Json, base: str, key: "SigningKey") -> Json:
    # Here, because it imports what the keys do; `SignedCards.ready` loads that beforehand.
    from a2a.utils.signing import create_agent_card_signer  # noqa: PLC0415 - see above

    message = ParseDict(card, a2a_pb2.AgentCard(), ignore_unknown_fields=True)
    header: Any = {"alg": key.algorithm, "kid": key.id, "typ": "JOSE", "jku": base + JWKS_PATH}
    sign = create_agent_card_signer(key.pem, header)
    # Return the message as signed, without empty fields, so that canonicalising it gives the same
    # bytes.
    return MessageToDict(sign(message))
