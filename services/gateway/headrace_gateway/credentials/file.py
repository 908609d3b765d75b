"""The file of credentials: who may call, as whom. Tokens stand in it as hashes only."""

import tomllib
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from headrace.errors import HeadraceError, InvalidName
from headrace.lanes import Priority
from headrace.names import encode_token

type Algorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
    "HS256", "HS384", "HS512",
]  # fmt: skip


class CredentialsUnreadable(HeadraceError):
    """The file of credentials is missing, or not what it must be; the message says where."""

    code = "credentials_unreadable"


class _Table(BaseModel):
    """A table of the file: a misspelt key must not pass for one that is left out."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Credential(_Table):
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

    @field_validator("owner", "tenant")
    @classmethod
    def _fits_a_subject(cls, name: str) -> str:
        return _encodable(name)


class TokenIssuer(_Table):
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
    leeway: float = Field(default=10.0, ge=0, le=300)
    """Seconds by which clocks may differ."""


class Known(_Table):
    """The whole file."""

    required: bool = True
    """Whether nobody may call without credentials; else they are anonymous."""
    public_cards: bool = True
    """Whether agents' cards and lists may be read without credentials all the same."""
    credential: tuple[Credential, ...] = ()
    jwt: TokenIssuer | None = None


def read_file(path: Path) -> Known:
    """Read the file of credentials.

    Raises:
        CredentialsUnreadable: there is none, it is no TOML, or a key breaks a rule; says which.
    """
    try:
        return Known.model_validate(tomllib.loads(path.read_text()))
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
