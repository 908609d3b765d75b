"""NKeys: the Ed25519 keys with which NATS identifies users, and their form as text."""

import base64
import binascii

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_SEED = 18 << 3
USER = 20 << 3
"""The NKey prefix of users, whose text starts with U."""

_SEED_BYTES = 2 + 32 + 2


class InvalidSeed(ValueError):
    """The text is not a seed of the required kind. The message does not contain it."""


class KeyPair:
    """An NKey pair; `public` is the public key as text."""

    def __init__(self, raw: bytes, kind: int = USER) -> None:
        """Create the pair from a private key's 32 bytes."""
        self._key = Ed25519PrivateKey.from_private_bytes(raw)
        self.public = _text(bytes([kind]) + self._key.public_key().public_bytes_raw())

    @classmethod
    def of_user(cls, seed: str) -> "KeyPair":
        """Return the pair of a user's `seed`.

        Raises:
            InvalidSeed: it is none, or one of something else.
        """
        try:
            raw = base64.b32decode(seed + "=" * (-len(seed) % 8))
        except (binascii.Error, ValueError):
            raw = b""
        if len(raw) != _SEED_BYTES or _checksum(raw[:-2]) != raw[-2:]:
            raise InvalidSeed("it is not an NKey seed")
        if raw[0] & 0xF8 != _SEED or _kind(raw) != USER:
            raise InvalidSeed("it is not the NKey seed of a user (SU…)")
        return cls(raw[2:-2])

    def sign(self, data: bytes) -> bytes:
        """Return the signature of `data`."""
        return self._key.sign(data)


def _kind(raw: bytes) -> int:
    return (raw[0] & 7) << 5 | (raw[1] & 0xF8) >> 3


def _text(raw: bytes) -> str:
    return base64.b32encode(raw + _checksum(raw)).rstrip(b"=").decode()


def _checksum(raw: bytes) -> bytes:
    return binascii.crc_hqx(raw, 0).to_bytes(2, "little")
