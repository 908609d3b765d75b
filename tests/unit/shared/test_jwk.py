"""What a key of the fleet seals: nobody else makes or reads it."""

import base64
import time

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from headrace.jwk import PrivateKey, key_of_pem
from headrace.signing import make_pem

NOW = time.time()
SECRET = b"ann@acme.example"

PRIVATE: dict[str, PrivateKey] = {
    "P-256": ec.generate_private_key(ec.SECP256R1()),
    "P-384": ec.generate_private_key(ec.SECP384R1()),
    "Ed25519": ed25519.Ed25519PrivateKey.generate(),
    "RSA": rsa.generate_private_key(65537, 2048),
}


def pem_of(private: PrivateKey, form: serialization.PrivateFormat) -> bytes:
    return private.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


@pytest.mark.parametrize("kind", PRIVATE)
def test_every_kind_of_key_reads_what_it_has_sealed(kind: str) -> None:
    pem = pem_of(PRIVATE[kind], serialization.PrivateFormat.PKCS8)
    sealed = key_of_pem(pem).seal(SECRET, NOW)
    assert key_of_pem(pem).unseal(sealed, NOW, 60) == SECRET
    assert SECRET not in base64.urlsafe_b64decode(sealed)


def test_the_same_key_in_another_form_reads_it() -> None:
    private = PRIVATE["P-256"]
    one = key_of_pem(pem_of(private, serialization.PrivateFormat.PKCS8))
    other = key_of_pem(pem_of(private, serialization.PrivateFormat.TraditionalOpenSSL))
    assert one.pem != other.pem
    assert other.unseal(one.seal(SECRET, NOW), NOW, 60) == SECRET


def test_another_key_reads_nothing() -> None:
    sealed = key_of_pem(make_pem().encode()).seal(SECRET, NOW)
    assert key_of_pem(make_pem().encode()).unseal(sealed, NOW, 60) is None


def test_no_bit_of_it_can_be_changed() -> None:
    key = key_of_pem(make_pem().encode())
    sealed = base64.urlsafe_b64decode(key.seal(SECRET, NOW))
    assert key.unseal(base64.urlsafe_b64encode(sealed).decode(), NOW, 60) == SECRET
    for place in range(len(sealed)):
        changed = bytearray(sealed)
        changed[place] ^= 1
        assert key.unseal(base64.urlsafe_b64encode(changed).decode(), NOW, 60) is None, place
    for end in range(len(sealed)):
        assert key.unseal(base64.urlsafe_b64encode(sealed[:end]).decode(), NOW, 60) is None, end


@pytest.mark.parametrize("text", ["", ".", "=", "\u00e4", "\udcff", "A" * 60_000, "gAAAAA==", "\0"])
def test_what_is_no_sealed_text_is_nothing(text: str) -> None:
    assert key_of_pem(make_pem().encode()).unseal(text, NOW, 60) is None


def test_it_is_read_for_its_lifetime_only() -> None:
    key = key_of_pem(make_pem().encode())
    sealed = key.seal(SECRET, NOW)
    assert key.unseal(sealed, NOW + 60, 60) == SECRET
    assert key.unseal(sealed, NOW + 62, 60) is None
