"""Validation of push notification configs: the address and the headers."""

import re
from ipaddress import IPv6Address
from urllib.parse import urlsplit

from headrace.model.errors import InvalidName
from headrace.model.events import Json
from headrace.model.names import encode_token
from headrace.webhooks import Address, Webhook
from headrace_gateway.refusals import Malformed, Violation

LONGEST_URL = 2048
LONGEST_SECRET = 4096

_URL = re.compile(r"[\x21-\x7e]+")
_NAME = re.compile(r"([A-Za-z0-9_-]{1,63}\.)*[A-Za-z0-9_-]{1,63}\.?")
_LONGEST_NAME = 253
_HEADER = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
_SCHEME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


def read_address(config: Json, path: str = "") -> Address:
    """Return the address in a TaskPushNotificationConfig (canonical ProtoJSON).

    Whether the host may be called is checked when the connection is made.

    Raises:
        Malformed: the address is invalid; `path` is the config's path in its request.
    """
    authentication = config.get("authentication") or {}
    violations = [
        Violation(f"{path}{field}", rule)
        for field, rule in (
            ("url", _fault_of_url(config.get("url", ""))),
            ("token", _fault_of(config.get("token"), _HEADER)),
            ("authentication.scheme", _fault_of(authentication.get("scheme"), _SCHEME)),
            ("authentication.credentials", _fault_of(authentication.get("credentials"), _HEADER)),
            ("id", _fault_of_id(config.get("id"))),
        )
        if rule
    ]
    if violations:
        raise Malformed(violations)
    return Address(
        url=config["url"],
        token=config.get("token"),
        scheme=authentication.get("scheme"),
        credentials=authentication.get("credentials"),
    )


def shown(task: str, webhook: Webhook, *, secrets: bool = False) -> Json:
    """Return the TaskPushNotificationConfig, with or without `secrets`."""
    address = webhook.address
    config: Json = {"id": webhook.id, "taskId": task, "url": address.url}
    authentication = {} if address.scheme is None else {"scheme": address.scheme}
    if secrets:
        config |= {} if address.token is None else {"token": address.token}
        if authentication and address.credentials is not None:
            authentication["credentials"] = address.credentials
    return config | ({"authentication": authentication} if authentication else {})


def _fault_of_url(url: str) -> str:
    if not url:
        return "is required"
    if len(url) > LONGEST_URL or not _URL.fullmatch(url):
        return f"must be printable ASCII, at most {LONGEST_URL} characters (others are %-encoded)"
    try:
        where = urlsplit(url)
        is_called = where.hostname and where.port != 0 and where.scheme in {"http", "https"}
    except ValueError:
        is_called = False
    if not is_called:
        return "must be an https or http URL with a host"
    where = urlsplit(url)
    if not _is_host(where.hostname or "", is_address="[" in where.netloc):
        return "must have a name or an address for a host"
    if "@" in where.netloc or where.fragment:
        return "must hold neither a user nor a fragment; `authentication` is for credentials"
    return ""


def _is_host(host: str, *, is_address: bool) -> bool:
    """Return whether `host` can be resolved: a DNS name, or an address without a zone."""
    if not is_address:
        return len(host) <= _LONGEST_NAME and _NAME.fullmatch(host) is not None
    try:
        return IPv6Address(host).scope_id is None
    except ValueError:
        return False


def _fault_of(text: str | None, pattern: re.Pattern[str]) -> str:
    if text is None or (len(text) <= LONGEST_SECRET and pattern.fullmatch(text)):
        return ""
    return f"must fit a header: printable ASCII, at most {LONGEST_SECRET} characters"


def _fault_of_id(name: str | None) -> str:
    try:
        encode_token(name or "-")
    except InvalidName as invalid:
        return invalid.rule
    return ""
