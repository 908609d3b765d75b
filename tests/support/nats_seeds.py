"""Seeds of NKeys, which NATS' own tools make outside of tests."""

import base64
import binascii

from headrace.jetstream.credentials import USER

_SEED = 18 << 3


def seed_of(raw: bytes, kind: int = USER) -> str:
    """Return the seed of a private key's 32 bytes."""
    prefixed = bytes([_SEED | kind >> 5, (kind & 31) << 3]) + raw
    checksum = binascii.crc_hqx(prefixed, 0).to_bytes(2, "little")
    return base64.b32encode(prefixed + checksum).rstrip(b"=").decode()
