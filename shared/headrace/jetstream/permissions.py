"""The NATS accounts, users and permissions of a fleet.

Gateways, task state, triggers and operators share one account, which owns the streams. Each group
of workers has its own account, which imports only the subjects that its agents need. Permissions
alone are not enough: NATS does not check the reply subject of a JetStream request, so a user with
read access to one message could have it delivered as a log entry, a key or a request to purge a
stream. A reply to another account reaches only the requester.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from headrace.jetstream.client import in_domain
from headrace.jetstream.streams import Streams
from headrace.model.errors import InvalidName
from headrace.model.queues import DEFAULT_TENANT, PRIORITIES, RunQueue
from headrace.model.subjects import (
    PROCESS_REPLIES,
    check_agent_name,
    encode_token,
    is_token,
)
from headrace.settings import BusSettings

ANY_TENANT = "*"
"""In place of tenants: workers may pull from every queue, including those of other groups."""

ACCOUNT = "HEADRACE"
"""The account that owns the streams."""

FOR_WORKERS = ("start", "cancel", "input", "queue", "drop", "wait", "listen")
"""Operations of task state that only workers of the agent in the subject may request."""

GATEWAY, TASK_STATE, TRIGGERS = "gateway", "task-state", "triggers"
OPERATOR = "operator"
ROLES = (GATEWAY, TASK_STATE, TRIGGERS, OPERATOR)
"""The users of the account that owns the streams."""

INBOX = "_INBOX"
"""Prefix of every inbox; the role follows, so that no role can read another role's replies."""

USER_INFO = "$SYS.REQ.USER.INFO"
"""Subject on which a user asks what it may do; the answer tells of nobody else."""

_GROUP = re.compile(r"[a-z][a-z0-9-]{0,40}")
_API = "$JS.API."
_KEEPING = ("CREATE", "DURABLE.CREATE", "INFO")
"""What keeping a consumer of one's own takes."""
_MANY = 'response: stream, threshold: "30s"'
"""The reply is several messages; the last one arrives within this time."""


@dataclass(frozen=True, slots=True)
class WorkerGroup:
    """Workers that share a NATS user, and the agents they serve."""

    name: str
    agents: tuple[str, ...]
    versions: tuple[tuple[str, str], ...] = ()
    """Agents and their versions, to which their workers pin tasks."""

    @property
    def account(self) -> str:
        """The group's NATS account."""
        return f"{ACCOUNT}_{self.name.upper().replace('-', '_')}"


@dataclass(frozen=True, slots=True)
class SubjectAccess:
    """A subject of the users' that triggers may take events from, or task state may answer on."""

    subject: str
    stream: str = ""
    """The stream that stores its messages; empty: none, or not to be read."""


@dataclass(frozen=True, slots=True)
class AccountExport:
    """A subject that one account exports to another."""

    subject: str
    many: bool = False
    """Whether a request has several replies."""
    stream: bool = False
    """Whether it is a stream of messages to subscribe to, not a request."""
    api: bool = False
    """Whether it is JetStream's API, which also replies in accounts without streams."""


@dataclass(frozen=True, slots=True)
class Rights:
    """What a user may publish and subscribe to."""

    publish: list[str]
    subscribe: list[str]
    never: list[str] = field(default_factory=list)
    """Subjects that it may not publish to, even if `publish` matches them."""


