"""Where Redis is, and what a connection to it proves itself with."""

from pathlib import Path
from typing import Annotated, Self
from urllib.parse import SplitResult, urlsplit

from pydantic import field_validator, model_validator

from headrace.secret_settings import SecretSettings, SecretStr
from headrace.setting_groups import LOGIN, MUST_SET
from headrace.settings import comma_separated, without_credentials

type Login = tuple[str, str] | tuple[str] | None
"""User and password, the password of the user `default`, or none."""

_SCHEMES = ("redis", "rediss", "unix")


class RedisSettings(SecretSettings):
    """One server, or those that Sentinel names."""

    redis_url: Annotated[str, MUST_SET] = "redis://127.0.0.1:6379/0"
    """URL of Redis 7 or later, or Valkey (``redis://``, ``rediss://`` for TLS, ``unix://``). One
    server, not a cluster. It must have `maxmemory-policy noeviction`: evicted keys would make the
    view silently wrong. With Sentinel, only the scheme and the database number are used."""

    redis_user: Annotated[SecretStr, LOGIN] = SecretStr("")
    """ACL user name. Requires HEADRACE_REDIS_PASSWORD. Default: the user `default`."""

    redis_user_file: Annotated[Path | None, LOGIN] = None
    """File that contains the Redis user name."""

    redis_password: Annotated[SecretStr, MUST_SET] = SecretStr("")
    """Redis password. Any characters are allowed."""

    redis_password_file: Annotated[Path | None, MUST_SET] = None
    """File that contains the Redis password."""

    redis_ca: Annotated[SecretStr, LOGIN] = SecretStr("")
    """CA certificates (PEM) that verify Redis and Sentinel. Default: the system's CAs."""

    redis_ca_file: Annotated[Path | None, LOGIN] = None
    """File that contains the CA certificates."""

    redis_cert: Annotated[SecretStr, LOGIN] = SecretStr("")
    """Client certificate (PEM) for Redis. Requires HEADRACE_REDIS_KEY."""

    redis_cert_file: Annotated[Path | None, LOGIN] = None
    """File that contains the client certificate."""

    redis_key: Annotated[SecretStr, LOGIN] = SecretStr("")
    """Private key (PEM) of the client certificate."""

    redis_key_file: Annotated[Path | None, LOGIN] = None
    """File that contains the private key."""

    redis_sentinels: Annotated[str, LOGIN] = ""
    """Comma-separated Sentinel URLs (`redis://host:26379`, `rediss://` for TLS)."""

    redis_master: Annotated[str, LOGIN] = ""
    """Name of the master that Sentinel monitors."""

    redis_sentinel_user: Annotated[SecretStr, LOGIN] = SecretStr("")
    """ACL user name for Sentinel."""

    redis_sentinel_user_file: Annotated[Path | None, LOGIN] = None
    """File that contains the Sentinel user name."""

    redis_sentinel_password: Annotated[SecretStr, LOGIN] = SecretStr("")
    """Password for Sentinel."""

    redis_sentinel_password_file: Annotated[Path | None, LOGIN] = None
    """File that contains the Sentinel password."""

    @field_validator("redis_url", "redis_sentinels")
    @classmethod
    def _are_urls(cls, value: str) -> str:
        # What does not parse may hold a part of a password, so that no message shows it.
        for url in comma_separated(value):
            parts = _parts(url)
            if parts.scheme not in _SCHEMES or parts.fragment:
                raise ValueError(_NO_URL)
        return value

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if _has_login(self.redis_url) and (self.has("redis_user") or self.has("redis_password")):
            raise ValueError(
                "HEADRACE_REDIS_PASSWORD and credentials in HEADRACE_REDIS_URL are set; set one"
            )
        if any(map(_has_login, self.sentinel_urls)):
            raise ValueError(
                "credentials in HEADRACE_REDIS_SENTINELS; set HEADRACE_REDIS_SENTINEL_PASSWORD"
            )
        if bool(self.redis_sentinels) != bool(self.redis_master):
            raise ValueError(
                "HEADRACE_REDIS_SENTINELS and HEADRACE_REDIS_MASTER must be set together"
            )
        for one, other in (
            ("redis_user", "redis_password"),
            ("redis_sentinel_user", "redis_sentinel_password"),
            ("redis_cert", "redis_key"),
            ("redis_key", "redis_cert"),
        ):
            self._require_pair(one, other)
        schemes = {_parts(url).scheme for url in [self.redis_url, *self.sentinel_urls]}
        if (self.has("redis_ca") or self.has("redis_cert")) and "rediss" not in schemes:
            raise ValueError(
                "HEADRACE_REDIS_CA or _CERT is set, but no Redis URL begins with rediss://"
            )
        return self

    @property
    def sentinel_urls(self) -> list[str]:
        """`redis_sentinels`, split."""
        return comma_separated(self.redis_sentinels)

    @property
    def shown(self) -> str:
        """Where it is, as a log may show it."""
        if self.redis_sentinels:
            return f"{self.redis_master} (by the sentinels {self.redis_sentinels})"
        return without_credentials(self.redis_url.partition("?")[0])

    def redis_login(self) -> Login:
        """Return the login for the server, unless the URL contains it.

        Raises:
            SecretUnreadable: a file can't be read.
        """
        return self._login("redis")

    def sentinel_login(self) -> Login:
        """Return what to log in to a sentinel with.

        Raises:
            SecretUnreadable: a file can't be read.
        """
        return self._login("redis_sentinel")

    def _login(self, server: str) -> Login:
        if not self.has(f"{server}_password"):
            return None
        password = self.secret(f"{server}_password")
        user = self.secret(f"{server}_user")
        return (user, password) if user else (password,)


_NO_URL = (
    "not a URL of the form redis://host:6379/0; a password with special characters belongs in "
    "HEADRACE_REDIS_PASSWORD or HEADRACE_REDIS_PASSWORD_FILE"
)


def _parts(url: str) -> SplitResult:
    """Return the parts of a URL.

    Raises:
        ValueError: it is none.
    """
    try:
        parts = urlsplit(url)
        if parts.port is not None or parts.hostname or parts.scheme == "unix":
            return parts
    except ValueError:
        pass
    raise ValueError(_NO_URL)


def _has_login(url: str) -> bool:
    parts = _parts(url)
    return bool(parts.username or parts.password)
