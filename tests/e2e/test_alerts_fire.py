"""The alert rules on a real fleet in trouble, which a real Prometheus scrapes.

How long a condition must hold, and the windows of rates, are shorter here than in the rules, and so
is the wait of a run; NATS need be lost a quarter as often. Everything else is as in the rules.
"""

import asyncio
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import httpx
import nats as nats_client
import pytest
import redis
import yaml

from tests.support.clients.bindings import message
from tests.support.cluster import NatsCluster
from tests.support.compose_file import ROOT
from tests.support.extra_services import is_served
from tests.support.plain_http import NO_TLS
from tests.support.prometheus import needs_prometheus
from tests.support.scraped_fleet import ScrapedFleet
from tests.support.servers import NatsProcess, ValkeyProcess, ports
from tests.support.service_process import ServiceProcess
from tests.support.waiting import until

pytestmark = [needs_prometheus, pytest.mark.soak, pytest.mark.timeout(900)]

RULES = ROOT / "deploy" / "alerts.yml"
ELSEWHERE = {
    "NatsReplicaMissing",  # test_a_lost_replica_fires
    "TaskStateBehind",  # test_a_busy_redis_fires
}
RUNS = 12
TALKING = 24
"""Runs whose appends stay unanswered. Each counts one in 20 s: 10 s until the append is given up,
and as many until the search for it is. The alert fires above one a second in 15 s."""
AT_MOST_WAITING = 20
BACKLOG = 6_000_000
"""Bytes of messages that wait while task state is away: about 16,000, so 16 batches."""
BUSY = """
local ended = os.clock() + 0.3
while os.clock() < ended do end
"""
"""A script of 0.3 s of processor time. Leases, which must be renewed meanwhile, last for 3 s."""
DEFECT = """
from headrace_gateway.protocols.a2a import operations

operations.task_key = lambda *_, **__: {}["missing"]
"""
TIMEOUT = 120.0
VERSION = {"A2A-Version": "1.0"}


def scaled(rules: str) -> str:
    """Return the rules with shorter durations. Windows of `increase` stay: they count.

    Each loss of NATS that is counted takes all services a second of processor time.
    """
    rules = re.sub(r"for: \d+m", "for: 1s", rules)
    rules = re.sub(r"(rate\([^\[]+)\[\d+m\]", r"\1[15s]", rules)
    rules = re.sub(r"(headrace_nats_disturbances_total\[10m\]\)\)) > 20", r"\1 > 5", rules)
    return re.sub(r"(headrace_oldest_run_seconds\)) > 300", r"\1 > 3", rules)


class Trouble:
    """A fleet, and what makes its alerts fire."""

    def __init__(self, fleet: ScrapedFleet, http: httpx.Client, folder: Path) -> None:
        self.fleet, self.http, self.folder = fleet, http, folder

    def fires(self, *alerts: str) -> None:
        """Return once Prometheus has seen all of these fire."""
        until(lambda: set(alerts) <= self.fired(), f"{alerts} fire", TIMEOUT)

    def fired(self) -> set[str]:
        """Return the names of the alerts that have fired."""
        found = self.fleet.prometheus.query('max_over_time(ALERTS{alertstate="firing"}[1h])')
        return {one["metric"]["alertname"].removeprefix("Headrace") for one in found}

    def gate(self, name: str) -> Path:
        """Return a file that agents wait for."""
        return self.folder / name

    def submit(self, agent: str, text: str, **configuration: object) -> int:
        """Begin a task, wait for no result, and return the status of the answer."""
        body = message(text) | {"configuration": {"returnImmediately": True, **configuration}}
        return self.http.post(f"/v1/agents/{agent}/message:send", json=body).status_code

    def submit_all(self, agent: str, gate: Path, count: int = RUNS) -> None:
        """Begin tasks that end when the gate is opened."""
        for _ in range(count):
            until(lambda: self.submit(agent, str(gate)) == 200, "a task begins", TIMEOUT)

    def working(self, agent: str) -> float:
        """Return how many runs of an agent the worker has at work."""
        found = self.fleet.prometheus.query(f'headrace_runs_working{{agent="{agent}"}}')
        return sum(float(one["value"][1]) for one in found)

    def is_served(self) -> bool:
        """Tell whether the gateway knows the worker."""
        return is_served([self.fleet.url], "waiting")


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    file = tmp_path / "alerts.yml"
    file.write_text(scaled(RULES.read_text()))
    return file


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[NatsProcess, ValkeyProcess]]:
    with NatsProcess(tmp_path / "nats") as nats, ValkeyProcess(tmp_path / "valkey") as valkey:
        yield nats, valkey