class Permissions:
    """The accounts, users and rights of one fleet."""

    def __init__(
        self,
        settings: BusSettings,
        groups: Sequence[WorkerGroup],
        tenants: Sequence[str] = (DEFAULT_TENANT,),
        events: Sequence[SubjectAccess] = (),
        answers: Sequence[SubjectAccess] = (),
    ) -> None:
        """Declare the permissions for `groups` of workers that serve `tenants` (as tokens).

        Triggers may take `events`, and task state may publish on the subjects of `answers`, and
        search their streams for what it has published.

        Raises:
            InvalidName: the name of a group, agent or tenant is invalid, or two groups serve one
                agent.
        """
        _check(groups)
        for tenant in tenants:
            if tenant != ANY_TENANT and not is_token(tenant):
                raise InvalidName("tenant", tenant, "must be a token, as in subjects, or '*'")
        self._settings, self._groups, self._tenants = settings, groups, tenants
        self._event_access, self._answers = events, answers
        self._prefix, self._subjects = settings.prefix, settings.subjects
        self._streams = Streams(settings.stream_prefix)
        self._events = [self._streams.events(k) for k in range(settings.event_streams)]

    def rights(self, role: str) -> Rights:
        """Return the rights of a role in the account that owns the streams."""
        every = {
            GATEWAY: self._gateway,
            TASK_STATE: self._task_state,
            TRIGGERS: self._triggers,
            OPERATOR: self._operator,
        }
        found, domain = every[role](), self._settings.nats_jetstream_domain
        # A user of a domain asks under the domain's subjects, whichever server it connects to.
        published = [in_domain(domain, subject) for subject in (*found.publish, USER_INFO)]
        return replace(found, publish=published)

    def imported(self, group: WorkerGroup) -> list[AccountExport]:
        """Return what a group's account imports from the account that owns the streams."""
        return [*self._api_for(group), *self._subjects_for(group), *self._subscriptions_of(group)]

    def exported(self, group: WorkerGroup) -> list[AccountExport]:
        """Return what a group's account exports: requests to its workers."""
        p = self._prefix
        return [
            AccountExport(subject)
            for agent in group.agents
            for subject in (
                f"{p}.control.*.{agent}.*",
                f"{p}.drain.{agent}.*",
                f"{p}.holds.{agent}.*",
                f"{p}.process.worker.{agent}.*",
            )
        ]

    def configuration(self) -> str:
        """Return nats-server's ``accounts`` block; it reads passwords from the environment."""
        accounts = [self._core(), *(self._of_group(group) for group in self._groups)]
        return "accounts {\n" + "\n".join(accounts) + "\n}\n"

    def passwords(self) -> dict[str, str]:
        """Return the variable from which nats-server reads each user's password."""
        users = [*ROLES, *(group.name for group in self._groups)]
        return {user: _variable(user) for user in users}

    def _gateway(self) -> Rights:
        streams, p = self._streams, self._prefix
        kept = [f"KV_{streams.agents}", *self._buckets(), f"OBJ_{streams.files}"]
        kept.append(f"KV_{streams.triggers}")
        publish = [
            *(f"{p}.{kind}.>" for kind in ("event", "run", "queue", "control", "drain")),
            f"{p}.process.>",
            *(f"{p}.{kind}.>" for kind in ("state", "recheck", "push")),
            self._subjects.rates(),
            *(f"$KV.{name}.>" for name in (streams.idempotency, streams.push, streams.keys)),
            *(f"$KV.{name}.>" for name in (streams.triggers, streams.threads)),
            # For operators, who route agents and retire versions over HTTP.
            f"$KV.{streams.agents}.route.*",
            f"$KV.{streams.agents}.card.*.*",
            f"$O.{streams.files}.>",
            *self._making(),
            # Of the work queue it reads the age of the oldest waiting run.
            # Of the work queue of webhooks it shows operators what waits.
            *_api("STREAM.MSG.GET", [*self._events, *kept, streams.runs, streams.dead]),
            *_api("STREAM.MSG.GET", [streams.pushes]),
            *_api("DIRECT.GET", [*self._events, *kept, streams.dead]),
            # For operators, who drop dead letters over HTTP.
            *_api("STREAM.MSG.DELETE", [streams.dead]),
            *self._scheduling(),
            # It shows the owners of triggers how many events wait.
            *_consumers(["INFO"], *self._event_streams()),
            # In a full stream, part of a deleted task's log makes room for its tombstone.
            *_api(
                "STREAM.PURGE",
                [*self._events, streams.runs, streams.dead, f"OBJ_{streams.files}"],
            ),
            *self._queues(),
            # It has a run delivered for which a webhook was called.
            f"$JS.ACK.{streams.runs}.>",
            f"{INBOX}.{GATEWAY}.>",
            *_answers_to(OPERATOR),
        ]
        heard = [f"{p}.live.>", self._subjects.rates(), self._subjects.changes()]
        return self._rights(GATEWAY, publish, *heard, self._subjects.process(GATEWAY))

    def _task_state(self) -> Rights:
        streams, p = self._streams, self._prefix
        every = [*self._events, streams.runs, streams.dead, f"KV_{streams.agents}"]
        kept = [f"OBJ_{streams.files}", f"KV_{streams.memory}"]
        every += [*self._buckets(), *kept, streams.pushes]
        publish = [
            *(f"{p}.{kind}.>" for kind in ("event", "run", "queue", "control", "recheck", "push")),
            *(f"{p}.{kind}.>" for kind in ("dead", "holds")),
            self._subjects.changes(),
            # The subjects that runs wait for.
            f"$KV.{streams.triggers}.event.>",
            *_api("STREAM.MSG.GET", [f"KV_{streams.triggers}"]),
            *_api("DIRECT.GET", [f"KV_{streams.triggers}"]),
            # Results of tasks that others wait for, where they are large.
            f"$O.{streams.files}.>",
            *(f"$KV.{name}.>" for name in (streams.push, streams.keys)),
            *self._making(),
            *_api("STREAM.MSG.GET", every),
            *_api("DIRECT.GET", every),
            *_api("STREAM.PURGE", [*self._events, streams.runs, *kept]),
            *_api("STREAM.PURGE", [streams.pushes]),
            *_api("STREAM.MSG.DELETE", [*self._events, *kept, streams.dead]),
            *self._queues(),
            *_consumers((*_KEEPING, "DELETE", "MSG.NEXT"), *self._events, streams.pushes),
            f"$JS.ACK.{streams.pushes}.>",
            # It gives back the runs of dead workers.
            f"$JS.ACK.{streams.runs}.>",
            # It replies to every requester.
            f"{INBOX}.>",
            "_R_.>",
            *(one.subject for one in self._answers),
            *_api("STREAM.MSG.GET", _streams_of(self._answers)),
            *_api("DIRECT.GET", _streams_of(self._answers)),
        ]
        heard = f"{p}.state.>", self._subjects.process(TASK_STATE)
        return self._rights(TASK_STATE, publish, *heard)

    def _triggers(self) -> Rights:
        streams, p = self._streams, self._prefix
        read = [*self._events, f"KV_{streams.agents}", f"KV_{streams.triggers}"]
        publish = [
            # A schedule's firing may cancel the task of the one before, through its holder.
            *(f"{p}.{kind}.>" for kind in ("event", "run", "queue", "dead", "control", "recheck")),
            # Quotas of firings are checked against what has been used, and what is open.
            *(
                self._subjects.state(operation, of_all=of_all)
                for operation in ("usage", "list")
                for of_all in (False, True)
            ),
            self._subjects.state("more.>"),
            *self._scheduling(),
            *_consumers((*_KEEPING, "MSG.NEXT"), streams.schedules),
            f"$JS.ACK.{streams.schedules}.>",
            # A firing's answers are webhooks.
            f"$KV.{streams.push}.>",
            f"{p}.push.>",
            *self._making(),
            *_api("STREAM.MSG.GET", read),
            *_api("DIRECT.GET", read),
            *self._queues(),
            # The last firings of triggers, which are for people to look at.
            f"$KV.{streams.triggers}.fired.>",
            # Events for which runs wait: it wakes them, and deletes their triggers.
            f"$KV.{streams.triggers}.event.>",
            f"$O.{streams.files}.>",
            *_api("STREAM.MSG.GET", [streams.runs]),
            f"$JS.ACK.{streams.runs}.>",
            # Its consumers, which it deletes with their triggers.
            f"$KV.{streams.triggers}.consumer.>",
            f"{INBOX}.{TRIGGERS}.>",
            *_answers_to(GATEWAY, OPERATOR),
        ]
        for stream in self._event_streams():
            publish += _consumers((*_KEEPING, "DELETE", "MSG.NEXT"), stream)
            publish.append(f"$JS.ACK.{stream}.>")
        events = [one.subject for one in self._event_access if not one.stream]
        heard = f"$KV.{streams.triggers}.>", self._subjects.process(TRIGGERS)
        return self._rights(TRIGGERS, publish, *heard, *events)

    def _event_streams(self) -> list[str]:
        """The users' streams."""
        return _streams_of(self._event_access)

    def _operator(self) -> Rights:
        publish = [f"{self._prefix}.>", f"{_API}>", "$KV.>", "$O.>", f"{INBOX}.{OPERATOR}.>"]
        # The parts of a stream that is backed up or restored.
        publish += ["$JS.SNAPSHOT.ACK.>", "$JS.SNAPSHOT.RESTORE.>"]
        return self._rights(OPERATOR, publish, f"{self._prefix}.>")

    def _rights(self, role: str, publish: list[str], *subscribe: str) -> Rights:
        agents = f"$KV.{self._streams.agents}.>"
        common = [f"{INBOX}.{role}.>", f"{self._prefix}.recheck.*", agents]
        return Rights(publish, [*common, *subscribe], self._never())

    def _never(self) -> list[str]:
        return [f"{self._prefix}.live.>"]

    def _buckets(self) -> list[str]:
        streams = self._streams
        names = streams.idempotency, streams.push, streams.keys, streams.threads
        return [f"KV_{name}" for name in names]

    def _making(self) -> list[str]:
        """All but workers: whichever starts first creates missing streams."""
        return [f"{_API}STREAM.INFO.*", f"{_API}STREAM.CREATE.*"]

    def _scheduling(self) -> list[str]:
        """Changing schedules and delayed runs, and recording what firings have done."""
        schedules, p = self._streams.schedules, self._prefix
        return [
            *(f"{p}.{kind}.*.*.*" for kind in ("schedule", "timer", "firing", "fired")),
            f"{p}.delayed.>",
            *_api("STREAM.MSG.GET", [schedules]),
            *_api("STREAM.PURGE", [schedules]),
        ]

    def _queues(self) -> list[str]:
        runs = self._streams.runs
        return [f"{_API}CONSUMER.LIST.{runs}", *_consumers((*_KEEPING, "DELETE"), runs)]

    def _api_for(self, group: WorkerGroup) -> Iterator[AccountExport]:
        streams = self._streams
        agents = f"KV_{streams.agents}"
        read = *self._events, f"OBJ_{streams.files}", f"KV_{streams.memory}"
        for stream in (*read, streams.runs, streams.dead, agents):
            yield AccountExport(f"{_API}STREAM.INFO.{stream}", api=True)
        for stream in (*read, agents):
            yield AccountExport(f"{_API}STREAM.MSG.GET.{stream}", api=True)
        for stream in read:
            yield AccountExport(f"{_API}DIRECT.GET.{stream}", many=True)
        yield AccountExport(f"{_API}CONSUMER.NAMES.{streams.runs}", api=True)
        for consumer in self._consumers(group):
            queue = f"{streams.runs}.{consumer}"
            yield AccountExport(f"{_API}CONSUMER.INFO.{queue}", api=True)
            yield AccountExport(f"{_API}CONSUMER.MSG.NEXT.{queue}", many=True)
            yield AccountExport(f"$JS.ACK.{queue}.>")

    def _consumers(self, group: WorkerGroup) -> Iterator[str]:
        if ANY_TENANT in self._tenants:
            yield "*"
            return
        pinned = [(agent, encode_token(version)) for agent, version in group.versions]
        for agent, version in [*((agent, "") for agent in group.agents), *pinned]:
            for tenant, priority in product(self._tenants, PRIORITIES):
                yield RunQueue(agent, tenant, priority, version).consumer

    def _subjects_for(self, group: WorkerGroup) -> Iterator[AccountExport]:
        streams, p = self._streams, self._prefix
        yield AccountExport(f"{p}.recheck.*")
        # Any worker may send these to task state, which checks requests about others' tasks.
        for operation in ("get", "list"):
            yield from self._questions(operation)
        yield AccountExport(self._subjects.state("more.>"))
        for agent in group.agents:
            yield AccountExport(f"{p}.event.*.*.{agent}.*.*")
            yield AccountExport(f"{p}.run.*.{agent}.*.*")
            yield AccountExport(f"{p}.run.*.{agent}.*.*.*")
            yield AccountExport(f"{p}.run.*.{agent}.*.*.*.*")
            yield AccountExport(f"{p}.dead.*.{agent}")
            for operation in FOR_WORKERS:
                yield from self._questions(f"{operation}.{agent}")
            yield AccountExport(f"$KV.{streams.agents}.card.{agent}")
            yield AccountExport(f"$KV.{streams.agents}.card.{agent}.*")
            yield AccountExport(f"$KV.{streams.agents}.live.{agent}.*")
            yield AccountExport(f"$O.{streams.files}.C.*.{agent}.*.*")
            yield AccountExport(f"$O.{streams.files}.M.*.{agent}.*.*")
            yield AccountExport(f"$KV.{streams.memory}.*.{agent}.>")

    def _questions(self, operation: str) -> Iterator[AccountExport]:
        for of_all in (False, True):
            yield AccountExport(self._subjects.state(operation, of_all=of_all))

    def _subscriptions_of(self, group: WorkerGroup) -> Iterator[AccountExport]:
        yield AccountExport(f"{self._prefix}.live.>", stream=True)
        for agent in group.agents:
            yield AccountExport(self._subjects.queue(agent), stream=True)

    def _core(self) -> str:
        exports: dict[AccountExport, list[str]] = {}
        for group in self._groups:
            for shared in self.imported(group):
                exports.setdefault(shared, []).append(group.account)
        return _account(
            ACCOUNT,
            ["jetstream: enabled"],
            users=[_user(role, self.rights(role)) for role in ROLES],
            exports=[_export(shared, accounts) for shared, accounts in exports.items()],
            imports=[
                _import(shared, group.account)
                for group in self._groups
                for shared in self.exported(group)
            ],
        )

    def _of_group(self, group: WorkerGroup) -> str:
        imported = self.imported(group)
        own = {one.subject: self._own(one.subject) for one in imported if one.api}
        mappings = [f"{_quoted(subject)}: {_quoted(_mapped(to))}" for subject, to in own.items()]
        return _account(
            group.account,
            [f"mappings: {{ {', '.join(mappings)} }}"],
            users=[_user(group.name, Rights([], [], self._never()))],
            exports=[_export(shared, [ACCOUNT]) for shared in self.exported(group)],
            imports=[_import(one, ACCOUNT, own.get(one.subject)) for one in imported],
        )

    def _own(self, subject: str) -> str:
        """Return the subject on which only the account that owns the streams serves an API."""
        return f"{self._prefix}.api.{subject.removeprefix(_API)}"


