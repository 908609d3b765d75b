"""As much of a gateway as accepts submissions."""

import time
from typing import cast

from headrace.directory import Directory
from headrace.jetstream.connection import Bus
from headrace.log import TailRule
from headrace.state_client import StateClient
from headrace.tasks.admission import Admission, RunLimits
from headrace_gateway.background_work import BackgroundWork
from headrace_gateway.feeds import Feeds
from headrace_gateway.settings import GatewaySettings
from headrace_gateway.tasks.idempotency import Idempotency, IdempotencyRecords
from headrace_gateway.tasks.settlement import Settlement
from headrace_gateway.tasks.submission import RunAppends, Submissions


class SubmittingGateway:
    """Accepts submissions on a bus."""

    def __init__(self, bus: Bus, timeout: float, finds: object = None) -> None:
        """Settle what has no outcome after `timeout` seconds.

        `finds` stands for task state and for the directory of agents.
        """
        self.bus, self.rule, self.background = bus, TailRule(bus), BackgroundWork()
        self.settlement = Settlement(bus, self.background, timeout)
        settings = GatewaySettings.model_validate(bus.settings.model_dump())
        feeds = Feeds(bus, self.rule, 1024 * 1024, self.background)
        limits = RunLimits(Admission(bus, settings))
        self.appends = RunAppends(bus, feeds.links, limits, self.settlement)
        self.submissions = Submissions(
            bus,
            feeds,
            cast("StateClient", finds),
            cast("Directory", finds),
            appends=self.appends,
            idempotency=Idempotency(bus, IdempotencyRecords(bus, 60, time.time)),
            background=self.background,
        )
