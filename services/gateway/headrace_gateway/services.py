"""The services of a gateway, which are passed to its routes."""

from dataclasses import dataclass

from headrace.directory import Directory
from headrace.jetstream.connection import Bus
from headrace.links import Links
from headrace.schedules import Schedules
from headrace.signing import SigningKeys
from headrace.state_client import StateClient
from headrace.webhooks import Webhooks
from headrace_gateway.background_work import BackgroundWork
from headrace_gateway.feeds import Feeds
from headrace_gateway.fleet_sample import FleetSampler
from headrace_gateway.server.auth.access import Access
from headrace_gateway.server.auth.authenticate import Callers
from headrace_gateway.server.auth.signed_urls import SignedUrls
from headrace_gateway.server.body import BodyLimits
from headrace_gateway.server.open_requests import OpenRequests
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.signed_cards import SignedCards
from headrace_gateway.streaming.open_streams import OpenStreams, StreamLimits
from headrace_gateway.streaming.subscription import Subscriptions
from headrace_gateway.tasks.cancel import TaskCanceler
from headrace_gateway.tasks.delete import TaskDeleter
from headrace_gateway.tasks.fork import TaskForker
from headrace_gateway.tasks.stream_health import FullStreams, StreamHealth
from headrace_gateway.tasks.submission import Submissions
from headrace_gateway.tasks.subscribe import TaskStreams
from headrace_gateway.timing import GatewayTiming


@dataclass(frozen=True, slots=True)
class Services:
    """The parts of one gateway, composed in `composition`."""

    settings: GatewaySettings
    timing: GatewayTiming
    bus: Bus
    directory: Directory
    callers: Callers
    """Identifies callers by their credentials."""
    state: StateClient
    feeds: Feeds
    links: Links
    """Converts links of files to addresses for the current request's client."""
    full_streams: FullStreams
    """Knows which event streams are full."""
    stream_health: StreamHealth
    """Knows which event streams do not store this gateway's appends."""
    requests: OpenRequests
    """Requests in progress, which are answered before the gateway closes its connections."""
    streams: OpenStreams
    """Open streams and waiting requests, which are closed when the gateway stops."""
    stream_limits: StreamLimits
    """Limits open streams."""
    watch_limits: StreamLimits
    """Limits watched lists, which count as streams, too."""
    body_limits: BodyLimits
    """Limits request bodies, and the bytes of all that are held."""
    subscriptions: Subscriptions
    task_streams: TaskStreams
    webhooks: Webhooks
    schedules: Schedules
    signing: SigningKeys
    cards: SignedCards
    signed_urls: SignedUrls
    submissions: Submissions
    canceler: TaskCanceler
    deleter: TaskDeleter
    forker: TaskForker
    background: BackgroundWork
    """Work that continues when its client disconnects."""
    access: Access
    """Permissions and rate limits."""
    fleet_sampler: FleetSampler
    """Reads the fleet's state, once for the API and for metrics."""

    @property
    def default_agent(self) -> str:
        """The agent at the root: the one in the settings.

        If unset and only one agent is registered, that agent is used.
        """
        name, cards = self.settings.default_agent, self.directory.cards()
        is_set = "default_agent" in self.settings.model_fields_set
        if is_set or len(cards) != 1:
            return name
        return cards[0].name