def _check(groups: Sequence[WorkerGroup]) -> None:
    served: dict[str, str] = {}
    for group in groups:
        if not _GROUP.fullmatch(group.name) or group.name in ROLES:
            rule = "must be lower-case letters, digits and '-', and not a service's name"
            raise InvalidName("group", group.name, rule)
        for agent in group.agents:
            check_agent_name(agent)
            if (other := served.setdefault(agent, group.name)) != group.name:
                raise InvalidName("agent", agent, f"is already served by group {other!r}")


def _answers_to(*roles: str) -> list[str]:
    """Return where a process tells operators, and gateways for them, what it is."""
    return [f"{INBOX}.{role}.{PROCESS_REPLIES}.>" for role in roles]


def _streams_of(subjects: Iterable[SubjectAccess]) -> list[str]:
    return list(dict.fromkeys(one.stream for one in subjects if one.stream))


def _api(operation: str, streams: Iterable[str]) -> list[str]:
    return [f"{_API}{operation}.{stream}" for stream in streams]


def _consumers(operations: Iterable[str], *streams: str) -> list[str]:
    return [f"{_API}CONSUMER.{what}.{stream}.>" for what, stream in product(operations, streams)]


def _variable(user: str) -> str:
    return f"HEADRACE_NATS_{user.upper().replace('-', '_')}_PASSWORD"


