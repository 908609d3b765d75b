"""Which key of an issuer verifies which token."""

import json
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt.algorithms import ECAlgorithm, HMACAlgorithm, OKPAlgorithm, RSAAlgorithm
from jwt.utils import base64url_encode

from headrace_gateway.refusals import CredentialsRefused
from headrace_gateway.server.auth.credentials_file import CredentialsUnreadable, TokenIssuer
from headrace_gateway.server.auth.web_tokens import WebTokens

RSA = rsa.generate_private_key(65537, 2048)
P256, P384 = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP384R1())
ED = Ed25519PrivateKey.generate()
SECRET = b"a shared secret of more than sixty-four bytes, as HS512 would like it to be"
PRIVATE: dict[str, Any] = {"rsa": RSA, "p256": P256, "p384": P384, "ed": ED, "oct": SECRET}
PUBLIC: dict[str, Any] = {
    "rsa": RSAAlgorithm.to_jwk(RSA.public_key(), as_dict=True),
    "p256": ECAlgorithm.to_jwk(P256.public_key(), as_dict=True),
    "p384": ECAlgorithm.to_jwk(P384.public_key(), as_dict=True),
    "ed": OKPAlgorithm.to_jwk(ED.public_key(), as_dict=True),
    "oct": HMACAlgorithm.to_jwk(SECRET, as_dict=True),
}
OF_RSA = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"]
OF_SECRETS = ["HS256", "HS384", "HS512"]
PAIRS = [
    *(("rsa", algorithm) for algorithm in OF_RSA),
    *(("oct", algorithm) for algorithm in OF_SECRETS),
    ("p256", "ES256"),
    ("p384", "ES384"),
    ("ed", "EdDSA"),
]


def web_tokens(folder: Path, algorithms: list[str], *keys: dict[str, Any]) -> WebTokens:
    """Return what verifies tokens of an issuer with the public `keys`."""
    (folder / "keys.json").write_text(json.dumps({"keys": keys}))
    declared = {"issuer": "i", "audience": "a", "algorithms": algorithms, "keys": "keys.json"}
    return WebTokens(TokenIssuer.model_validate(declared), folder)


def token(name: str, algorithm: str, kid: str | None = "k", **changed: object) -> str:
    claims = {"iss": "i", "aud": "a", "exp": time.time() + 60, "sub": "ann", **changed}
    headers = {} if kid is None else {"kid": kid}
    return jwt.encode(claims, PRIVATE[name], algorithm, headers=headers)


def key(name: str, kid: str = "k", **stated: str | None) -> dict[str, Any]:
    public = {member: value for member, value in PUBLIC[name].items() if member != "key_ops"}
    return public | {"kid": kid} | stated


@pytest.mark.parametrize(("name", "algorithm"), PAIRS)
def test_a_key_without_an_algorithm_verifies_each_of_its_kind(
    tmp_path: Path, name: str, algorithm: str
) -> None:
    trusting = web_tokens(tmp_path, [algorithm], key(name))
    assert trusting.caller(token(name, algorithm)).owner == "ann"


def test_members_of_a_key_that_are_null_state_nothing(tmp_path: Path) -> None:
    trusting = web_tokens(tmp_path, OF_RSA, key("rsa", alg=None, use=None))
    assert trusting.caller(token("rsa", "PS384")).owner == "ann"


def test_a_key_with_an_algorithm_verifies_that_one_only(tmp_path: Path) -> None:
    trusting = web_tokens(tmp_path, OF_RSA, key("rsa", alg="PS384"))
    assert trusting.caller(token("rsa", "PS384")).owner == "ann"
    with pytest.raises(CredentialsRefused):
        trusting.caller(token("rsa", "RS256"))


def test_the_files_algorithms_limit_what_keys_verify(tmp_path: Path) -> None:
    trusting = web_tokens(tmp_path, ["RS512", "HS256"], key("rsa"), key("oct", "s"))
    assert trusting.caller(token("rsa", "RS512")).owner == "ann"
    for forged in (token("rsa", "RS256"), token("oct", "HS256", "k"), token("oct", "HS512", "s")):
        with pytest.raises(CredentialsRefused):
            trusting.caller(forged)


def test_keys_of_several_kinds_may_have_one_id(tmp_path: Path) -> None:
    trusting = web_tokens(tmp_path, ["RS256", "ES256"], key("rsa"), key("p256"))
    assert trusting.caller(token("rsa", "RS256")).owner == "ann"
    assert trusting.caller(token("p256", "ES256")).owner == "ann"


def test_the_only_key_need_not_be_named(tmp_path: Path) -> None:
    trusting = web_tokens(tmp_path, ["RS256", "PS256"], key("rsa"))
    assert trusting.caller(token("rsa", "PS256", None)).owner == "ann"
    with pytest.raises(CredentialsRefused):
        trusting.caller(token("rsa", "PS256", "other"))
    two = web_tokens(tmp_path, ["RS256"], key("rsa"), key("rsa", "l"))
    with pytest.raises(CredentialsRefused):
        two.caller(token("rsa", "RS256", None))


@pytest.mark.parametrize(
    "unusable",
    [
        [],
        [5],
        [key("rsa", use="enc")],
        [{"kty": "unknown"}],
        [{"kty": ["RSA"]}],
        [{"kty": "RSA"}],
        [key("rsa", alg="none")],
        [key("p256")],
    ],
)
def test_keys_that_verify_nothing_are_reported_at_the_start(
    tmp_path: Path, unusable: list[Any]
) -> None:
    with pytest.raises(CredentialsUnreadable, match=r"keys.json: it contains no "):
        web_tokens(tmp_path, ["RS256"], *unusable)


@pytest.mark.parametrize("expires", ["Infinity", "-Infinity", "NaN", "1e999", '"soon"', "null"])
def test_an_expiry_that_is_no_time_is_refused(tmp_path: Path, expires: str) -> None:
    trusting = web_tokens(tmp_path, ["HS256"], key("oct"))
    claims = f'{{"iss": "i", "aud": "a", "sub": "ann", "exp": {expires}}}'
    forged = jwt.PyJWS().encode(claims.encode(), SECRET, "HS256", {"kid": "k"})
    with pytest.raises(CredentialsRefused):
        trusting.caller(forged)


def test_a_token_that_is_nested_too_deep_is_refused(tmp_path: Path) -> None:
    trusting = web_tokens(tmp_path, ["RS256"], key("rsa"))
    deep = base64url_encode(b'{"kid": ' + b"[" * 5000 + b"]" * 5000 + b"}").decode()
    with pytest.raises(CredentialsRefused):
        trusting.caller(f"{deep}.{deep}.x")