def test_rules_fire(
    tmp_path: Path, rules: Path, servers: tuple[NatsProcess, ValkeyProcess]
) -> None:
    nats, valkey = servers
    fleet = ScrapedFleet(
        tmp_path,
        nats.url,
        valkey.url,
        "tests.support.troubled_agents:agents",
        rules,
        events_max_bytes="8000000",
        max_waiting_per_agent=str(AT_MOST_WAITING),
        push_allow="127.0.0.1",
        push_attempts="5",
        push_backoff="0.1",
    )
    build_in(DEFECT, fleet.gateway, tmp_path / "defective")
    with (
        fleet,
        httpx.Client(base_url=fleet.url, headers=VERSION, verify=NO_TLS, timeout=60) as http,
    ):
        error = Trouble(fleet, http, tmp_path)
        until(error.is_served, "the agents are served")
        a_request_meets_a_defect(error)
        runs_and_webhooks_fail(error)
        asyncio.run(dead_letters_have_no_room(error, nats.url))
        a_trigger_has_no_stream(error)
        a_loop_is_blocked(error)
        a_worker_dies(error)
        an_agent_is_without_worker(error)
        redis_fills_and_goes(error, valkey)
        nats_freezes_and_restarts(error, nats)
        a_stream_fills(error)
        fleet.task_state.stop()
        error.fires("NoTaskState")
        fleet.gateway.stop()
        error.fires("NoGateway")
        fired = error.fired()
    groups = yaml.safe_load(RULES.read_text())["groups"]
    names = {one["alert"].removeprefix("Headrace") for group in groups for one in group["rules"]}
    assert names - fired == ELSEWHERE


