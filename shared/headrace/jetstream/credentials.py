"""The credentials of NATS connections, read again for each server that it connects to.

nats-py would use credentials in a URL for that server only, and send none to servers that it
discovers.
"""

import base64
import binascii
import re
import ssl
from typing import NamedTuple

from headrace.environment import variable
from headrace.secret_settings import SecretUnreadable
from headrace.settings import BusSettings
from headrace.tls import tls_context

_JWT = re.compile(r"-+BEGIN NATS USER JWT-+\s+(\S+)\s+-+END NATS USER JWT-+")
_SEED_LINE = re.compile(r"-+BEGIN USER NKEY SEED-+\s+(\S+)\s+-+END USER NKEY SEED-+")

_SEED = 18 << 3
USER = 20 << 3
"""The NKey prefix of users, whose text starts with U."""

_SEED_BYTES = 2 + 32 + 2


class InvalidSeed(ValueError):
    """The text is not a seed of the required kind. The message does not contain it."""


class KeyPair:
    """An NKey pair, the Ed25519 keys of a user of NATS; `public` is the public key as text."""

    def __init__(self, raw: bytes, kind: int = USER) -> None:
        """Create the pair from a private key's 32 bytes."""
        # Here, because few connections have a key, and its library is large.
        from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 - see above
            Ed25519PrivateKey,
        )

        self._key = Ed25519PrivateKey.from_private_bytes(raw)
        self.public = _nkey_text(bytes([kind]) + self._key.public_key().public_bytes_raw())

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


def _nkey_text(raw: bytes) -> str:
    return base64.b32encode(raw + _checksum(raw)).rstrip(b"=").decode()


def _checksum(raw: bytes) -> bytes:
    return binascii.crc_hqx(raw, 0).to_bytes(2, "little")


class _Signer(NamedTuple):
    """A user who signs the server's nonce."""

    setting: str
    shown: dict[str, str]
    """The CONNECT fields beside the signature."""
    pair: KeyPair


class NatsCredentials:
    """The credentials and certificates of some settings."""

    def __init__(self, settings: BusSettings) -> None:
        """Keep the settings; files are read when they are needed."""
        self._settings = settings

    @property
    def need_tls(self) -> bool:
        """Whether the connection must use TLS, whatever the server offers."""
        settings = self._settings
        return (
            settings.nats_tls_first
            or settings.has("nats_ca")
            or settings.has("nats_cert")
            or any(url.startswith(("tls://", "wss://")) for url in settings.nats_servers)
        )

    def check(self) -> None:
        """Check that keys and certificates can be used, which a server is not needed for.

        Raises:
            SecretUnreadable: A file can't be read, or its content is unusable.
        """
        self._signer()
        if self.need_tls:
            self.tls()

    def login(self, nonce: str) -> dict[str, str]:
        """Return the CONNECT fields that identify the user; the server requires a signed `nonce`.

        Raises:
            SecretUnreadable: A file can't be read, or its content is unusable.
        """
        if (signer := self._signer()) is not None:
            return {**signer.shown, "sig": _signed(signer.pair, nonce, signer.setting)}
        match self._settings.nats_login():
            case None:
                return {}
            case name, None:
                return {"auth_token": name}
            case name, password:
                return {"user": name, "pass": password}

    def _signer(self) -> _Signer | None:
        settings = self._settings
        if settings.has("nats_creds"):
            place = settings.place_of("nats_creds")
            jwt, pair = _of_creds(settings.secret("nats_creds"), place)
            return _Signer("nats_creds", {"jwt": jwt}, pair)
        if settings.has("nats_nkey"):
            place = settings.place_of("nats_nkey")
            pair = _pair(settings.secret("nats_nkey").strip(), place)
            return _Signer("nats_nkey", {"nkey": pair.public}, pair)
        return None

    def tls(self) -> ssl.SSLContext:
        """Return the TLS context.

        Raises:
            SecretUnreadable: A file can't be read, or is not a certificate or key.
        """
        return tls_context(self._settings, "nats")


def _of_creds(text: str, place: str) -> tuple[str, KeyPair]:
    jwt, seed = _JWT.search(text), _SEED_LINE.search(text)
    if jwt is None or seed is None:
        raise SecretUnreadable(f"{place} contains no JWT with an NKey seed")
    return jwt[1], _pair(seed[1], place)


def _pair(seed: str, place: str) -> KeyPair:
    try:
        return KeyPair.of_user(seed)
    except InvalidSeed as error:
        raise SecretUnreadable(f"{place}: {error}") from None


def _signed(pair: KeyPair, nonce: str, name: str) -> str:
    if not nonce:
        raise SecretUnreadable(
            f"{variable(name)} is set, but this NATS server does not accept NKeys"
        )
    return base64.b64encode(pair.sign(nonce.encode())).decode()
