"""What a connection to NATS proves itself with: made anew for each server that it connects to.

nats-py would take credentials that stand in a URL for that server alone, and send none to the
servers that it learns of.
"""

import base64
import re
import ssl

from headrace.jetstream.nkeys import KeyPair, NotASeed
from headrace.secret_settings import SecretUnreadable, variable
from headrace.settings import BusSettings
from headrace.tls import tls_context

_JWT = re.compile(r"-+BEGIN NATS USER JWT-+\s+(\S+)\s+-+END NATS USER JWT-+")
_SEED = re.compile(r"-+BEGIN USER NKEY SEED-+\s+(\S+)\s+-+END USER NKEY SEED-+")


class NatsCredentials:
    """The credentials and certificates of some settings."""

    def __init__(self, settings: BusSettings) -> None:
        """Read nothing yet."""
        self._settings = settings

    @property
    def need_tls(self) -> bool:
        """Whether nothing may be sent in the clear, whatever the server says."""
        settings = self._settings
        return (
            settings.nats_tls_first
            or settings.has("nats_ca")
            or settings.has("nats_cert")
            or any(url.startswith(("tls://", "wss://")) for url in settings.nats_servers)
        )

    def login(self, nonce: str) -> dict[str, str]:
        """Return what a CONNECT says of who connects; `nonce` is what the server wants signed.

        Raises:
            SecretUnreadable: a file can't be read, or what it holds is of no use.
        """
        settings = self._settings
        if settings.has("nats_creds"):
            jwt, pair = _of_creds(settings.secret("nats_creds"))
            return {"jwt": jwt, "sig": _signed(pair, nonce, "nats_creds")}
        if settings.has("nats_nkey"):
            pair = _pair(settings.secret("nats_nkey").strip(), "nats_nkey")
            return {"nkey": pair.public, "sig": _signed(pair, nonce, "nats_nkey")}
        match settings.nats_login():
            case None:
                return {}
            case name, None:
                return {"auth_token": name}
            case name, password:
                return {"user": name, "pass": password}

    def tls(self) -> ssl.SSLContext:
        """Return what TLS is done with.

        Raises:
            SecretUnreadable: a file can't be read, or is no certificate or key.
        """
        return tls_context(self._settings, "nats")


def _of_creds(text: str) -> tuple[str, KeyPair]:
    jwt, seed = _JWT.search(text), _SEED.search(text)
    if jwt is None or seed is None:
        raise SecretUnreadable(f"{variable('nats_creds')} holds no JWT with an NKey seed")
    return jwt[1], _pair(seed[1], "nats_creds")


def _pair(seed: str, name: str) -> KeyPair:
    try:
        return KeyPair.of_user(seed)
    except NotASeed as trouble:
        raise SecretUnreadable(f"{variable(name)}: {trouble}") from None


def _signed(pair: KeyPair, nonce: str, name: str) -> str:
    if not nonce:
        raise SecretUnreadable(f"{variable(name)} is set, and this NATS server takes no NKeys")
    return base64.b64encode(pair.sign(nonce.encode())).decode()
