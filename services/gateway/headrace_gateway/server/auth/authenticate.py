"""Authentication: the caller of a request, by its headers and the current credentials file."""

import asyncio
import hashlib
import hmac
import logging
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from starlette.datastructures import Headers

from headrace.background import keep_running
from headrace.model.agent_card import AgentCard, SecurityScheme
from headrace.model.subjects import encode_token
from headrace_gateway.refusals import CredentialsMissing, CredentialsRefused
from headrace_gateway.server.auth.caller import Caller, Grant
from headrace_gateway.server.auth.credentials_file import (
    Credential,
    CredentialsUnreadable,
    KnownCredentials,
    TokenIssuer,
    grants_of,
    read_file,
)
from headrace_gateway.server.auth.issuer_document import with_discovery
from headrace_gateway.server.auth.schemes import (
    BEARER,
    KEY,
    Schemes,
    repeated_credentials,
    schemes_of,
)
from headrace_gateway.timing import TIMING

if TYPE_CHECKING:
    from headrace_gateway.server.auth.web_tokens import WebTokens

_log = logging.getLogger(__name__)


_UNGUARDED = Caller(unguarded=True)
"""Every caller of a gateway without a credentials file."""


class _KnownCallers(NamedTuple):
    """One version of the file."""

    known: KnownCredentials
    by_digest: Mapping[bytes, Caller]
    tokens: "WebTokens | None"


def token_of_protocols(headers: Mapping[str, str]) -> str | None:
    """Return the token among a WebSocket's subprotocols, the only place a browser can put it.

    The client offers ``headrace`` and ``bearer.<token>``; the gateway selects the former.
    """
    offered = headers.get("sec-websocket-protocol", "")
    for protocol in offered.split(","):
        kind, _, token = protocol.strip().partition(".")
        if kind == "bearer" and token:
            return token
    return None


class Callers:
    """Identifies callers. Without a file every caller is anonymous, with any headers."""

    def __init__(
        self,
        path: Path | None,
        key_headers: Callable[[], Iterable[str]] = tuple,
        interval: float = TIMING.credentials_interval,
    ) -> None:
        """Read the credentials file at `path`, and every `interval` seconds if it has changed.

        `key_headers` returns the headers, in lower case, in which agents of the fleet accept keys.

        Raises:
            CredentialsUnreadable: the file can't be read.
        """
        self._path, self._key_headers, self._interval = path, key_headers, interval
        # Salted digests are compared instead of secrets, so timing reveals nothing about them.
        self._salt = secrets.token_bytes(32)
        self._known: KnownCredentials | None = None
        self._by_digest: Mapping[bytes, Caller] = {}
        self._tokens: WebTokens | None = None
        self._schemes: dict[str, Schemes] = {}
        self.everyone: Caller | None = _UNGUARDED if path is None else None
        """The caller of all requests of a gateway without a file; None if it has one."""
        self._watching: asyncio.Task[None] | None = None
        self._seen = self._stamp()
        if path is not None:
            self._use(self._read(path))

    def start(self) -> None:
        """Begin to watch the file for changes."""
        if self._path is not None:
            self._watching = keep_running(partial(self._watch, self._path), "credentials")

    async def stop(self) -> None:
        """Stop watching the file."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)

    @property
    def known(self) -> KnownCredentials | None:
        """The last readable version of the file; None without a file."""
        return self._known

    def of(self, headers: Headers, *, of_any_agent: bool = False) -> Caller:
        """Return the caller that sent these headers, or gRPC metadata.

        With `of_any_agent`, when the agent is not known yet, keys in agents' own headers count too.

        Raises:
            CredentialsMissing: credentials are required, and there are none.
            CredentialsRefused: the credentials are unknown or invalid.
        """
        if self._known is None:
            return _UNGUARDED
        for scheme in (BEARER, KEY):
            if (credential := _credential(headers, scheme)) is not None:
                return self._by(scheme, credential)
        for name in self._key_headers() if of_any_agent else ():
            # An unknown value in such a header may have another purpose.
            if (key := headers.get(name)) and (caller := self._known_by(key.strip())):
                _check_single(headers, name)
                return replace(caller, has_agents_key=True)
        if self._known.required:
            raise CredentialsMissing(
                "credentials are required: a bearer token, X-API-Key or a scheme of the agent's "
                "card"
            )
        return Caller()

    def of_agent(self, card: AgentCard, headers: Headers) -> Caller:
        """Return the caller that sent these headers to an agent with schemes of its own.

        Raises:
            CredentialsMissing: no accepted scheme was used, and one is required or credentials of
                another scheme were sent.
            CredentialsRefused: the credentials are unknown or invalid.
        """
        schemes = self._schemes_of(card)
        if self._known is None and not schemes.are_required:
            return _UNGUARDED
        for name in schemes.accepted:
            scheme = schemes.declared.get(name)
            credential = None if scheme is None else _credential(headers, scheme)
            if scheme is not None and credential is not None and self._known is not None:
                return self._by(scheme, credential)
        if not schemes.are_required and not self.of(headers, of_any_agent=True).identified:
            return Caller()
        nobody = "; this gateway accepts no credentials: HEADRACE_CREDENTIALS is not set"
        raise CredentialsMissing(
            f"agent {card.name!r} requires authentication: {schemes.wanted}"
            f"{nobody if self._known is None else ''}"
        )

    def reader_of(self, headers: Headers) -> Caller:
        """Return the caller that reads public pages: as `of`, or anonymous if the file allows it.

        Raises:
            CredentialsMissing, CredentialsRefused: as `of`.
        """
        if self._known is not None and self._known.public_cards:
            return Caller()
        return self.of(headers, of_any_agent=True)

    def _schemes_of(self, card: AgentCard) -> Schemes:
        """Return the agent's schemes, kept until its card or the credentials file changes."""
        kept = self._schemes.get(card.name)
        if kept is None or kept.card is not card:
            kept = self._schemes[card.name] = schemes_of(card, self._known)
        return kept

    def _by(self, scheme: SecurityScheme, credential: str) -> Caller:
        return self._bearer(credential) if scheme.type == "http" else self._find(credential.strip())

    def _bearer(self, authorization: str) -> Caller:
        scheme, _, token = authorization.strip().partition(" ")
        if scheme.lower() != "bearer" or not (token := token.strip()):
            raise CredentialsRefused("Authorization must be a bearer token")
        if self._tokens is not None and token.count(".") == 2:  # noqa: PLR2004 - of a compact JWS
            return self._tokens.caller(token)
        return self._find(token)

    def _find(self, secret: str) -> Caller:
        caller = self._known_by(secret)
        if caller is None:
            raise CredentialsRefused("unknown credentials")
        return caller

    def _known_by(self, secret: str) -> Caller | None:
        digest = hashlib.sha256(secret.encode(errors="surrogateescape")).digest()
        return self._by_digest.get(self._blind(digest))

    def _blind(self, digest: bytes) -> bytes:
        return hmac.digest(self._salt, digest, "sha256")

    def _read(self, path: Path) -> _KnownCallers:
        """Read the file; in any thread."""
        known = with_discovery(read_file(path), path.parent)
        grants = known.grants()
        tokens = None if known.jwt is None else _web_tokens(known.jwt, path.parent, grants)
        by_digest = {
            self._blind(bytes.fromhex(one.sha256)): _caller(one, grants) for one in known.credential
        }
        return _KnownCallers(known, by_digest, tokens)

    def _use(self, read: _KnownCallers) -> None:
        self._known, self._by_digest, self._tokens = read.known, read.by_digest, read.tokens
        self._schemes.clear()

    async def _watch(self, path: Path) -> None:
        while True:
            await asyncio.sleep(self._interval)
            if (stamp := self._stamp()) == self._seen:
                continue
            self._seen = stamp
            try:
                # In a thread, because a file that first names an issuer imports a large library.
                self._use(await asyncio.to_thread(self._read, path))
            except CredentialsUnreadable as error:
                _log.error("could not reload the credentials; the old ones stay in use: %s", error)
            else:
                _log.info("credentials reloaded: %d", len(self._by_digest))

    def _stamp(self) -> tuple[tuple[int, int, int], ...]:
        """Return a value that changes with the file, and with the files that it names."""
        if self._path is None:
            return ()
        issuer = None if self._known is None else self._known.jwt
        named = [] if issuer is None else _files_of(issuer)
        files = [self._path, *(self._path.parent / file for file in named)]
        return tuple(_stamp_of(file) for file in files)


