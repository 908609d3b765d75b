"""The credentials file: roles, and callers with their tokens, which are stored only as hashes."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from headrace.model.errors import InvalidName, SettingInvalid
from headrace.model.queues import Priority
from headrace.model.subjects import encode_token
from headrace.toml_file import read_toml
from headrace_gateway.server.auth.caller import FLEET, ROUTING, Grant


class Table(BaseModel):
    """A table of the file; an unknown key is an error, so that a misspelt key is not ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


OPERATIONS: Mapping[str, tuple[str, ...]] = {
    "read": (
        "GetTask",
        "ListTasks",
        "SubscribeToTask",
        "GetTaskPushNotificationConfig",
        "ListTaskPushNotificationConfigs",
        "GetExtendedAgentCard",
    ),
    "send": ("SendMessage", "SendStreamingMessage"),
    "cancel": ("CancelTask",),
    "delete": ("DeleteTask",),
    "push": ("CreateTaskPushNotificationConfig", "DeleteTaskPushNotificationConfig"),
    "operate": tuple(sorted(FLEET - ROUTING)),
    "route": tuple(sorted(ROUTING)),
}
"""The operations of each group. An AG-UI run is ``send``, attaching to one ``read``, stopping one
``cancel``."""

OPERATORS = frozenset({"operate", "route"})
"""Groups of operators' operations, which a role must name."""

_NAMES = frozenset(name for names in OPERATIONS.values() for name in names)


class Role(Table):
    """The permissions of callers with the role."""

    name: str = Field(min_length=1)
    agents: tuple[str, ...] = ("*",)
    """Names of agents, or patterns: ``faq-*``."""
    operations: tuple[str, ...] = tuple(group for group in OPERATIONS if group not in OPERATORS)
    """Groups (``read``, ``send``, ``cancel``, ``delete``, ``push``, ``operate``, ``route``), or
    names of operations. ``operate`` and ``route`` must be named, because they concern the whole
    fleet."""
    operator: bool = False
    """Whether reading and canceling reach the tasks of all owners of the tenant; ``operate`` needs
    it."""

    @field_validator("operations")
    @classmethod
    def _exist(cls, operations: tuple[str, ...]) -> tuple[str, ...]:
        for one in operations:
            if one not in OPERATIONS and one not in _NAMES:
                known = ", ".join((*OPERATIONS, *sorted(_NAMES)))
                raise ValueError(f"unknown operation {one!r}; known: {known}")
        return operations

    def grant(self) -> Grant:
        """Return the role's permissions."""
        named = [OPERATIONS.get(one, (one,)) for one in self.operations]
        return Grant(
            self.agents, frozenset(name for names in named for name in names), self.operator
        )


def grants_of(roles: Iterable[str], known: Mapping[str, Grant]) -> tuple[Grant, ...]:
    """Return the permissions of all `roles` together; unknown roles permit nothing."""
    return tuple(known[role] for role in roles if role in known)


type Algorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
    "HS256", "HS384", "HS512",
]  # fmt: skip


class CredentialsUnreadable(SettingInvalid):
    """The credentials file is missing or invalid; the message names the place."""

    code = "credentials_unreadable"


class Credential(Table):
    """One token or API key; it may be sent as either."""

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    """SHA-256 of the token, hexadecimal. Tokens are random and long, so they can't be guessed and
    no slower hash is needed."""
    owner: str
    """The owner whose tasks it can see; any text."""
    tenant: str = "default"
    """Any text; owners of different tenants share nothing."""
    priority: Priority | None = None
    """Priority of requests with this credential; a request may choose a lower one."""
    roles: tuple[str, ...] | None = None
    """Names of ``[[role]]`` tables with its permissions. None: everything, with the owner's own
    tasks."""

    @field_validator("owner", "tenant")
    @classmethod
    def _fits_a_subject(cls, name: str) -> str:
        return _encodable(name)


type Flow = Literal["authorization_code", "client_credentials"]


