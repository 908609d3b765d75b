"""What each role's NATS user can do to the bus, tried on a real server, and what readers believe.

The table of `docs/design/isolation.md` is made of what comes of it.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NatsTimeout
from nats.js import api

from headrace.jetstream.connection import Bus
from headrace.jetstream.permissions import WorkerGroup
from headrace.log import Follower, LogWriter, TailRule
from headrace.log.read import TOMBSTONE
from headrace.model.entry import CONTRACT_VERSION, VERSION, Entry, Stamp
from headrace.model.errors import BusUnavailable, LogLost, LogTooNew
from headrace.model.events import task_submitted
from headrace.model.queues import RunQueue
from headrace.model.task import COMPLETED, SUBMITTED, TaskKey, mint_task_id
from headrace.settings import BusSettings
from headrace.tasks.runs import ensure_queue, make_queue
from headrace_gateway.settings import GatewaySettings
from tests.support.compose_file import ROOT
from tests.support.roles import NatsOfRoles
from tests.support.waiting import eventually

GROUPS = [WorkerGroup("children", ("echo",)), WorkerGroup("parents", ("parent",))]
ROLES = ("gateway", "task-state", "triggers", "operator", "children")
COLUMNS = ("gateway", "task state", "triggers", "operator", "a worker of `echo`")
RESERVED_PREFIX, OTHERS = "echo", "parent"
_PULL_OTHERS = f"$JS.API.CONSUMER.MSG.NEXT.RUNS.{OTHERS}"

_READS = ("STREAM.MSG.GET", "DIRECT.GET", "STREAM.INFO")

_TIMEOUT = 20.0
_TURN = 0.05
"""Seconds in which callbacks have their turn."""


@dataclass
class User:
    """A connection with a role's rights, by which anything may be tried."""

    client: Client
    role: str
    _refused: asyncio.Event = field(default_factory=asyncio.Event)

    async def refuse(self, _: Exception) -> None:
        """Take note of what the server says."""
        self._refused.set()

    async def ask(
        self, subject: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> dict[str, Any]:
        """Return what JetStream answers; nothing where the user may not ask, or nobody answers."""
        self._refused.clear()
        asking = asyncio.ensure_future(
            self.client.request(subject, body, timeout=_TIMEOUT, headers=headers)
        )
        refused = asyncio.ensure_future(self._refused.wait())
        await asyncio.wait({asking, refused}, return_when=asyncio.FIRST_COMPLETED)
        refused.cancel()
        if not asking.done():
            asking.cancel()
            return {}
        try:
            answer: dict[str, Any] = json.loads(asking.result().data)
        except (NoRespondersError, NatsTimeout):
            return {}
        return {} if "error" in answer else answer

    async def send(self, subject: str, body: bytes, reply: str = "") -> None:
        """Publish, whether or not that is allowed; return when the server has read it."""
        await self.client.publish(subject, body, reply)
        await self.settle()

    async def settle(self) -> None:
        """Return when the server has read what was sent before; what it sent before has come."""
        # nats-py sends a ping ahead of what waits to be sent: only the second one comes behind it.
        await self.client.flush()
        await self.client.flush()

    @asynccontextmanager
    async def listening(self, subject: str) -> AsyncIterator[list[str]]:
        """Yield the subjects of what arrives, as far as the user may listen."""
        received: list[str] = []

        async def note(msg: Any) -> None:  # noqa: ANN401  # nats-py's
            received.append(msg.subject)

        subscription = await self.client.subscribe(subject, cb=note)
        await self.settle()
        yield received
        await self.settle()
        await asyncio.sleep(_TURN)
        with suppress(Exception):
            await subscription.unsubscribe()


@dataclass
class World:
    """A fleet's streams with messages of every service."""

    server: NatsOfRoles
    bus: Bus
    admin: User
    user: User
    own: TaskKey
    others: TaskKey

    async def last(self, stream: str, subject: str) -> int:
        """Return the sequence of the last message on `subject`; 0: there is none."""
        query = json.dumps({"last_by_subj": subject}).encode()
        found = await self.admin.ask(f"$JS.API.STREAM.MSG.GET.{stream}", query)
        return int(found["message"]["seq"]) if found else 0

    async def changes(self, stream: str, subject: str, attempt: Awaitable[object]) -> bool:
        """Tell whether `attempt` has put a message on a stream's subject."""
        before = await self.last(stream, subject)
        await attempt
        await asyncio.sleep(0.05)
        return await self.last(stream, subject) != before

    async def stores(self, stream: str, subject: str) -> bool:
        """Tell whether the user can write there."""
        return await self.changes(stream, subject, self.user.ask(subject, b"{}"))

    async def answers(self, operation: str, query: object = None) -> bool:
        """Tell whether JetStream does for the user what it asks for."""
        body = b"" if query is None else json.dumps(query).encode()
        return bool(await self.user.ask(f"$JS.API.{operation}", body))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsOfRoles]:
    with NatsOfRoles(tmp_path_factory.mktemp("roles"), GROUPS) as running:
        yield running


