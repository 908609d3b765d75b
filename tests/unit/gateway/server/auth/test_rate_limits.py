"""Request rates, in one gateway and over several."""

from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from headrace.environment import variable
from headrace.metrics import QUOTA_WARNINGS
from headrace.model.messages import RequestsTaken
from headrace.secret_settings import setting_errors
from headrace.tasks.quotas import QuotaWarning
from headrace_gateway.refusals import RateLimited
from headrace_gateway.server.auth import access
from headrace_gateway.server.auth.access import RateBucket, RateLimits
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.settings import GatewaySettings
from tests.support.fake_bus import FakeBus
from tests.support.waiting import eventually

ANN, BOB = Caller("acme", "ann"), Caller("acme", "bob")
EVE = Caller("other", "ann")


def limits(
    owner: int = -1, tenant: int = -1, agent: int = -1, bus: FakeBus | None = None
) -> RateLimits:
    settings = GatewaySettings(
        owner_requests_per_minute=owner,
        tenant_requests_per_minute=tenant,
        agent_requests_per_minute=agent,
    )
    return RateLimits(bus or FakeBus(), settings, interval=3600.0)


def taken(rates: RateLimits, caller: Caller, agent: str = "", most: int = 100) -> int:
    for count in range(most):
        try:
            rates.count(caller, agent)
        except RateLimited:
            return count
    return most


RATES = pytest.mark.parametrize(
    "rate", [f"{whose}_requests_per_minute" for whose in ("owner", "tenant", "agent")]
)


@RATES
@pytest.mark.parametrize("value", ["0", "-2"])
def test_a_rate_of_zero_or_below_minus_one_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, rate: str, value: str
) -> None:
    monkeypatch.setenv(variable(rate), value)
    with pytest.raises(ValidationError) as refused:
        GatewaySettings()
    assert setting_errors(refused.value) == [
        f"{variable(rate)}: must be -1 (unlimited) or at least 1"
    ]


@RATES
@pytest.mark.parametrize(("value", "requests"), [("-1", 100), ("1", 1)])
def test_the_lowest_rates_are_unlimited_and_one(
    monkeypatch: pytest.MonkeyPatch, rate: str, value: str, requests: int
) -> None:
    monkeypatch.setenv(variable(rate), value)
    assert taken(RateLimits(FakeBus(), GatewaySettings()), ANN, "shop") == requests


def test_a_limit_that_is_near_is_warned_of_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    near = list[QuotaWarning]()
    settings = GatewaySettings(owner_requests_per_minute=10, agent_requests_per_minute=100)
    rates = RateLimits(FakeBus(), settings, interval=3600.0, warn=near.append)
    before = QUOTA_WARNINGS.labels("requests-owner")._value.get()
    assert taken(rates, ANN, "shop") == 10
    assert [(one.quota, one.what, one.used, one.limit, one.period) for one in near] == [
        ("requests-owner", "requests", used, 10, "minute") for used in (8, 9)
    ]
    assert QUOTA_WARNINGS.labels("requests-owner")._value.get() == before + 2
    assert caplog.messages == ["limit requests-owner: 8 of 10 requests per minute used by acme.ann"]


def test_what_all_tenants_send_to_an_agent_is_logged_but_in_no_response(
    caplog: pytest.LogCaptureFixture,
) -> None:
    near = list[QuotaWarning]()
    settings = GatewaySettings(agent_requests_per_minute=5)
    rates = RateLimits(FakeBus(), settings, interval=3600.0, warn=near.append)
    before = QUOTA_WARNINGS.labels("requests-agent")._value.get()
    assert [taken(rates, ANN, "shop", 3), taken(rates, EVE, "shop")] == [3, 2]
    assert near == []
    assert QUOTA_WARNINGS.labels("requests-agent")._value.get() == before + 1
    assert caplog.messages == ["limit requests-agent: 4 of 5 requests per minute used by shop"]


