"""A private key of the fleet: for JSON Web Signature, and for what only the fleet can read."""

import hashlib
import json
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from typing import Any

import jwt
from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    SECP384R1,
    EllipticCurvePrivateKey,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from jwt.utils import base64url_encode

type PrivateKey = EllipticCurvePrivateKey | Ed25519PrivateKey | RSAPrivateKey

_LEAST_RSA_BITS = 2048
_THUMBPRINT = {"EC": ("crv", "kty", "x", "y"), "OKP": ("crv", "kty", "x"), "RSA": ("e", "kty", "n")}
"""The members that a key's id is computed from, by kind of key (RFC 7638)."""
_BOX_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A signing key."""

    pem: bytes
    """The private key in PEM."""
    private: PrivateKey
    algorithm: str
    """The JWS algorithm, such as ``ES256``."""
    public: dict[str, Any]
    """The public key as a JSON Web Key."""
    box: Fernet
    """Encrypts and authenticates, with a key that is derived from the private one."""

    @property
    def id(self) -> str:
        """The key's id: its thumbprint, so ids need no assignment."""
        return str(self.public["kid"])

    def token(self, claims: dict[str, Any]) -> str:
        """Return a signed JSON Web Token with `claims`, in compact form."""
        return jwt.encode(claims, self.private, self.algorithm, headers={"kid": self.id})

    def signature(self, content: bytes, **headers: str) -> str:
        """Return the JSON Web Signature of `content`, detached from it (RFC 7515, appendix F)."""
        return jwt.api_jws.encode(
            content,
            self.private,
            self.algorithm,
            headers={"kid": self.id, **headers},
            is_payload_detached=True,
        )

    def seal(self, content: bytes, at: float) -> str:
        """Return `content` as text for URLs that only holders of this key can make or read.

        `at` is the time, in seconds since 1970.
        """
        return self.box.encrypt_at_time(content, int(at)).decode()

    def unseal(self, sealed: str, at: float, lifetime: int) -> bytes | None:
        """Return the content of what was sealed at most `lifetime` seconds before `at`, or None."""
        try:
            return self.box.decrypt_at_time(sealed.encode(errors="replace"), lifetime, int(at))
        except InvalidToken:
            return None


def key_of_pem(pem: bytes) -> SigningKey:
    """Return the private key in `pem`: RSA, P-256, P-384 or Ed25519, without a password.

    Raises:
        ValueError, TypeError: The key is of another kind or has a password.
    """
    private = serialization.load_pem_private_key(pem, None)
    match private:
        case EllipticCurvePrivateKey(curve=SECP256R1()):
            public, algorithm = ECAlgorithm.to_jwk(private.public_key(), as_dict=True), "ES256"
        case EllipticCurvePrivateKey(curve=SECP384R1()):
            public, algorithm = ECAlgorithm.to_jwk(private.public_key(), as_dict=True), "ES384"
        case Ed25519PrivateKey():
            public, algorithm = OKPAlgorithm.to_jwk(private.public_key(), as_dict=True), "EdDSA"
        case RSAPrivateKey(key_size=bits) if bits >= _LEAST_RSA_BITS:
            public, algorithm = RSAAlgorithm.to_jwk(private.public_key(), as_dict=True), "RS256"
        case _:
            raise ValueError("the key must be RSA (2048 bits or more), P-256, P-384 or Ed25519")
    public = {name: value for name, value in public.items() if name != "key_ops"}
    described = {"kid": _thumbprint(public), "alg": algorithm, "use": "sig"}
    return SigningKey(pem, private, algorithm, public | described, _box_of(private))


def _box_of(private: PrivateKey) -> Fernet:
    # Of the key, not of its PEM: two gateways may have the same key in different forms.
    canonical = private.private_bytes(
        serialization.Encoding.DER,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    derivation = HKDF(hashes.SHA256(), _BOX_KEY_BYTES, salt=None, info=b"headrace sealed values")
    return Fernet(urlsafe_b64encode(derivation.derive(canonical)))


def _thumbprint(public: dict[str, Any]) -> str:
    members = {name: public[name] for name in _THUMBPRINT[public["kty"]]}
    canonical = json.dumps(members, sort_keys=True, separators=(",", ":")).encode()
    return base64url_encode(hashlib.sha256(canonical).digest()).decode()