async def _user(server: NatsOfRoles, role: str) -> User:
    user = User(Client(), role)
    prefix = f"_INBOX.{role}"
    await user.client.connect(server.url_of(role), inbox_prefix=prefix, error_cb=user.refuse)
    return user


@asynccontextmanager
async def world(server: NatsOfRoles, role: str) -> AsyncIterator[World]:
    """Yield the fleet as `role` finds it."""
    bus = Bus(GatewaySettings(nats_url=server.url_of("gateway")))
    await bus.connect("gateway")
    admin, user = await _user(server, "operator"), await _user(server, role)
    keys = [TaskKey("default", agent, mint_task_id(3)) for agent in (RESERVED_PREFIX, OTHERS)]
    for key in keys:
        await make_queue(bus, RunQueue(key.agent))
        stamp = Stamp("abcdefgh", 1, "test", SUBMITTED, 1, owner="ann")
        await LogWriter(bus, key).append([task_submitted(key.task, "c", _said())], stamp)
        await admin.ask(bus.subjects.run(key, 1), b"{}")
    await admin.ask("$KV.KEYS.signing", b"secret")
    await admin.ask("$KV.PUSH.default.echo.task.hook", b"secret")
    try:
        yield World(server, bus, admin, user, *keys)
    finally:
        for client in (admin.client, user.client):
            await client.close()
        await bus.close()


def _said() -> dict[str, Any]:
    return {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}


type Attempt = Callable[[World], Awaitable[bool]]

ATTEMPTS: dict[str, Attempt] = {}


def attempt(what: str) -> Callable[[Attempt], Attempt]:
    """Register what is tried under the words that the table has for it."""

    def register(tried: Attempt) -> Attempt:
        ATTEMPTS[what] = tried
        return tried

    return register


@attempt("read logs")
async def reads_logs(w: World) -> bool:
    subject = w.bus.subjects.event(w.others)
    return await w.answers("STREAM.MSG.GET.EVENTS", {"last_by_subj": subject})


@attempt("append to logs of `echo`")
async def appends_to_its_own(w: World) -> bool:
    return await w.stores("EVENTS", w.bus.subjects.event(w.own))


@attempt("append to other agents' logs")
async def appends_to_others(w: World) -> bool:
    return await w.stores("EVENTS", w.bus.subjects.event(w.others))


@attempt("ask for runs of `echo`")
async def publishes_own_runs(w: World) -> bool:
    return await w.stores("RUNS", w.bus.subjects.run(w.own, 7))


@attempt("ask for runs of other agents")
async def publishes_others_runs(w: World) -> bool:
    return await w.stores("RUNS", w.bus.subjects.run(w.others, 7))


