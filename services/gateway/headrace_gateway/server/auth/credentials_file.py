"""The file of credentials: who may call, as whom. Tokens stand in it as hashes only."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from headrace.model.errors import HeadraceError, InvalidName
from headrace.model.names import encode_token
from headrace.model.queues import Priority
from headrace_gateway.server.auth.caller import Grant
from headrace_gateway.server.auth.roles import Role, Table

type Algorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
    "HS256", "HS384", "HS512",
]  # fmt: skip


class CredentialsUnreadable(HeadraceError):
    """The file of credentials is missing, or not what it must be; the message says where."""

    code = "credentials_unreadable"


class Credential(Table):
    """One token or API key: it may be sent as either."""

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    """SHA-256 of the token, hexadecimal. Tokens are random and long, so no slower hash is needed:
    there is nothing to guess."""
    owner: str
    """Whose tasks it sees; any text."""
    tenant: str = "default"
    """Any text; owners of different tenants have nothing in common."""
    priority: Priority | None = None
    """Class of what is sent with it; a request may wish for a lower one."""
    roles: tuple[str, ...] | None = None
    """What it is good for, by the names of ``[[role]]`` tables. None: everything, with the owner's
    own tasks."""

    @field_validator("owner", "tenant")
    @classmethod
    def _fits_a_subject(cls, name: str) -> str:
        return _encodable(name)


class TokenIssuer(Table):
    """Whose JSON Web Tokens are believed, and what in them says who is asking."""

    issuer: str
    """The only ``iss``."""
    audience: str
    """What ``aud`` must name."""
    algorithms: list[Algorithm] = Field(min_length=1)
    """The only ones; a token can't choose another."""
    keys: Path
    """File with the issuer's JSON Web Key Set, seen from this file's folder."""
    owner_claim: str = "sub"
    tenant_claim: str | None = None
    """None: everybody is of tenant ``default``."""
    priority_claim: str | None = None
    roles_claim: str | None = None
    """Claim with the token's roles or scopes, a list or a text with spaces between them. Those that
    no ``[[role]]`` names let nothing. None: tokens are good for everything of their owner's."""
    leeway: float = Field(default=10.0, ge=0, le=300)
    """Seconds by which clocks may differ."""


class KnownCredentials(Table):
    """The whole file."""

    required: bool = True
    """Whether nobody may call without credentials; else they are anonymous."""
    public_cards: bool = True
    """Whether agents' cards and lists may be read without credentials all the same."""
    credential: tuple[Credential, ...] = ()
    jwt: TokenIssuer | None = None
    role: tuple[Role, ...] = ()

    @model_validator(mode="after")
    def _roles_exist(self) -> Self:
        names = [role.name for role in self.role]
        for number, name in enumerate(names):
            if name in names[:number]:
                raise ValueError(f"role.{number}.name: {name!r} is named twice")
        for number, one in enumerate(self.credential):
            for name in one.roles or ():
                if name not in names:
                    raise ValueError(f"credential.{number}.roles: there is no role {name!r}")
        return self

    def grants(self) -> Mapping[str, Grant]:
        """Return what each role lets its callers do, by its name."""
        return {role.name: role.grant() for role in self.role}


def read_file(path: Path) -> KnownCredentials:
    """Read the file of credentials.

    Raises:
        CredentialsUnreadable: there is none, it is no TOML, or a key breaks a rule; says which.
    """
    try:
        return KnownCredentials.model_validate(tomllib.loads(path.read_text()))
    except ValidationError as invalid:
        first = invalid.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "file"
        raise CredentialsUnreadable(f"{path}: {where}: {first['msg']}") from None
    except (OSError, ValueError) as trouble:
        raise CredentialsUnreadable(f"{path}: {trouble}") from None


def _encodable(name: str) -> str:
    try:
        encode_token(name)
    except InvalidName as invalid:
        raise ValueError(invalid.rule) from None
    return name
