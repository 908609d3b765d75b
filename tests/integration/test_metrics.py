"""What Prometheus is told by each service."""

import secrets
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from platform import python_version

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace.model.task import COMPLETED, FAILED
from headrace.settings import BusSettings
from headrace_gateway.settings import GatewaySettings
from tests.integration.gateway.scripts import AGENTS
from tests.support.clients.bindings import Rest, message
from tests.support.legal_logs import LegalLog
from tests.support.plain_http import NO_TLS
from tests.support.running_gateway import running
from tests.support.scripted_fleet import ScriptedFleet
from tests.support.servers import NatsProcess, ValkeyProcess, ports
from tests.support.task_states import new_key, open_task_states
from tests.support.task_submitter import fresh_names, open_submitter
from tests.support.waiting import eventually
from tests.support.worker_process import WorkerProcess

type Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


async def scraped(url: str) -> Samples:
    """Return the values at a metrics page, by name and labels."""
    async with httpx.AsyncClient(timeout=60, verify=NO_TLS) as http:
        answer = (await http.get(url)).raise_for_status()
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def built(service: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the name and labels of a service's build."""
    labels = {"service": service, "version": version("headrace"), "python": python_version()}
    return "headrace_build_info", tuple(sorted(labels.items()))


async def test_a_gateway_counts_its_requests_and_its_load(
    nats_server: NatsProcess,
) -> None:
    name = f"metrics{secrets.token_hex(4)}"
    settings = GatewaySettings(
        nats_url=nats_server.url,
        prefix=name,
        stream_prefix=name,
        http_port=ports.pick(),
        grpc_port=ports.pick(),
    )
    async with open_submitter(BusSettings.model_validate(settings.model_dump())) as submitter:
        fleet = await ScriptedFleet(submitter.bus, AGENTS).start()
        async with running(settings) as url:
            before = await scraped(f"{url}/metrics")
            async with httpx.AsyncClient(
                base_url=url, headers={"A2A-Version": "1.0"}, timeout=60, verify=NO_TLS
            ) as http:
                talk = Rest(http, "patient")
                await Rest(http).call("SendMessage", message("hello"))
                await talk.refused("GetTask", {"id": "nonsense"})
                await http.post("/v1/agents/nobody-7/message:send", json=message("hello"))
                await http.get("/nowhere-7")
                await http.post("/", json={"jsonrpc": "2.0", "id": 1, "method": "Method7"})
                await http.post("/v1/agents/patient/ag-ui", json={"nonsense": 7})
                async with talk.stream("SendStreamingMessage", message("hello")) as stream:
                    frames = stream.frames()  # Let go of, it closes the stream.
                    await anext(frames)
                    during = await scraped(f"{url}/metrics")
        await fleet.stop()
    rest = {"protocol": "a2a", "binding": "http", "operation": "SendMessage"}
    operation = ("headrace_request_seconds_count", tuple(sorted(rest.items())))
    answered = ("headrace_requests_total", tuple(sorted((rest | {"outcome": "ok"}).items())))
    refused = ("headrace_requests_total", tuple(sorted((rest | {"outcome": "refused"}).items())))
    refusal = ("headrace_refusals_total", (("reason", "TASK_NOT_FOUND"),))
    stored = ("headrace_appends_total", (("outcome", "stored"),))
    # Prometheus sees an increase only if it has seen a value before; another test's is as good.
    for reason in ("RATE_LIMITED", "INTERNAL_ERROR"):
        assert ("headrace_refusals_total", (("reason", reason),)) in before
    assert during[operation] == before.get(operation, 0) + 2
    assert during[answered] == before[answered] + 1
    assert during[refused] == before[refused] + 1
    requests = [dict(labels) for name, labels in during if name == "headrace_requests_total"]
    assert {"a2a", "ag-ui"} <= {labels["protocol"] for labels in requests}
    assert [labels for labels in requests if "7" in "".join(labels.values())] == []
    assert during[refusal] == before.get(refusal, 0) + 1
    assert during[stored] > before.get(stored, 0)
    assert during["headrace_open_streams", ()] == 1
    assert during["headrace_feeds", ()] >= 1
    assert during["headrace_agents", ()] == len(AGENTS)
    assert during["headrace_nats_connected", ()] == 1
    assert during[built("gateway")] == 1


async def test_no_request_adds_a_series_of_its_own(nats_server: NatsProcess) -> None:
    settings = GatewaySettings.model_validate(
        {"nats_url": nats_server.url, **fresh_names(), "http_port": ports.pick(), "grpc_port": 0}
    )

    async def asked(http: httpx.AsyncClient, who: str) -> set[tuple[object, ...]]:
        """Return the series after requests that name agents, tasks and methods of `who`."""
        talk = Rest(http)
        await talk.call("SendMessage", message(who, contextId=who, messageId=who))
        await talk.refused("GetTask", {"id": who})
        await http.post(f"/v1/agents/{who}/message:send", json=message(who))
        await http.get(f"/{who}", headers={"Authorization": f"Bearer {who}"})
        await http.post("/", json={"jsonrpc": "2.0", "id": who, "method": who})
        await http.request(who.upper(), f"/v1/agents/assistant/{who}?after={who}")
        return set(await scraped(f"{http.base_url}metrics"))

    async with open_submitter(BusSettings.model_validate(settings.model_dump())) as submitter:
        fleet = await ScriptedFleet(submitter.bus, AGENTS).start()
        async with (
            running(settings) as url,
            httpx.AsyncClient(
                base_url=f"{url}/", headers={"A2A-Version": "1.0"}, verify=NO_TLS, timeout=60
            ) as http,
        ):
            first = await asked(http, "ann")
            later = set[tuple[object, ...]]()
            for number in range(5):
                later |= await asked(http, f"somebody-{number}")
        await fleet.stop()
    assert len(first) > 50
    assert later - first == set()


async def test_task_state_reports_its_position(
    nats_server: NatsProcess, valkey: ValkeyProcess, tmp_path: Path
) -> None:
    port = ports.pick()
    async with open_task_states(nats_server.url, valkey.url, metrics_port=port) as fleet:
        log = LegalLog(new_key())
        log.submit("hello")
        await fleet.spawn(tmp_path, "task-state")
        await fleet.store(log)

        async def told() -> Samples | None:
            samples = await scraped(f"http://127.0.0.1:{port}/metrics")
            applied = samples.get(("headrace_position", (("range", "0"),)), 0) >= 1
            # Where the log was summarized before it was followed, there is a position and no lag.
            level = samples.get(("headrace_lag", (("range", "0"),))) == 0
            return samples if applied and level else None

        samples = await eventually(told, "its position is told, and that it does not lag")
        assert samples["headrace_following", (("range", "0"),)] == 1
        assert samples[built("task-state")] == 1


async def test_a_task_state_without_redis_states_that_it_does_not_follow(
    nats_server: NatsProcess, tmp_path: Path
) -> None:
    port = ports.pick()

    async def follows() -> float | None:
        samples = await scraped(f"http://127.0.0.1:{port}/metrics")
        return samples.get(("headrace_following", (("range", "0"),)))

    async def is_told() -> bool:
        return await follows() == 1

    async def is_taken_back() -> bool:
        return await follows() == 0

    with ValkeyProcess(tmp_path / "valkey") as redis:
        async with open_task_states(nats_server.url, redis.url, metrics_port=port) as fleet:
            await fleet.spawn(tmp_path, "task-state")
            await eventually(is_told, "it follows")
            redis.kill()
            # What it holds back is a log's entry: without one there is nothing to write.
            log = LegalLog(new_key())
            log.submit("hello")
            await fleet.store(log)
            await eventually(is_taken_back, "it does not follow")


async def test_a_worker_counts_its_runs(nats_server: NatsProcess, tmp_path: Path) -> None:
    names, port = fresh_names(), ports.pick()
    worker = WorkerProcess(
        tmp_path, "headrace.demo:agents", nats_server.url, names, metrics_port=port
    )
    with worker:
        settings = BusSettings.model_validate({"nats_url": nats_server.url, **names})
        async with open_submitter(settings) as submitter:
            before = await scraped(f"http://127.0.0.1:{port}/metrics")
            task = await submitter.start("echo", "hello")
            await task.ended()
        echo = ("agent", "echo"), ("version", "1.0.0")
        ended = (echo[0], ("state", COMPLETED), echo[1])

        async def told() -> Samples | None:
            samples = await scraped(f"http://127.0.0.1:{port}/metrics")
            # They change one after the other.
            is_over = samples.get(("headrace_runs_ended_total", ended)) == 1
            return samples if is_over and not samples["headrace_runs_working", echo] else None

        samples = await eventually(told, "the run's end is told")
    # Neither a task nor a run of it has added a series.
    assert {name for name, _ in samples} - {name for name, _ in before} == set()
    assert len(samples) == len(before)
    assert samples["headrace_attempts_total", echo] == 1
    assert samples["headrace_queue_wait_seconds_count", echo] == 1
    assert samples["headrace_first_event_seconds_count", echo] == 1
    assert samples["headrace_run_seconds_count", echo] == 1
    assert samples[built("worker")] == 1
    # Prometheus sees an increase only if it has seen a value before.
    assert before["headrace_runs_taken_over_total", echo] == 0
    assert before["headrace_runs_ended_total", (echo[0], ("state", FAILED), echo[1])] == 0
    assert before["headrace_dead_letters_total", (("kind", "run"),)] == 0
    assert before["headrace_dead_letters_dropped_total", (("kind", "run"),)] == 0
    assert before["headrace_tokens_total", (echo[0], ("kind", "input"), echo[1])] == 0


async def test_a_worker_is_ready_while_it_has_nats_and_alive_without(tmp_path: Path) -> None:
    port = ports.pick()
    with NatsProcess(tmp_path / "nats") as server:
        worker = WorkerProcess(
            tmp_path, "headrace.demo:agents", server.url, fresh_names(), metrics_port=port
        )
        with worker:
            await eventually(partial(_says, port, "/readyz", 200), "the worker is ready")
            server.kill()
            await eventually(partial(_says, port, "/readyz", 503), "the worker is not ready")
            assert await _says(port, "/healthz", 200)


async def test_a_worker_that_waits_for_nats_is_alive_and_not_ready(tmp_path: Path) -> None:
    port, nobody = ports.pick(), f"nats://127.0.0.1:{ports.pick()}"
    worker = WorkerProcess(
        tmp_path, "headrace.demo:agents", nobody, fresh_names(), metrics_port=port
    )
    worker.start(wait=False)
    try:
        await eventually(partial(_says, port, "/healthz", 200), "the worker lives")
        assert await _says(port, "/readyz", 503)
    finally:
        worker.kill()


async def test_a_task_state_states_that_it_is_ready(
    nats_server: NatsProcess, valkey: ValkeyProcess, tmp_path: Path
) -> None:
    port = ports.pick()
    async with open_task_states(nats_server.url, valkey.url, metrics_port=port) as fleet:
        await fleet.spawn(tmp_path, "task-state")
        await eventually(partial(_says, port, "/readyz", 200), "task state is ready")
        assert await _says(port, "/healthz?probe", 200)


async def _says(port: int, path: str, status: int) -> bool:
    """Tell whether a service answers with `status`."""
    async with httpx.AsyncClient(timeout=60, verify=NO_TLS) as http:
        with suppress(httpx.TransportError):
            return (await http.get(f"http://127.0.0.1:{port}{path}")).status_code == status
    return False


async def test_a_taken_metrics_port_ends_the_service_with_a_reason(
    nats_server: NatsProcess, tmp_path: Path
) -> None:
    names, port = fresh_names(), nats_server.port
    worker = WorkerProcess(
        tmp_path, "headrace.demo:agents", nats_server.url, names, metrics_port=port
    )
    with pytest.raises(AssertionError), worker:
        pass
    assert "HEADRACE_METRICS_PORT" in worker.output()
