"""The keys of an issuer of web tokens: which one verifies which token."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import jwt
from jwt import PyJWK

_OF_ANY_KEY = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "oct": ("HS256", "HS384", "HS512"),
}
"""Algorithms that any key of a kind may verify (RFC 7518, 3.1), unless it has an ``alg``. Other
kinds of keys have one each, by their curve."""


@dataclass(frozen=True, slots=True)
class IssuerKeys:
    """The keys of a JSON Web Key Set, once for each algorithm that they may verify."""

    keys: Sequence[PyJWK]

    @classmethod
    def read(cls, key_set: str, algorithms: Sequence[str]) -> Self:
        """Return those keys of a JSON Web Key Set that verify one of `algorithms`.

        Raises:
            ValueError: it is not a JSON Web Key Set, or there is no such key in it.
        """
        found = json.loads(key_set)
        stated = found.get("keys") if isinstance(found, dict) else None
        if not isinstance(stated, list) or not stated:
            raise ValueError("it contains no list of keys")
        keys = [key for one in stated for key in _usable(one, algorithms)]
        if not keys:
            raise ValueError(f"it contains no key for {', '.join(algorithms)}")
        return cls(keys)

    def of(self, header: Mapping[str, Any]) -> PyJWK | None:
        """Return the key that verifies a token with `header`, if there is one."""
        algorithm, name = header.get("alg"), header.get("kid")
        fit = [key for key in self.keys if key.algorithm_name == algorithm]
        named = [key for key in fit if key.key_id == name]
        # An issuer with one key need not name it.
        if not named and len(fit) == 1 and "kid" not in header:
            return fit[0]
        return named[0] if named else None


def _usable(stated: object, algorithms: Sequence[str]) -> list[PyJWK]:
    if not isinstance(stated, dict) or (stated.get("use") or "sig") != "sig":
        return []
    kind = str(stated.get("kty"))
    # None: the one that follows from the key's curve.
    fit = [stated["alg"]] if stated.get("alg") else _OF_ANY_KEY.get(kind, (None,))
    found = [_key(stated, one) for one in fit if one is None or one in algorithms]
    return [key for key in found if key is not None and key.algorithm_name in algorithms]


def _key(stated: dict[str, Any], algorithm: str | None) -> PyJWK | None:
    try:
        return PyJWK(stated, algorithm)
    except jwt.PyJWTError:
        return None