class SignIn(Table):
    """Where callers get the issuer's tokens: named in agents' cards, and used by the console."""

    discovery: Path | None = None
    """File with the issuer's OpenID Connect discovery document, relative to the credentials file's
    folder. Its URLs apply where this table names none."""
    authorization_url: str = ""
    """Where people sign in. It may have a query, such as ``?audience=headrace``."""
    token_url: str = ""
    """Where codes and client credentials are exchanged for tokens."""
    end_session_url: str = ""
    """Where people sign out of the issuer. Empty: they sign out of the console only."""
    flows: tuple[Flow, ...] = Field(default=("authorization_code",), min_length=1)
    """How the issuer gives out tokens: to people (with PKCE), to programs, or both."""
    scopes: Mapping[str, str] = Field(default={"openid": "Identifies the caller"}, min_length=1)
    """The scopes that callers ask for, and what each is for."""
    console_client: str | None = None
    """The console's client id, a public client of the issuer. None: people give the console a
    token."""

    @field_validator("authorization_url", "token_url", "end_session_url")
    @classmethod
    def _is_safe(cls, url: str) -> str:
        if url and not is_issuers_url(url):
            raise ValueError("must be an https URL; http is for this machine only")
        return url

    @model_validator(mode="after")
    def _people_can_sign_in(self) -> Self:
        if self.console_client is not None and not self.has_people:
            raise ValueError("console_client needs 'authorization_code' in flows")
        if self.discovery is None and self.missing:
            raise ValueError(f"needs {self.missing}, or a discovery document")
        return self

    @property
    def has_people(self) -> bool:
        """Whether people sign in, beside programs."""
        return "authorization_code" in self.flows

    @property
    def missing(self) -> str:
        """Name of a URL that the flows need and that is not known; empty if there is none."""
        if not self.token_url:
            return "token_url"
        return "authorization_url" if self.has_people and not self.authorization_url else ""


_HOST = re.compile(r"(?:[a-z0-9.-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?", re.IGNORECASE)
_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")


def is_issuers_url(url: str) -> bool:
    """Return whether codes and tokens may be sent to `url`: https, or on this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    is_private = parts.scheme == "https" or (
        parts.scheme == "http" and parts.hostname in _THIS_MACHINE
    )
    return is_private and _HOST.fullmatch(parts.netloc) is not None and not parts.fragment


class TokenIssuer(Table):
    """The issuer of accepted JSON Web Tokens, and the claims that identify the caller."""

    issuer: str
    """The only accepted ``iss``."""
    audience: str
    """Must be in ``aud``."""
    algorithms: list[Algorithm] = Field(min_length=1)
    """The accepted algorithms; a token can't choose another."""
    keys: Path
    """File with the issuer's JSON Web Key Set, relative to the credentials file's folder."""
    owner_claim: str = "sub"
    tenant_claim: str | None = None
    """None: all callers have the tenant ``default``."""
    priority_claim: str | None = None
    roles_claim: str | None = None
    """Claim with the token's roles or scopes, a list or a space-separated text. Names without a
    ``[[role]]`` table permit nothing. None: tokens permit everything, with the owner's own
    tasks."""
    leeway: float = Field(default=10.0, ge=0, le=300)
    """Seconds by which clocks may differ."""
    sign_in: SignIn | None = None
    """None: cards do not say where tokens are issued, and people give the console a token."""


class KnownCredentials(Table):
    """The whole file."""

    required: bool = True
    """Whether credentials are required; if not, callers without them are anonymous."""
    public_cards: bool = True
    """Whether agents' cards and lists may be read without credentials."""
    mutual_tls: bool = False
    """Whether the proxy in front of gateways demands a client's certificate, as cards then say.
    Certificates identify nobody here: callers send their credentials, too."""
    credential: tuple[Credential, ...] = ()
    jwt: TokenIssuer | None = None
    role: tuple[Role, ...] = ()

    @model_validator(mode="after")
    def _roles_exist(self) -> Self:
        names = [role.name for role in self.role]
        for number, name in enumerate(names):
            if name in names[:number]:
                raise ValueError(f"role.{number}.name: {name!r} is declared twice")
        for number, one in enumerate(self.credential):
            for name in one.roles or ():
                if name not in names:
                    raise ValueError(f"credential.{number}.roles: role {name!r} does not exist")
        return self

    def grants(self) -> Mapping[str, Grant]:
        """Return each role's permissions, by the role's name."""
        return {role.name: role.grant() for role in self.role}


def read_file(path: Path) -> KnownCredentials:
    """Read the credentials file.

    Raises:
        CredentialsUnreadable: the file is missing or not TOML, or keys break rules; the message
            names each key with its rule.
    """
    return read_toml(path, KnownCredentials, CredentialsUnreadable)


def _encodable(name: str) -> str:
    try:
        encode_token(name)
    except InvalidName as invalid:
        raise ValueError(invalid.rule) from None
    return name