def _account(
    name: str, first: Iterable[str], *, users: list[str], exports: list[str], imports: list[str]
) -> str:
    lists = {"users": users, "exports": exports, "imports": imports}
    body = [f"    {line}" for line in first]
    for title, items in lists.items():
        body += [f"    {title}: [", *(f"      {item}" for item in items), "    ]"]
    return "\n".join([f"  {name} {{", *body, "  }"])


def _user(name: str, rights: Rights) -> str:
    publish = _lists(allow=rights.publish, deny=rights.never)
    subscribe = _lists(allow=rights.subscribe)
    permissions = f"{{ publish: {publish}, subscribe: {subscribe} }}"
    return f"{{ user: {_quoted(name)}, password: ${_variable(name)}, permissions: {permissions} }}"


def _lists(**lists: list[str]) -> str:
    given = [f"{name}: {json.dumps(subjects)}" for name, subjects in lists.items() if subjects]
    return f"{{ {', '.join(given)} }}"


def _mapped(subject: str) -> str:
    """Return the destination of a mapping whose source has at most one wildcard."""
    return subject.replace("*", "{{wildcard(1)}}")


def _export(shared: AccountExport, accounts: Iterable[str]) -> str:
    kind, many = "stream" if shared.stream else "service", f", {_MANY}" if shared.many else ""
    return f"{{ {kind}: {_quoted(shared.subject)}{many}, accounts: [{', '.join(accounts)}] }}"


def _import(shared: AccountExport, account: str, local: str | None = None) -> str:
    kind = "stream" if shared.stream else "service"
    to = f", to: {_quoted(local)}" if local else ""
    return f"{{ {kind}: {{ account: {account}, subject: {_quoted(shared.subject)} }}{to} }}"


def _quoted(text: str) -> str:
    return json.dumps(text)