@attempt("take up runs of other agents")
async def pulls_others_runs(w: World) -> bool:
    before = await _handed_out(w)
    await w.admin.ask(w.bus.subjects.run(w.others, 8), b"{}")
    inbox = w.user.client.new_inbox()
    listening = await w.user.client.subscribe(inbox)
    await w.user.send(_PULL_OTHERS, b'{"no_wait":true}', inbox)
    await w.admin.ask(w.bus.subjects.run(w.others, 9), b"{}")
    # Requests are served in turn: with this one's run, the other one's is out.
    await _pulled_by_admin(w)
    await listening.unsubscribe()
    return await _handed_out(w) != before + 1


async def _pulled_by_admin(w: World) -> Msg:
    """Return the next run of the other agent."""
    inbox = w.admin.client.new_inbox()
    pulled = await w.admin.client.subscribe(inbox)
    await w.admin.send(_PULL_OTHERS, b'{"expires":15000000000}', inbox)
    run = await pulled.next_msg(_TIMEOUT)
    await pulled.unsubscribe()
    return run


async def _handed_out(w: World) -> int:
    delivered = (await w.bus.js.consumer_info("RUNS", OTHERS)).delivered
    return delivered.consumer_seq if delivered is not None else 0


@attempt("acknowledge runs of other agents, which drops them")
async def acknowledges_others_runs(w: World) -> bool:
    await w.admin.ask(w.bus.subjects.run(w.others, 10), b"{}")
    run = await _pulled_by_admin(w)
    at = {"seq": run.metadata.sequence.stream}
    assert await w.admin.ask("$JS.API.STREAM.MSG.GET.RUNS", json.dumps(at).encode())
    await w.user.send(run.reply, b"+ACK")
    await asyncio.sleep(_TURN)
    return not await w.admin.ask("$JS.API.STREAM.MSG.GET.RUNS", json.dumps(at).encode())


@attempt("cancel other agents' tasks at their holders")
async def controls_others(w: World) -> bool:
    subject = w.bus.subjects.control(w.others)
    holder = await _user(w.server, "parents")
    try:
        async with holder.listening(subject) as received:
            await w.user.send(subject, b'{"ask":"cancel"}')
        return bool(received)
    finally:
        await holder.client.close()


@attempt("announce other agents")
async def announces_others(w: World) -> bool:
    return await w.stores("KV_AGENTS", f"$KV.AGENTS.card.{OTHERS}")


@attempt("write dead letters of other agents")
async def writes_dead_letters(w: World) -> bool:
    return await w.stores("DEAD", w.bus.subjects.dead("default", OTHERS))


@attempt("read and drop dead letters")
async def drops_dead_letters(w: World) -> bool:
    subject = w.bus.subjects.dead("default", OTHERS)
    await w.admin.ask(subject, b"{}")
    sequence = await w.last("DEAD", subject)
    reads = await w.answers("STREAM.MSG.GET.DEAD", {"seq": sequence})
    drops = await w.answers("STREAM.MSG.DELETE.DEAD", {"seq": sequence})
    return reads and drops


@attempt("keep other agents' dead letters out, by their message ids")
async def suppresses_dead_letters(w: World) -> bool:
    named = {"Nats-Msg-Id": f"{w.others.task}.1"}
    await w.user.ask(w.bus.subjects.dead("default", RESERVED_PREFIX), b"{}", named)
    others = w.bus.subjects.dead("default", OTHERS)
    return not await w.changes("DEAD", others, w.admin.ask(others, b"{}", named))


@attempt("have a message stored elsewhere by a header: schedules, batches, counters, traces")
async def abuses_headers(w: World) -> bool:
    others = w.bus.subjects.event(w.others)
    places = ("EVENTS", others), ("KV_KEYS", "$KV.KEYS.signing")
    before = [await w.last(*place) for place in places]
    for _, target in places:
        for headers in (
            {"Nats-Schedule": "@at 2020-01-01T00:00:00Z", "Nats-Schedule-Target": target},
            {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "1"},
            {"Nats-Incr": "+1"},
            {"Nats-Trace-Dest": target},
        ):
            await w.user.ask(w.bus.subjects.event(w.own), b"{}", headers)
    await w.user.settle()
    await asyncio.sleep(_TURN)
    return [await w.last(*place) for place in places] != before


