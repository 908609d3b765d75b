"""Create NATS' decentralised accounts as JWTs: an operator, accounts and users."""

import base64
import json
import secrets
import time
from typing import Any

from headrace.jetstream.credentials import KeyPair
from tests.support.nats_seeds import seed_of

_OPERATOR, _ACCOUNT = 14 << 3, 0

type Json = dict[str, Any]

_SYSTEM_LIMITS: Json = {
    **dict.fromkeys(("subs", "data", "payload", "imports", "exports", "conn", "leaf"), -1),
    "wildcards": True,
}
_NO_LIMITS: Json = {
    **_SYSTEM_LIMITS,
    **dict.fromkeys(("mem_storage", "disk_storage", "streams", "consumer"), -1),
}


class Accounts:
    """An operator with an account that has JetStream, one for the system, and who may log in."""

    def __init__(self) -> None:
        """Make all keys anew."""
        self._operator, self._account, self._system = (
            KeyPair(secrets.token_bytes(32), kind) for kind in (_OPERATOR, _ACCOUNT, _ACCOUNT)
        )

    @property
    def security(self) -> str:
        """What a nats-server's configuration says of them."""
        operator = _jwt(
            self._operator,
            self._operator.public,
            {"type": "operator", "system_account": self._system.public},
        )
        known = {
            pair.public: _jwt(self._operator, pair.public, {"type": "account", "limits": limits})
            for pair, limits in ((self._account, _NO_LIMITS), (self._system, _SYSTEM_LIMITS))
        }
        lines = "\n".join(f"  {public}: {jwt}" for public, jwt in known.items())
        return (
            f"operator: {operator}\nsystem_account: {self._system.public}\n"
            f"resolver: MEMORY\nresolver_preload: {{\n{lines}\n}}"
        )

    def creds(self, lifetime: float | None = None) -> str:
        """Return a new user's `.creds`; it expires after `lifetime` seconds."""
        raw = secrets.token_bytes(32)
        user = KeyPair(raw)
        claims = {"type": "user", "subs": -1, "data": -1, "payload": -1}
        jwt = _jwt(self._account, user.public, claims, lifetime)
        return (
            f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{seed_of(raw)}\n"
            "------END USER NKEY SEED------\n"
        )


def _jwt(issuer: KeyPair, subject: str, claims: Json, lifetime: float | None = None) -> str:
    now = int(time.time())
    body: Json = {
        "jti": secrets.token_hex(16),
        "iat": now,
        "iss": issuer.public,
        "sub": subject,
        "name": "test",
        "nats": claims | {"version": 2},
    }
    if lifetime is not None:
        body["exp"] = int(now + lifetime)
    head = {"typ": "JWT", "alg": "ed25519-nkey"}
    text = ".".join(_encoded(json.dumps(part).encode()) for part in (head, body))
    return f"{text}.{_encoded(issuer.sign(text.encode()))}"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