def build_in(code: str, service: ServiceProcess, folder: Path) -> None:
    """Have the service's interpreter run `code` when it starts."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(code)
    service.anew = True
    service.environment = {**(service.environment or {}), "PYTHONPATH": str(folder)}


def a_request_meets_a_defect(error: Trouble) -> None:
    assert error.http.get("/v1/agents/failing/tasks/any").status_code == 500
    error.fires("GatewayErrors")


def runs_and_webhooks_fail(error: Trouble) -> None:
    for _ in range(2):
        begin_with_webhook(error)
    error.fires("RunsFail", "WebhooksFail", "DeadLetters")


def begin_with_webhook(error: Trouble) -> None:
    """Begin a task whose notifications become dead letters."""
    hook = {"id": "one", "url": f"http://127.0.0.1:{ports.pick()}/"}
    assert error.submit("failing", "hello", taskPushNotificationConfig=hook) == 200


async def dead_letters_have_no_room(error: Trouble, url: str) -> None:
    connection = await nats_client.connect(url)
    js = connection.jetstream()
    [dead] = [one for one in await js.streams_info() if str(one.config.name).endswith("DEAD")]
    await js.add_stream(name="ORDERS", subjects=["orders.>"])
    make_trigger(error, "orders", stream="ORDERS", text="order {body.id}")
    # Not by bytes, of which another alert reports that they are used up.
    await js.update_stream(replace(dead.config, max_msgs=dead.state.messages))
    try:
        await asyncio.to_thread(begin_with_webhook, error)
        await js.publish("orders.new", b"{}")
        await asyncio.to_thread(error.fires, "DeadLettersDropped", "EventsDropped")
    finally:
        await js.update_stream(dead.config)
        await connection.close()


def make_trigger(error: Trouble, name: str, **spec: str) -> None:
    usual = {"agent": "failing", "subject": "orders.*"}
    assert error.http.put(f"/v1/triggers/{name}", json=usual | spec).status_code == 201


def a_trigger_has_no_stream(error: Trouble) -> None:
    make_trigger(error, "missing", stream="MISSING")
    error.fires("TriggersFailing")
    assert error.http.delete("/v1/triggers/missing").status_code == 200


def a_loop_is_blocked(error: Trouble) -> None:
    assert error.submit("stalling", "4") == 200
    error.fires("LoopBlocked")


def a_worker_dies(error: Trouble) -> None:
    gate = error.gate("dies")
    error.submit_all("waiting", gate)
    until(lambda: error.working("waiting") == RUNS, "all are at work", TIMEOUT)
    error.fleet.worker.restart()
    error.fires("WorkersDie")
    gate.touch()
    until(lambda: error.working("waiting") == 0, "all have ended", TIMEOUT)


def an_agent_is_without_worker(error: Trouble) -> None:
    gate = error.gate("without")
    gate.touch()
    error.fleet.worker.stop()
    until(lambda: error.submit("waiting", str(gate)) == 429, "a task is refused", TIMEOUT)
    error.fires("AgentWithoutWorker", "RunsWaitLong", "RunsRefused")
    error.fleet.worker.start()
    until(error.is_served, "the agents are served again")


def redis_fills_and_goes(error: Trouble, valkey: ValkeyProcess) -> None:
    with redis.Redis.from_url(valkey.url) as client:
        used = client.info("memory")["used_memory"]
        client.config_set("maxmemory", int(used * 1.1))
        error.fires("RedisFills")
        client.config_set("maxmemory", 0)
    valkey.kill()
    # The range is given up when it has something to write.
    until(lambda: error.submit("failing", "hello") == 200, "a task begins", TIMEOUT)
    error.fires("RedisDown", "RangeWithoutTaskState")
    valkey.start()


def nats_freezes_and_restarts(error: Trouble, nats: NatsProcess) -> None:
    gate = error.gate("talking")
    error.submit_all("talking", gate, TALKING)
    until(lambda: error.working("talking") == TALKING, "all are at work", TIMEOUT)
    nats.freeze()
    error.fires("GatewayWithoutNats", "AppendsUnanswered")
    nats.thaw()
    while "NatsUnstable" not in error.fired():
        until(error.is_served, "the fleet is back", TIMEOUT)
        nats.restart()
    gate.touch()
    until(error.is_served, "the fleet is back", TIMEOUT)


def a_stream_fills(error: Trouble) -> None:
    text = "x" * 100_000

    def is_nearly_full() -> bool:
        error.submit("failing", text)
        return bool(error.fleet.prometheus.query("headrace_stream_bytes > 7e6"))

    until(is_nearly_full, "the stream is nearly full", TIMEOUT)
    error.fires("StreamFills")
    until(lambda: error.submit("failing", text) == 503, "a task is refused", TIMEOUT)
    error.fires("LogsFull")


@pytest.mark.skipif("HEADRACE_SOAK" not in os.environ, reason="takes a minute: make soak")
def test_a_busy_redis_fires(
    tmp_path: Path, rules: Path, servers: tuple[NatsProcess, ValkeyProcess]
) -> None:
    nats, valkey = servers
    fleet = ScrapedFleet(
        tmp_path, nats.url, valkey.url, "tests.support.troubled_agents:agents", rules
    )
    with fleet, httpx.Client(base_url=fleet.url, headers=VERSION, verify=NO_TLS) as http:
        error = Trouble(fleet, http, tmp_path)
        until(error.is_served, "the agents are served")
        gate = error.gate("talking")
        error.submit_all("talking", gate, 2 * RUNS)
        until(lambda: error.working("talking") == 2 * RUNS, "all are at work", TIMEOUT)
        fleet.task_state.stop()
        query = f'headrace_stream_bytes{{stream=~".*EVENTS"}} > {BACKLOG}'
        until(lambda: fleet.prometheus.query(query), "a backlog is there", TIMEOUT)
        with kept_busy(valkey):
            fleet.task_state.start()
            error.fires("TaskStateBehind")
        gate.touch()
        until(lambda: fleet.prometheus.query("headrace_lag == 0"), "it has caught up", TIMEOUT)


@contextmanager
def kept_busy(valkey: ValkeyProcess) -> Iterator[None]:
    """Have the server work on other requests for most of the block."""
    ended = Event()

    def keep_busy() -> None:
        with redis.Redis.from_url(valkey.url, socket_timeout=TIMEOUT) as client:
            while not ended.wait(0.01):
                client.eval(BUSY, 0)

    working = Thread(target=keep_busy)
    working.start()
    try:
        yield
    finally:
        ended.set()
        working.join()


def test_a_lost_replica_fires(tmp_path: Path, rules: Path) -> None:
    with NatsCluster(tmp_path / "nats") as cluster, ValkeyProcess(tmp_path / "valkey") as valkey:
        fleet = ScrapedFleet(
            tmp_path,
            cluster.url,
            valkey.url,
            "tests.support.troubled_agents:agents",
            rules,
            replicas="3",
            startup_timeout=str(TIMEOUT),
        )
        with fleet, httpx.Client(base_url=fleet.url, verify=NO_TLS) as http:
            error = Trouble(fleet, http, tmp_path)
            until(error.is_served, "the agents are served", TIMEOUT)
            query = 'headrace_stream_current_replicas{stream=~".*EVENTS"} == 3'
            until(lambda: fleet.prometheus.query(query), "the replicas are current", TIMEOUT)
            cluster.nodes[0].kill()
            error.fires("NatsReplicaMissing")