@attempt("write files of other agents")
async def writes_files(w: World) -> bool:
    place = f"default.{OTHERS}.{w.others.task}.0123456789abcdef"
    return any([await w.stores("OBJ_FILES", f"$O.FILES.{kind}.{place}") for kind in "CM"])


@attempt("write what other agents remember")
async def writes_memory(w: World) -> bool:
    place = f"default.{OTHERS}.{w.others.task}.ann.c"
    return any([await w.stores("KV_MEMORY", f"$KV.MEMORY.{place}.{kind}.x") for kind in "kcf"])


@attempt("drop all keys or files by a roll-up")
async def rolls_up(w: World) -> bool:
    rolled = {"Nats-Rollup": "all"}
    keys = "KV_AGENTS", f"$KV.AGENTS.live.{RESERVED_PREFIX}.kept"
    files = "OBJ_FILES", f"$O.FILES.C.default.{RESERVED_PREFIX}.{w.own.task}.kept"
    for _, subject in (keys, files):
        await w.admin.ask(subject, b"{}")
    await w.user.ask(f"$KV.AGENTS.card.{RESERVED_PREFIX}", b"{}", rolled)
    await w.user.ask(f"$O.FILES.M.default.{RESERVED_PREFIX}.{w.own.task}.0", b"{}", rolled)
    return not await w.last(*keys) or not await w.last(*files)


@attempt("read the fleet's keys (`KEYS`)")
async def reads_keys(w: World) -> bool:
    query = {"last_by_subj": "$KV.KEYS.signing"}
    requests = [w.answers(f"{what}.KV_KEYS", query) for what in ("STREAM.MSG.GET", "STREAM.INFO")]
    return any([await one for one in requests])


@attempt("read webhooks and their secrets (`PUSH`)")
async def reads_webhooks(w: World) -> bool:
    query = {"last_by_subj": "$KV.PUSH.default.echo.task.hook"}
    requests = [w.answers(f"{what}.KV_PUSH", query) for what in ("STREAM.MSG.GET", "STREAM.INFO")]
    return any([await one for one in requests])


@attempt("write the fleet's keys")
async def writes_keys(w: World) -> bool:
    return await w.stores("KV_KEYS", "$KV.KEYS.other")


@attempt("read schedules and delayed messages")
async def reads_schedules(w: World) -> bool:
    subject = w.bus.subjects.schedule("default", "ann", "nightly")
    await w.admin.ask(subject, b"{}")
    return await w.answers("STREAM.MSG.GET.SCHEDULES", {"last_by_subj": subject})


@attempt("store schedules, fire them, or record what they have done")
async def stores_schedules(w: World) -> bool:
    subjects, nightly = w.bus.subjects, ("default", "ann", "nightly")
    kinds = (subjects.schedule, subjects.timer, subjects.firing, subjects.fired)
    return any([await w.stores("SCHEDULES", kind(*nightly)) for kind in kinds])


@attempt("have runs of other agents delayed, or begin early")
async def delays_runs(w: World) -> bool:
    run = w.bus.subjects.run(w.others, 7)
    kept = w.bus.subjects.delayed(run), w.bus.subjects.due(run)
    return any([await w.stores("SCHEDULES", subject) for subject in kept])


@attempt("read triggers")
async def reads_triggers(w: World) -> bool:
    subject = "$KV.TRIGGERS.event.default.ann.orders"
    await w.admin.ask(subject, b"{}")
    requests = [w.answers(f"{how}.KV_TRIGGERS", {"last_by_subj": subject}) for how in _READS]
    return any([await one for one in requests])


@attempt("make or change triggers")
async def writes_triggers(w: World) -> bool:
    return await w.stores("KV_TRIGGERS", "$KV.TRIGGERS.event.default.ann.orders")


