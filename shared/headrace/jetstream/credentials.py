"""The credentials of NATS connections, read again for each server that it connects to.

nats-py would use credentials in a URL for that server only, and send none to servers that it
discovers.
"""

import base64
import re
import ssl
from typing import TYPE_CHECKING, NamedTuple

from headrace.environment import variable
from headrace.secret_settings import SecretUnreadable
from headrace.settings import BusSettings
from headrace.tls import tls_context

if TYPE_CHECKING:
    from headrace.jetstream.nkeys import KeyPair

_JWT = re.compile(r"-+BEGIN NATS USER JWT-+\s+(\S+)\s+-+END NATS USER JWT-+")
_SEED_LINE = re.compile(r"-+BEGIN USER NKEY SEED-+\s+(\S+)\s+-+END USER NKEY SEED-+")


class _Signer(NamedTuple):
    """A user who signs the server's nonce."""

    setting: str
    shown: dict[str, str]
    """The CONNECT fields beside the signature."""
    pair: "KeyPair"


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

    def _signer(self) -> "_Signer | None":
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


def _of_creds(text: str, place: str) -> "tuple[str, KeyPair]":
    jwt, seed = _JWT.search(text), _SEED_LINE.search(text)
    if jwt is None or seed is None:
        raise SecretUnreadable(f"{place} contains no JWT with an NKey seed")
    return jwt[1], _pair(seed[1], place)


def _pair(seed: str, place: str) -> "KeyPair":
    # Here, because few connections have a key, and its library is large.
    from headrace.jetstream.nkeys import InvalidSeed, KeyPair  # noqa: PLC0415 - see above

    try:
        return KeyPair.of_user(seed)
    except InvalidSeed as error:
        raise SecretUnreadable(f"{place}: {error}") from None


def _signed(pair: "KeyPair", nonce: str, name: str) -> str:
    if not nonce:
        raise SecretUnreadable(
            f"{variable(name)} is set, but this NATS server does not accept NKeys"
        )
    return base64.b64encode(pair.sign(nonce.encode())).decode()
