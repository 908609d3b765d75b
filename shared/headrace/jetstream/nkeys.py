"""NATS' keys: an Ed25519 key pair as text, of which the server knows the public half.

A seed is base32 text: two bytes that say what it is and whose, the key's 32 bytes, a checksum.
"""

import base64
import binascii

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_SEED = 18 << 3
USER = 20 << 3
"""What kind of key a user has; its text starts with U."""

_SEED_BYTES = 2 + 32 + 2


class NotASeed(ValueError):
    """The text is no seed of the kind that was wanted. The message does not show it."""


class KeyPair:
    """One key pair; `public` is its public half as text."""

    def __init__(self, raw: bytes, kind: int = USER) -> None:
        """Make the pair of a private key's 32 bytes."""
        self._key = Ed25519PrivateKey.from_private_bytes(raw)
        self.public = _text(bytes([kind]) + self._key.public_key().public_bytes_raw())

    @classmethod
    def of_user(cls, seed: str) -> "KeyPair":
        """Return the pair of a user's `seed`.

        Raises:
            NotASeed: it is none, or one of something else.
        """
        try:
            raw = base64.b32decode(seed + "=" * (-len(seed) % 8))
        except (binascii.Error, ValueError):
            raw = b""
        if len(raw) != _SEED_BYTES or _checksum(raw[:-2]) != raw[-2:]:
            raise NotASeed("it is no NKey seed")
        if raw[0] & 0xF8 != _SEED or _kind(raw) != USER:
            raise NotASeed("it is not the NKey seed of a user (SU…)")
        return cls(raw[2:-2])

    def sign(self, data: bytes) -> bytes:
        """Return the signature of `data`."""
        return self._key.sign(data)


def seed_text(raw: bytes, kind: int = USER) -> str:
    """Return the seed of a private key's 32 bytes."""
    return _text(bytes([_SEED | kind >> 5, (kind & 31) << 3]) + raw)


def _kind(raw: bytes) -> int:
    return (raw[0] & 7) << 5 | (raw[1] & 0xF8) >> 3


def _text(raw: bytes) -> str:
    return base64.b32encode(raw + _checksum(raw)).rstrip(b"=").decode()


def _checksum(raw: bytes) -> bytes:
    return binascii.crc_hqx(raw, 0).to_bytes(2, "little")