@attempt("route other agents' new tasks to a version")
async def routes_others(w: World) -> bool:
    return await w.stores("KV_AGENTS", f"$KV.AGENTS.route.{OTHERS}")


@attempt("write idempotency records")
async def writes_idempotency(w: World) -> bool:
    return await w.stores("KV_IDEMPOTENCY", "$KV.IDEMPOTENCY.0123")


@attempt("publish events and answers that are no subject of the fleet's")
async def publishes_answers(w: World) -> bool:
    async with w.admin.listening("orders.>") as received:
        await w.user.send("orders.created", b"{}")
    return bool(received)


@attempt("tell gateways which requests others have made, or which lists have changed")
async def speaks_to_gateways(w: World) -> bool:
    subjects = (w.bus.subjects.rates(), w.bus.subjects.changes(0))
    arrived = 0
    for subject in subjects:
        async with w.admin.listening(subject) as received:
            await w.user.send(subject, b"{}")
        arrived += len(received)
    return bool(arrived)


@attempt("make a stream")
async def makes_streams(w: World) -> bool:
    made = {"name": f"MADE_{w.user.role}", "subjects": [f"made.{w.user.role}"]}
    return await w.answers(f"STREAM.CREATE.{made['name']}", made)


@attempt("change a stream")
async def changes_streams(w: World) -> bool:
    found = await w.admin.ask("$JS.API.STREAM.INFO.DEAD")
    return await w.answers("STREAM.UPDATE.DEAD", found["config"])


@attempt("purge logs")
async def purges_logs(w: World) -> bool:
    return await w.answers("STREAM.PURGE.EVENTS", {"filter": "headrace.event.nothing"})


@attempt("purge keys")
async def purges_keys(w: World) -> bool:
    return await w.answers("STREAM.PURGE.KV_KEYS", {"filter": "nothing"})


@attempt("purge dead letters")
async def purges_letters(w: World) -> bool:
    return await w.answers("STREAM.PURGE.DEAD", {"filter": "nothing"})


@attempt("delete a stream")
async def deletes_streams(w: World) -> bool:
    name = f"DOOMED_{w.user.role}"
    await w.admin.ask(
        f"$JS.API.STREAM.CREATE.{name}", json.dumps({"name": name, "subjects": [name]}).encode()
    )
    return await w.answers(f"STREAM.DELETE.{name}")


@attempt("make a consumer of logs that delivers anywhere")
async def makes_consumers(w: World) -> bool:
    name = f"forger-{w.user.role}"
    config = {"name": name, "ack_policy": "none", "deliver_subject": w.bus.subjects.live(w.others)}
    query = {"stream_name": "EVENTS", "config": config}
    made = await w.answers(f"CONSUMER.CREATE.EVENTS.{name}", query)
    await w.admin.ask(f"$JS.API.CONSUMER.DELETE.EVENTS.{name}")
    return made


@attempt("publish on `live.>`")
async def publishes_live(w: World) -> bool:
    async with w.admin.listening(w.bus.subjects.live(w.others)) as received:
        await w.user.send(w.bus.subjects.live(w.others), b"{}")
    return bool(received)


@attempt("have a stored message sent to `live.>`, a log or a key, as an answer")
async def redirects_answers(w: World) -> bool:
    live, event = w.bus.subjects.live(w.others), w.bus.subjects.event(w.others)
    query = json.dumps({"last_by_subj": w.bus.subjects.event(w.own)}).encode()
    before = await w.last("EVENTS", event), await w.last("KV_KEYS", "$KV.KEYS.signing")
    pull = f"$JS.API.CONSUMER.MSG.NEXT.RUNS.{RESERVED_PREFIX}"
    async with w.admin.listening(live) as received:
        for subject in (live, event, "$KV.KEYS.signing"):
            await w.user.send("$JS.API.DIRECT.GET.EVENTS", query, subject)
            await w.user.send(w.bus.subjects.event(w.own), b"{}", subject)
            await w.user.send(pull, b'{"no_wait":true}', subject)
        # Questions to a stream are answered in turn.
        await w.admin.client.request("$JS.API.DIRECT.GET.EVENTS", query, timeout=_TIMEOUT)
        await asyncio.sleep(_TURN)
    after = await w.last("EVENTS", event), await w.last("KV_KEYS", "$KV.KEYS.signing")
    return bool(received) or before != after


