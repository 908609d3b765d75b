"""JSON Web Tokens of one issuer, whose keys are in a file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jwt

from headrace.model.errors import InvalidName
from headrace.model.queues import PRIORITIES, Priority
from headrace.model.subjects import encode_token
from headrace_gateway.refusals import CredentialsRefused
from headrace_gateway.server.auth.caller import Caller, Grant
from headrace_gateway.server.auth.credentials_file import (
    CredentialsUnreadable,
    TokenIssuer,
    grants_of,
)
from headrace_gateway.server.auth.issuer_keys import IssuerKeys

_LONGEST = 16 * 1024


class WebTokens:
    """Verifies tokens: signature, issuer, audience and times, with pinned algorithms."""

    def __init__(
        self, issuer: TokenIssuer, folder: Path, grants: Mapping[str, Grant] | None = None
    ) -> None:
        """Accept tokens of `issuer`; its key file is relative to `folder`; `grants` are by role.

        Raises:
            CredentialsUnreadable: the keys can't be read.
        """
        self._issuer, self._grants = issuer, grants or {}
        path = folder / issuer.keys
        try:
            self._keys = IssuerKeys.read(path.read_text(), issuer.algorithms)
        except (OSError, ValueError) as error:
            raise CredentialsUnreadable(f"{path}: {error}") from None

    def caller(self, token: str) -> Caller:
        """Return the caller that the token identifies.

        Raises:
            CredentialsRefused: the token is not the issuer's, has another audience, has expired, or
                names no owner.
        """
        if len(token) > _LONGEST:
            raise CredentialsRefused("the token is too long")
        claims = self._claims(token)
        issuer = self._issuer
        try:
            tenant = "default" if issuer.tenant_claim is None else claims[issuer.tenant_claim]
            return Caller(
                encode_token(_text(tenant)),
                encode_token(_text(claims[issuer.owner_claim])),
                _priority(claims.get(issuer.priority_claim or "")),
                identified=True,
                grants=self._granted(claims),
            )
        except (InvalidName, LookupError, TypeError):
            raise CredentialsRefused("the token does not name an owner") from None

    def _granted(self, claims: dict[str, Any]) -> tuple[Grant, ...] | None:
        """Return the token's permissions; None for everything, with its owner's own tasks."""
        if self._issuer.roles_claim is None:
            return None
        claim = claims.get(self._issuer.roles_claim)
        roles = claim.split() if isinstance(claim, str) else claim
        if not isinstance(roles, list):
            return ()
        return grants_of([role for role in roles if isinstance(role, str)], self._grants)

    def _claims(self, token: str) -> dict[str, Any]:
        issuer = self._issuer
        try:
            key = self._keys.of(jwt.get_unverified_header(token))
            if key is None:
                raise CredentialsRefused("the token is signed with an unknown key")
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=list(issuer.algorithms),
                issuer=issuer.issuer,
                audience=issuer.audience,
                leeway=issuer.leeway,
                options={"require": ["exp", "iss", "aud"]},
            )
        except jwt.ExpiredSignatureError:
            raise CredentialsRefused("the token has expired") from None
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
            raise CredentialsRefused("the token is not valid for this gateway") from None
        return claims


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _priority(value: object) -> Priority | None:
    return next((priority for priority in PRIORITIES if priority == value), None)
