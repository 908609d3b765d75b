"""Credentials for tests: a credentials file and its tokens."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

ISSUER, AUDIENCE = "https://issuer.test", "headrace"


@dataclass(frozen=True)
class Person:
    """Somebody with a token."""

    tenant: str
    owner: str
    roles: tuple[str, ...] | None = None

    @property
    def token(self) -> str:
        return f"secret-of-{self.tenant}-{self.owner}".replace("@", "-at-")

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    @property
    def key(self) -> dict[str, str]:
        return {"X-API-Key": self.token}

    @property
    def entry(self) -> str:
        digest = hashlib.sha256(self.token.encode()).hexdigest()
        return (
            f'[[credential]]\nsha256 = "{digest}"\n'
            f"tenant = {json.dumps(self.tenant)}\nowner = {json.dumps(self.owner)}\n"
        ) + ("" if self.roles is None else f"roles = {json.dumps(self.roles)}\n")


ANN, BOB = Person("acme", "ann@acme.example"), Person("acme", "bob")
EVE = Person("other", "ann@acme.example")
"""Of another tenant, and called as somebody in the first."""


def write(path: Path, *people: Person, head: str = "") -> Path:
    """Write the file of credentials of `people`; `head` stands above them."""
    path.write_text("\n".join([head, *(person.entry for person in people)]))
    return path


class Issuer:
    """Issues JSON Web Tokens."""

    def __init__(self, kid: str = "key-1") -> None:
        self.kid = kid
        self.private = ec.generate_private_key(ec.SECP256R1())

    def write_keys(self, path: Path) -> None:
        """Write its public keys as a JWKS."""
        jwk = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(self.private.public_key()))
        path.write_text(json.dumps({"keys": [jwk | {"kid": self.kid, "alg": "ES256"}]}))

    def token(self, claims: dict[str, object]) -> str:
        """Return a token with these claims, signed."""
        return jwt.encode(claims, self.private, "ES256", headers={"kid": self.kid})