async def test_a_warning_is_forgotten_with_its_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(access, "time", SimpleNamespace(monotonic=lambda: now))
    settings = GatewaySettings(owner_requests_per_minute=5, agent_requests_per_minute=5)
    rates = RateLimits(FakeBus(), settings, interval=0.001)
    assert taken(rates, ANN, "shop") == 5
    assert len(rates._warnings.near) == 2

    async def are_forgotten() -> bool:
        return not rates._buckets and not rates._warnings.near

    await rates.start()
    try:
        now += 61.0
        await eventually(are_forgotten, "nothing is kept of the owner and the agent")
    finally:
        await rates.stop()


def test_without_limits_nobody_is_refused() -> None:
    assert taken(limits(), ANN) == 100


def test_each_owner_has_a_minutes_worth_of_its_own() -> None:
    rates = limits(owner=5)
    assert [taken(rates, caller) for caller in (ANN, BOB, EVE, ANN)] == [5, 5, 5, 0]


def test_a_tenants_owners_share_its_limit() -> None:
    rates = limits(owner=5, tenant=8)
    assert [taken(rates, caller) for caller in (ANN, BOB, EVE)] == [5, 3, 5]


def test_an_agents_clients_share_its_limit_and_others_agents_have_their_own() -> None:
    rates = limits(owner=5, agent=8)
    assert [taken(rates, caller, "shop") for caller in (ANN, EVE, BOB)] == [5, 3, 0]
    assert [taken(rates, BOB, "faq"), taken(rates, EVE)] == [5, 2]
    with pytest.raises(RateLimited, match=r"all clients together may send 8 .* to agent shop"):
        rates.count(Caller("acme", "eli"), "shop")


def test_what_is_refused_is_not_counted() -> None:
    rates = limits(owner=5, tenant=8)
    assert taken(rates, ANN) == 5
    for _ in range(20):
        with pytest.raises(RateLimited):
            rates.count(ANN)
    assert taken(rates, BOB) == 3


def test_a_check_refuses_what_a_request_would_be_refused_for_and_counts_nothing() -> None:
    rates = limits(owner=2, agent=3)
    for _ in range(10):
        rates.check(ANN, "shop")
    assert rates._buckets == {}  # Nor does a name that a client chose.
    assert taken(rates, ANN, "shop") == 2
    with pytest.raises(RateLimited, match="you may send 2"):
        rates.check(ANN)
    rates.count(BOB, "shop")
    with pytest.raises(RateLimited, match="to agent shop"):
        rates.check(BOB, "shop")
    rates.check(BOB)
    rates.check(BOB, "faq")


def test_time_brings_requests_back_but_no_more_than_a_minutes_worth() -> None:
    bucket = RateBucket(per_minute=60, left=0.0, at=100.0)
    assert bucket.wait() == pytest.approx(1.0)
    bucket.fill(101.5)
    assert bucket.left == pytest.approx(1.5)
    assert bucket.wait() == 0
    bucket.fill(1000.0)
    assert bucket.left == 60


def test_what_others_took_can_be_owed_for_a_minute_at_most() -> None:
    bucket = RateBucket(per_minute=60, left=0.0, at=100.0)
    bucket.spend(1_000_000, 100.0)
    assert bucket.wait() == pytest.approx(61.0)


async def test_gateways_count_together() -> None:
    bus = FakeBus()
    rates = limits(owner=5, agent=4, bus=bus)
    await rates.start()
    try:
        other = RequestsTaken(gateway="other", taken={"acme.ann": 3, "acme": 3, ":shop": 3})
        await bus.deliver(bus.subjects.rates(), other.encode())
        for noise in (b"", b"{}", b'{"gateway":"x","taken":{"acme.ann":"y"}}'):
            await bus.deliver(bus.subjects.rates(), noise)
        assert taken(rates, ANN) == 2
        assert taken(rates, BOB, "shop") == 1
        assert taken(rates, BOB) == 4
    finally:
        await rates.stop()