@attempt("read answers to others' questions")
async def reads_inboxes(w: World) -> bool:
    other = "_INBOX.gateway.>" if w.user.role != "gateway" else "_INBOX.task-state.>"
    asker = await _user(w.server, "gateway" if w.user.role != "gateway" else "task-state")
    try:
        async with w.user.listening(other) as received:
            await asker.ask("$JS.API.STREAM.INFO.EVENTS")
        return bool(received)
    finally:
        await asker.client.close()


@attempt("answer operators, other than with what a process is")
async def answers_operators(w: World) -> bool:
    async with w.admin.listening("_INBOX.operator.forged.>") as received:
        await w.user.send("_INBOX.operator.forged.1", b"{}")
    return bool(received)


@attempt("see others' questions, and where their answers go")
async def reads_questions(w: World) -> bool:
    async with w.user.listening("$JS.API.>") as received:
        await w.admin.ask("$JS.API.STREAM.INFO.EVENTS")
    return bool(received)


@attempt("ask task state in the name of other agents' workers")
async def speaks_for_others(w: World) -> bool:
    async with w.admin.listening(w.bus.subjects.state("start.>")) as received:
        await w.user.send(w.bus.subjects.state(f"start.{OTHERS}"), b"{}")
    return bool(received)


@attempt("erase tasks of `echo`")
async def erases_its_own(w: World) -> bool:
    return await _erases(w, w.own)


@attempt("erase tasks of other agents")
async def erases_others(w: World) -> bool:
    return await _erases(w, w.others)


async def _erases(w: World, key: TaskKey) -> bool:
    """Tell whether the user can take a log away, or have task state do so by a tombstone."""
    subject = w.bus.subjects.event(key)
    last = await w.last("EVENTS", subject)
    tombstone = {VERSION: CONTRACT_VERSION, TOMBSTONE: "deleted"}
    did = [
        await w.changes("EVENTS", subject, w.user.ask(subject, b"", tombstone)),
        await w.answers("STREAM.MSG.DELETE.EVENTS", {"seq": last}),
        await w.answers("STREAM.PURGE.EVENTS", {"filter": subject}),
    ]
    return any(did)


async def rows(server: NatsOfRoles) -> dict[str, list[bool]]:
    found: dict[str, list[bool]] = {what: [] for what in ATTEMPTS}
    for role in ROLES:
        async with world(server, role) as one:
            for what, tried in ATTEMPTS.items():
                found[what].append(await tried(one))
    return found


def table(found: dict[str, list[bool]]) -> str:
    head = f"| what | {' | '.join(COLUMNS)} |\n|---|{'---|' * len(COLUMNS)}\n"
    lines = [
        f"| {what} | {' | '.join('yes' if one else 'no' for one in can)} |"
        for what, can in found.items()
    ]
    return head + "\n".join(lines) + "\n"


async def test_the_table_of_rights_is_what_the_server_enforces(server: NatsOfRoles) -> None:
    made = table(await rows(server))
    page = (ROOT / "docs" / "design" / "isolation.md").read_text()
    assert made in page, f"docs/design/isolation.md is to have:\n\n{made}"