def _credential(headers: Headers, scheme: SecurityScheme) -> str | None:
    """Return the credentials in the headers under a scheme, or None.

    Raises:
        CredentialsRefused: there are several.
    """
    name = "authorization" if scheme.type == "http" else scheme.name.lower()
    if (credential := headers.get(name)) is not None:
        _check_single(headers, name)
        return credential
    if scheme.type != "http":
        return None
    token = token_of_protocols(headers)
    return None if token is None else f"bearer {token}"


def _check_single(headers: Headers, name: str) -> None:
    """Refuse several credentials in one header: a proxy may have checked another one than this.

    The gateway's own server and gRPC refuse those in `CREDENTIAL_HEADERS` earlier, for all
    requests. Here are those in agents' own headers, and all in another application's server.
    """
    repeated = repeated_credentials([sent for sent, _ in headers.raw], [name.encode()])
    if repeated is not None:
        raise CredentialsRefused(str(repeated))


def _files_of(issuer: TokenIssuer) -> list[Path]:
    sign_in = issuer.sign_in
    document = None if sign_in is None else sign_in.discovery
    return [issuer.keys] if document is None else [issuer.keys, document]


def _stamp_of(file: Path) -> tuple[int, int, int]:
    try:
        found = file.stat()
    except OSError:
        return (0, 0, 0)
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def _caller(one: Credential, grants: Mapping[str, Grant]) -> Caller:
    return Caller(
        encode_token(one.tenant),
        encode_token(one.owner),
        one.priority,
        identified=True,
        grants=None if one.roles is None else grants_of(one.roles, grants),
    )


def _web_tokens(issuer: TokenIssuer, folder: Path, grants: Mapping[str, Grant]) -> "WebTokens":
    # Here, because a gateway without an issuer needs no library for tokens.
    from headrace_gateway.server.auth.web_tokens import WebTokens  # noqa: PLC0415 - see above

    return WebTokens(issuer, folder, grants)
