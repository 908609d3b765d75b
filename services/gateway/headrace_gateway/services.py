"""What a gateway is made of, as its routes are handed it."""

from dataclasses import dataclass

from headrace.directory import Directory
from headrace.jetstream.connection import Bus
from headrace.jetstream.health_probe import HealthProbe
from headrace.signing import SigningKeys
from headrace.state_client import StateClient
from headrace.webhooks import Webhooks
from headrace_gateway.detached import Detached
from headrace_gateway.feeds import Feeds
from headrace_gateway.server.auth.access import Access
from headrace_gateway.server.auth.authenticate import Callers
from headrace_gateway.server.body import BodyLimits
from headrace_gateway.server.held_bodies import HeldBodies
from headrace_gateway.server.open_requests import OpenRequests
from headrace_gateway.server.stream_limits import StreamLimits
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.signed_cards import SignedCards
from headrace_gateway.streaming.open_streams import OpenStreams
from headrace_gateway.streaming.subscription import Subscriptions
from headrace_gateway.tasks.cancel import Cancelling
from headrace_gateway.tasks.delete import Deleting
from headrace_gateway.tasks.full_streams import FullStreams
from headrace_gateway.tasks.idempotency import Idempotency
from headrace_gateway.tasks.settle import Settling
from headrace_gateway.tasks.submit import Submissions
from headrace_gateway.tasks.subscribe import TaskStreams


@dataclass(frozen=True, slots=True)
class Services:
    """The parts of one gateway, composed in `main`."""

    settings: GatewaySettings
    bus: Bus
    health_probe: HealthProbe
    """Whether NATS answers."""
    directory: Directory
    callers: Callers
    """Who asks, by their credentials."""
    state: StateClient
    feeds: Feeds
    full_streams: FullStreams
    """Which logs take nothing more."""
    requests: OpenRequests
    """Every request that is being carried out, to be answered before the gateway hangs up."""
    streams: OpenStreams
    """Every open answer, to be closed when the gateway stops."""
    stream_limits: StreamLimits
    """How many streams may be open."""
    held_bodies: HeldBodies
    """How many bytes of requests are held."""
    subscriptions: Subscriptions
    task_streams: TaskStreams
    webhooks: Webhooks
    signing: SigningKeys
    cards: SignedCards
    submissions: Submissions
    idempotency: Idempotency
    cancelling: Cancelling
    deleting: Deleting
    detached: Detached
    """What goes on when the client who asked for it leaves."""
    settling: Settling
    """Inputs of which it is not known whether they are stored."""
    access: Access
    """Who may do what, and how often."""

    @property
    def body_limits(self) -> BodyLimits:
        """How large bodies may be: JSON may escape what a log stores in fewer bytes."""
        largest = self.settings.max_body_bytes
        return BodyLimits(largest, 2 * self.bus.max_payload, self.held_bodies)

    @property
    def default_agent(self) -> str:
        """The agent that answers at the root: the one of the settings.

        Where they name none, and nobody has the usual name, it is the only agent that there is.
        """
        name, cards = self.settings.default_agent, self.directory.cards()
        is_set = "default_agent" in self.settings.model_fields_set
        if is_set or len(cards) != 1:
            return name
        return cards[0].name