async def _followed(w: World, forge: Callable[[], Awaitable[None]]) -> list[Entry]:
    """Return what a follower of the others' task is handed on while `forge` is at work."""
    entries: list[Entry] = []
    rule = TailRule(w.bus)
    await rule.start()
    follower = Follower(w.bus, rule, w.others, entries.append, _no_loss)
    await follower.subscribe()
    follower.begin(0)

    async def has_read() -> bool:
        return bool(entries)

    try:
        await eventually(has_read, "the log is read")
        async with w.admin.listening(w.bus.subjects.live(w.others)) as received:
            await forge()

            async def is_sent() -> bool:
                return bool(received)

            await eventually(is_sent, "the forged message is sent")
        await w.bus.connection.flush()
        await asyncio.sleep(_TURN)
    finally:
        follower.stop()
        await rule.stop()
    return entries


def _no_loss(loss: LogLost | LogTooNew) -> None:
    raise loss


async def _forge_completed(w: World) -> None:
    """Put an entry that ends the others' task into the log of the own one, as if it were live."""
    last = await w.last("EVENTS", w.bus.subjects.event(w.others))
    stamp = Stamp("abcdefgh", 2, "forger", COMPLETED, 1)
    output = {
        "taskId": w.others.task,
        "contextId": "c",
        "status": {"state": COMPLETED},
        "metadata": {"headrace.generation": 2},
    }
    headers = {
        **stamp.headers(),
        "Nats-Subject": w.bus.subjects.event(w.others),
        "Nats-Stream": "EVENTS",
        "Nats-Sequence": str(last + 1),
        "Nats-Last-Sequence": str(last),
    }
    body = json.dumps({"statusUpdate": output}, separators=(",", ":")).encode()
    assert await w.admin.ask(w.bus.subjects.event(w.own), body, headers)


async def test_readers_believe_no_consumer_that_delivers_to_the_live_subject(
    server: NatsOfRoles,
) -> None:
    async with world(server, "operator") as w:
        config = api.ConsumerConfig(
            name="forger",
            ack_policy=api.AckPolicy.NONE,
            deliver_policy=api.DeliverPolicy.LAST,
            filter_subject=w.bus.subjects.event(w.own),
            deliver_subject=w.bus.subjects.live(w.others),
        )
        await _forge_completed(w)

        async def forge() -> None:
            query = {"stream_name": "EVENTS", "config": config.as_dict()}
            assert await w.answers("CONSUMER.CREATE.EVENTS.forger", query)

        entries = await _followed(w, forge)
        await w.admin.ask("$JS.API.CONSUMER.DELETE.EVENTS.forger")
    assert [entry.generation for entry in entries] == [1]


async def test_readers_believe_no_answer_that_was_sent_to_the_live_subject(
    server: NatsOfRoles,
) -> None:
    async with world(server, "operator") as w:
        await _forge_completed(w)
        query = json.dumps({"last_by_subj": w.bus.subjects.event(w.own)}).encode()

        async def forge() -> None:
            live = w.bus.subjects.live(w.others)
            await w.user.send("$JS.API.DIRECT.GET.EVENTS", query, live)

        entries = await _followed(w, forge)
    assert [entry.generation for entry in entries] == [1]


async def test_where_any_tenant_may_be_served_the_servers_configuration_allows_it(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("any-tenant")
    with NatsOfRoles(folder, GROUPS, ["*"]) as server:
        async with world(server, "children") as w:
            await make_queue(w.bus, RunQueue(RESERVED_PREFIX, "acme"))
            assert await w.answers(f"CONSUMER.INFO.RUNS.{RESERVED_PREFIX}@acme")
            assert await pulls_others_runs(w)


async def test_a_worker_logs_a_queue_that_it_has_no_right_to(server: NatsOfRoles) -> None:
    async with world(server, "children") as w:
        bus = Bus(BusSettings(nats_url=w.server.url_of("children")))
        await bus.dial("worker")
        try:
            with pytest.raises(BusUnavailable, match="headrace nats-permissions"):
                await ensure_queue(bus, RunQueue(RESERVED_PREFIX, "acme"))
            await ensure_queue(bus, RunQueue(RESERVED_PREFIX))
        finally:
            await bus.close()
