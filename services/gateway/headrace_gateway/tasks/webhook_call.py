"""Calls of the webhooks that runs wait for: who may call, and what is recorded."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from headrace.jetstream.connection import Bus
from headrace.model.errors import HeadraceError
from headrace.model.task import is_task_id
from headrace.model.wait import SourceEvent, WebhookAddress, arrived
from headrace.tasks.end import owner_of
from headrace.tasks.wake import NotWaiting, OpenRun, record_event
from headrace_gateway.tasks.webhook_secrets import WebhookSecrets

MOST_BYTES = 256 * 1024
"""Maximum size of a call's body."""

_WITHHELD = frozenset(
    {
        *("accept-encoding", "authorization", "connection", "content-length", "content-type"),
        *("cookie", "expect", "forwarded", "host", "keep-alive", "te", "trailer"),
        *("transfer-encoding", "upgrade", "via", "x-api-key"),
        # Clients' addresses, by proxies: nginx, Apache, Cloudflare, Akamai, Fly, Google, Envoy.
        *("cf-connecting-ip", "cf-connecting-ipv6", "fastly-client-ip", "fly-client-ip"),
        *("true-client-ip", "x-appengine-user-ip", "x-client-ip", "x-cluster-client-ip"),
        *("x-envoy-external-address", "x-original-forwarded-for", "x-real-ip"),
    }
)
_WITHHELD_PREFIXES = "proxy-", "x-forwarded-"
"""Headers with credentials or addresses, and those of the connection."""


class AlreadyAnswered(HeadraceError):
    """The webhook has been called: the first call counts."""

    code = "already_answered"


def passed_on(headers: Mapping[str, str], keys: AbstractSet[str]) -> dict[str, str]:
    """Return those of a call's headers that the agent gets; names are in lower case.

    `keys` are headers in which the agent accepts API keys of its own clients.
    """
    return {
        name: value
        for name, value in headers.items()
        if name not in _WITHHELD | keys and not name.startswith(_WITHHELD_PREFIXES)
    }


@dataclass(frozen=True, slots=True)
class WebhookCall:
    """A call by somebody who has the webhook's URL."""

    address: WebhookAddress
    run: OpenRun
    owner: str
    """Of the task, as a subject token."""

    @classmethod
    async def of(cls, bus: Bus, secrets: WebhookSecrets, token: str) -> "WebhookCall":
        """Return the call of the URL that ends with `token`, which one of the `secrets` signs.

        Raises:
            NotWaiting: No open run has made the URL.
            BusUnavailable: The log does not answer.
        """
        address = WebhookAddress.read(token)
        if address is None or not is_task_id(address.key.task):
            raise _unknown()
        secret = await secrets.of(address.key, address.run)
        if secret is None or not address.is_signed(token, secret):
            raise _unknown()
        try:
            run = await OpenRun.read(bus, address.key, address.run)
        except NotWaiting:
            raise _unknown() from None
        return cls(address, run, await owner_of(bus, address.key) or "")

    def check(self) -> None:
        """Check that nobody has called before.

        Raises:
            AlreadyAnswered: Somebody has.
        """
        if arrived(self.address.source) in self.run.records:
            raise AlreadyAnswered("this webhook has been called before, and its first call counts")

    async def record(self, event: SourceEvent) -> None:
        """Record what was sent, and wake the run.

        Raises:
            AlreadyAnswered: Another call came first.
            NotWaiting: The run has ended meanwhile.
            LogFull, EventTooLarge, BusUnavailable, OutcomeUnknown: It is not recorded, or not for
                certain; another call finds out.
        """
        if not await record_event(self.run, self.owner, self.address.source, event):
            self.check()


def _unknown() -> NotWaiting:
    return NotWaiting("no task waits for this: the URL is wrong, or its run has ended")
