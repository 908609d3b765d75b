"""What the OpenAPI document says of the fleet API."""

from collections.abc import Mapping

from pydantic import BaseModel

from headrace.model.events import Json
from headrace.model.messages import USAGE_GROUPS, ListedThread
from headrace.model.schedule import ScheduleFiring
from headrace.model.schedule_machine import ScheduleState
from headrace.model.task import STATES
from headrace.schedule_spec import BackFill, ScheduleSpec
from headrace.tasks.dead_letters import KINDS
from headrace.tasks.feedback import LONGEST_COMMENT, RATINGS
from headrace.trigger_firings import TriggerFailure, TriggerFiring
from headrace.trigger_spec import TriggerSpec
from headrace_gateway.call import AGENT, IDEMPOTENCY_KEY
from headrace_gateway.openapi.operation import (
    ANY_OBJECT,
    FLAG,
    INTEGER,
    NUMBER,
    SCHEMAS,
    TEXT,
    TIME,
    ApiOperation,
    ApiSection,
    answer,
    body,
    described,
    events,
    list_of,
    members,
    one_of,
    or_null,
    ref,
    whole,
)
from headrace_gateway.protocols.fleet import (
    dead_letters,
    dev_processes,
    feedback,
    fleet_state,
    own_letters,
    processes,
    schedules,
    task_log,
    task_rows,
    threads,
    triggers,
    usage,
    versions,
    watch,
    webhook_deliveries,
)
from headrace_gateway.protocols.fleet.processes import LogLevelChange
from headrace_gateway.protocols.fleet.threads import ThreadChange

_STATE = one_of(*sorted(STATES))
_LAST_EVENT_ID = {
    "Last-Event-ID": described(TEXT, "The id of the last event that the client has received.")
}
_OWNER = {"owner": described(TEXT, "For operators: the owner; without it, the caller.")}
_AFTER = described(INTEGER, "`next` of the page before.")


def _page(most: int) -> Mapping[str, Json]:
    return {"after": _AFTER, "limit": whole(1, most, 50)}


def _fields(model: type[BaseModel]) -> Mapping[str, Json]:
    """Return the schemas of a model's fields by their names in JSON."""
    schema = model.model_json_schema(ref_template=SCHEMAS + "{model}")
    fields: Mapping[str, Json] = schema["properties"]
    return fields


_NAMED_ONLY = list_of(members({"name": TEXT, "owner": TEXT}))
"""Declarations that this release can't read."""

_SCHEDULE: Json = members(
    {
        "name": TEXT,
        "owner": TEXT,
        "state": one_of(*(str(state) for state in ScheduleState)),
        "ended": or_null(described(TEXT, "Why it is over.")),
        "created": TIME,
        "next": or_null(described(TIME, "When it fires next.")),
        **{name: or_null(schema) for name, schema in _fields(ScheduleSpec).items()},
    },
    {
        "began": described(INTEGER, "Number of tasks that it has begun."),
        "skipped": described(INTEGER, "Number of firings that began none by a rule."),
        "waiting": described(INTEGER, "Number of firings that wait for the task before."),
        "firings": described(list_of(ref(ScheduleFiring)), "The last ones, newest first."),
    },
)

_TRIGGER: Json = members(
    {"name": TEXT, "agent": TEXT, "subject": TEXT, "owner": TEXT, "since": TIME},
    {
        **_fields(TriggerSpec),
        "problem": described(
            members({"at": TIME, "reason": TEXT}), "Why events begin no tasks at the moment."
        ),
        "waiting": or_null(described(INTEGER, "Number of events that wait in their stream.")),
        "firings": described(list_of(ref(TriggerFiring)), "The last ones, newest first."),
        "letters": described(INTEGER, "Number of events that became dead letters."),
        "dropped": described(INTEGER, "Number of events that were dropped."),
        "failures": described(list_of(ref(TriggerFailure)), "The last ones, newest first."),
    },
)

_LETTER: Mapping[str, Json] = {
    "id": INTEGER,
    "kind": one_of(*KINDS),
    "tenant": TEXT,
    "agent": TEXT,
    "task": or_null(TEXT),
    "at": TIME,
    "reason": TEXT,
}

_LETTER_IN_FULL: Json = members(
    {
        **_LETTER,
        "subject": TEXT,
        "stream": or_null(TEXT),
        "sequence": or_null(INTEGER),
        "headers": or_null(ANY_OBJECT),
        "headersLeftOut": INTEGER,
        "body": described(TEXT, "As text."),
        "bodyBase64": TEXT,
        "size": described(INTEGER, "Bytes of the whole body."),
        "sha256": or_null(described(TEXT, "Of the whole body, if it is cut here.")),
    }
)

_PROCESS: Json = members(
    {
        "service": TEXT,
        "process": TEXT,
        "release": TEXT,
        "reads": described(list_of(TEXT), "Versions of the bus contract."),
        "writes": TEXT,
        "logLevel": TEXT,
    }
)

_CANDIDATE: Json = members(
    {
        "version": TEXT,
        "percent": INTEGER,
        "tenants": list_of(TEXT),
        "headers": {"type": "object", "additionalProperties": TEXT},
    }
)

_VERSION: Json = members(
    {
        "version": TEXT,
        "current": FLAG,
        "candidate": or_null(ref("Candidate")),
        "workers": {"type": ["integer", "array"], "items": TEXT},
        "openTasks": or_null(INTEGER),
        "continuedBy": or_null(TEXT),
    }
)

_ROUTE: Json = members(
    {
        "agent": TEXT,
        "current": TEXT,
        "candidate": or_null(ref("Candidate")),
        "continuedBy": {"type": "object", "additionalProperties": TEXT},
    }
)

_TASK_ROW: Json = members(
    {
        "id": TEXT,
        "agent": TEXT,
        "owner": TEXT,
        "contextId": TEXT,
        "state": _STATE,
        "time": described(TIME, "When the task got its state."),
        "title": described(TEXT, "The beginning of the user's first message."),
        "text": described(TEXT, "The beginning of the status' message."),
    },
    {"status": described(ref("TaskStatus"), "Of a task that waits for its user, in full.")},
)

_ROW: Json = members(
    {
        "generation": INTEGER,
        "cursor": TEXT,
        "time": TIME,
        "writer": members(
            {
                "kind": described(TEXT, "worker, gateway, task-state, operator or another."),
                "id": described(TEXT, "Unique per attempt, or per request."),
            }
        ),
        "run": described(INTEGER, "The input that the event belongs to, by its generation."),
        "attempt": described(INTEGER, "0: no worker wrote it."),
        "state": described(_STATE, "After the entry that contains the event."),
        "type": one_of("task", "message", "statusUpdate", "artifactUpdate"),
        "event": ref("StreamResponse"),
    },
    {"owner": described(TEXT, "Whose task it is: in the row of generation 1.")},
)

_LOG: Json = members(
    {
        "task": TEXT,
        "log": TEXT,
        "first": described(INTEGER, "Generation of the oldest event that the log still has."),
        "head": described(INTEGER, "Generation of the newest event."),
        "state": described(TEXT, "The task's."),
        "events": list_of(ref("LogRow")),
        "next": or_null(described(TEXT, "The cursor for the next page.")),
        "feedback": described(or_null(ref("Feedback")), "On the page that reaches the end."),
    }
)

_COMMENT: Json = {"type": "string", "maxLength": LONGEST_COMMENT}
_FEEDBACK: Json = members({"rating": one_of(*RATINGS), "comment": _COMMENT, "time": TIME})
_TASK_FEEDBACK = answer(members({"task": TEXT, "feedback": or_null(ref("Feedback"))}))

_FLEET: Json = members(
    {
        "at": TIME,
        "agents": list_of(
            members(
                {
                    "name": TEXT,
                    "title": TEXT,
                    "description": TEXT,
                    "available": FLAG,
                    "card": TEXT,
                },
                {"workers": list_of(TEXT)},
            )
        ),
        "operations": list_of(TEXT),
    },
    {
        "development": FLAG,
        "workers": list_of(
            members(
                {
                    "id": TEXT,
                    "agents": list_of(TEXT),
                    "heartbeatSeconds": described(NUMBER, "Since this gateway saw its last sign."),
                }
            )
        ),
        "queues": list_of(
            members(
                {
                    "agent": TEXT,
                    "priority": TEXT,
                    "waiting": described(INTEGER, "Runs that no worker has received yet."),
                    "running": described(INTEGER, "Runs that have not ended, asleep included."),
                    "oldestSeconds": or_null(described(NUMBER, "Age of the oldest waiting run.")),
                },
                {"version": TEXT},
            )
        ),
        "ranges": list_of(
            members(
                {
                    "stream": TEXT,
                    "head": INTEGER,
                    "position": or_null(described(INTEGER, "Up to which task state has applied.")),
                    "lag": or_null(INTEGER),
                }
            )
        ),
        "streams": list_of(
            members(
                {
                    "name": TEXT,
                    "messages": INTEGER,
                    "bytes": INTEGER,
                    "maxBytes": or_null(INTEGER),
                    "replicas": INTEGER,
                    "currentReplicas": INTEGER,
                }
            )
        ),
        "gateway": members({"version": TEXT, "openStreams": INTEGER, "openRequests": INTEGER}),
        "rates": members({"entriesPerSecond": or_null(NUMBER), "runsPerSecond": or_null(NUMBER)}),
    },
)

_USAGE: Json = members(
    {
        "tenant": TEXT,
        "from": {"type": "string", "format": "date"},
        "to": {"type": "string", "format": "date"},
        "rows": list_of(
            members(
                {
                    "inputTokens": INTEGER,
                    "outputTokens": INTEGER,
                    "tokens": INTEGER,
                    "cost": NUMBER,
                    "runs": INTEGER,
                    "runSeconds": NUMBER,
                },
                dict.fromkeys(USAGE_GROUPS, TEXT),
            )
        ),
    },
    {"owner": TEXT},
)

_DELIVERY: Json = members(
    {
        "id": INTEGER,
        "agent": TEXT,
        "task": TEXT,
        "webhook": TEXT,
        "queued": described(TIME, "When its newest event was queued."),
    },
    {
        "owner": TEXT,
        "receiver": described(TEXT, "Scheme and host of the webhook's URL."),
        "delivered": described(INTEGER, "Generation of the last event delivered or abandoned."),
        "attempts": described(INTEGER, "At the current delivery."),
        "due": or_null(described(TIME, "When the next attempt begins; null: at once.")),
        "lastError": or_null(TEXT),
    },
)

_DEV_PROCESSES: Json = members(
    {
        "processes": list_of(
            members(
                {
                    "role": TEXT,
                    "index": INTEGER,
                    "pid": or_null(INTEGER),
                    "port": or_null(INTEGER),
                    "running": FLAG,
                    "worker": or_null(TEXT),
                }
            )
        )
    }
)

_LETTERS = answer(members({"letters": list_of(ref("DeadLetterSummary")), "next": or_null(INTEGER)}))
_IDS = body(members({"ids": {"type": "array", "items": INTEGER, "minItems": 1, "maxItems": 100}}))
_RESULTS = answer(
    members(
        {
            "results": list_of(
                members(
                    {"id": INTEGER},
                    {
                        "outcome": TEXT,
                        "task": or_null(TEXT),
                        "error": members({"code": TEXT, "message": TEXT}),
                    },
                )
            )
        }
    )
)

_ONE_SCHEDULE, _ONE_TRIGGER = f"{schedules.PATH}/{{name}}", f"{triggers.PATH}/{{name}}"
_A_SCHEDULE, _A_TRIGGER = answer(ref("Schedule")), answer(ref("Trigger"))


def _tasks() -> tuple[ApiOperation, ...]:
    return (
        ApiOperation(
            "GET",
            f"{AGENT}{task_log.PATH}",
            "ReadLog",
            "Read a task's log, page by page or as events",
            events("A page, or the events from there on. 204: nothing follows.", ref("LogPage")),
            query={
                "after": described(TEXT, "A generation or a cursor."),
                "limit": whole(1, 1000, 100),
            },
            headers=_LAST_EVENT_ID,
        ),
        ApiOperation(
            "GET",
            f"{AGENT}{watch.PATH}",
            "WatchTasks",
            "Follow the changes of a list of tasks",
            events("`list`: request the list now. `change`: a task began, or changed its state."),
            query={"contextId": TEXT, "status": list_of(_STATE), **_OWNER},
            headers=_LAST_EVENT_ID,
        ),
        ApiOperation(
            "GET",
            f"{AGENT}{feedback.PATH}",
            "GetFeedback",
            "Get the feedback on a task",
            _TASK_FEEDBACK,
        ),
        ApiOperation(
            "PUT",
            f"{AGENT}{feedback.PATH}",
            "PutFeedback",
            "Give feedback on one's own task, or withdraw it",
            _TASK_FEEDBACK,
            body=body(members({"rating": or_null(one_of(*RATINGS))}, {"comment": _COMMENT})),
        ),
        ApiOperation(
            "POST",
            f"{AGENT}/tasks/{{task}}:fail",
            "FailTask",
            "End a task as failed",
            answer(members({"task": TEXT, "state": _STATE})),
            body=body(
                members({}, {"reason": {"type": "string", "minLength": 1, "maxLength": 1000}}),
                may_be_empty=True,
            ),
        ),
    )


def _lists() -> tuple[ApiOperation, ...]:
    of_agents: Mapping[str, Json] = {
        "agent": described(list_of(TEXT), "Only tasks of these agents."),
        "own": described(FLAG, "For operators, too: only the caller's own tasks."),
        **_OWNER,
    }
    return (
        ApiOperation(
            "GET",
            task_rows.PATH,
            "ListAllTasks",
            "List the tasks of all agents, and count them by state",
            answer(
                members(
                    {
                        "tasks": list_of(ref("TaskRow")),
                        "counts": {"type": "object", "additionalProperties": INTEGER},
                        "totalSize": INTEGER,
                        "next": or_null(TEXT),
                        "searchedTo": described(
                            or_null(TIME), "How far `q` was searched for, if tasks are left."
                        ),
                    }
                )
            ),
            query={
                **of_agents,
                "status": described(list_of(_STATE), "Only tasks in these states."),
                "q": described(TEXT, "A text in the first message or the status, or of the id."),
                "contextId": TEXT,
                "statusTimestampAfter": TIME,
                "order": one_of("newest", "oldest"),
                "limit": whole(1, 200, 50),
                "after": described(TEXT, "`next` of the page before."),
            },
        ),
        ApiOperation(
            "GET",
            watch.ALL_PATH,
            "WatchAllTasks",
            "Follow the changes of the list of all agents' tasks",
            events("`list`: request the list now. `change`: a task began, or changed its state."),
            query={"contextId": TEXT, "status": list_of(_STATE), **of_agents},
            headers=_LAST_EVENT_ID,
        ),
    )


def _threads() -> tuple[ApiOperation, ...]:
    page = members({"threads": list_of(ref(ListedThread)), "total": INTEGER, "next": or_null(TEXT)})
    one = f"{threads.PATH}/{{thread}}"
    return (
        ApiOperation(
            "GET",
            threads.PATH,
            "ListThreads",
            "List an owner's threads, the one that was changed last first",
            answer(page),
            query={
                "agent": described(TEXT, "Only threads with a task of this agent."),
                "q": described(TEXT, "A text in the title or the last message, in any case."),
                "archived": one_of("false", "true", "any"),
                "after": described(TEXT, "`next` of the page before."),
                "limit": whole(1, 100, 50),
                **_OWNER,
            },
        ),
        ApiOperation(
            "GET", one, "ShowThread", "Get a thread", answer(ref(ListedThread)), query=_OWNER
        ),
        ApiOperation(
            "GET",
            f"{one}/events",
            "FollowThread",
            "Follow all runs of a thread, those that begin later included",
            events("The events of each run, and `erased`: the task was erased."),
            query=_OWNER,
            headers=_LAST_EVENT_ID,
        ),
        ApiOperation(
            "PATCH",
            one,
            "ChangeThread",
            "Rename or archive a thread, or mark it as read",
            answer(ref(ListedThread)),
            body=body(ref(ThreadChange)),
        ),
        ApiOperation(
            "DELETE",
            one,
            "DeleteThread",
            "Erase a thread with its tasks",
            answer(members({"deleted": TEXT})),
        ),
    )


def _fleet() -> tuple[ApiOperation, ...]:
    processes_answer = answer(members({"processes": list_of(ref("Process"))}))
    return (
        ApiOperation(
            "GET",
            fleet_state.PATH,
            "GetFleet",
            "Get the state of the fleet, or follow its changes",
            events("The state, or the events `fleet` and `change`.", ref("Fleet")),
        ),
        ApiOperation(
            "GET",
            usage.PATH,
            "GetUsage",
            "Get what runs have used",
            answer(ref("Usage")),
            query={
                "from": described(TEXT, "The first day, such as 2030-01-31; without it, `to`."),
                "to": described(TEXT, "The last day; without it, today in UTC."),
                "by": described(TEXT, f"tenant, or some of {', '.join(USAGE_GROUPS)}."),
                **_OWNER,
            },
        ),
        ApiOperation(
            "GET",
            webhook_deliveries.PATH,
            "ListWebhookDeliveries",
            "List the webhooks that have events to deliver",
            answer(members({"deliveries": list_of(ref("Delivery")), "next": or_null(INTEGER)})),
            query={"agent": TEXT, "task": TEXT, **_page(200)},
        ),
        ApiOperation(
            "GET", processes.PATH, "ListProcesses", "List the running processes", processes_answer
        ),
        ApiOperation(
            "POST",
            f"{processes.PATH}:logLevel",
            "SetLogLevel",
            "Change the log level of processes until they end",
            processes_answer,
            body=body(ref(LogLevelChange)),
        ),
        ApiOperation(
            "POST",
            "/v1/workers/{worker}:drain",
            "DrainWorker",
            "Have a worker end once its runs have ended",
            answer(members({"worker": TEXT, "agent": TEXT, "runs": INTEGER})),
            query={"agent": described(TEXT, "One of its agents, if it is not in the directory.")},
        ),
        ApiOperation(
            "POST",
            "/v1/signing-keys:rotate",
            "RotateSigningKey",
            "Replace the key with which the fleet signs",
            answer(members({"kid": TEXT, "usedInSeconds": NUMBER, "replaced": list_of(TEXT)})),
            body=body(members({}, {"atOnce": FLAG}), may_be_empty=True),
        ),
        ApiOperation(
            "GET",
            dev_processes.PATH,
            "ListDevProcesses",
            "List the processes of a development stack",
            answer(_DEV_PROCESSES),
        ),
        ApiOperation(
            "POST",
            f"{dev_processes.PATH}/{{role}}/{{index}}:kill",
            "KillProcess",
            "Kill a process of a development stack",
            answer(_DEV_PROCESSES),
        ),
    )


def _versions() -> tuple[ApiOperation, ...]:
    version = {"version": TEXT}
    return (
        ApiOperation(
            "GET",
            f"{versions.PATH}/versions",
            "GetAgentVersions",
            "List the versions of an agent",
            answer(members({"agent": TEXT, "versions": list_of(ref("Version"))})),
        ),
        ApiOperation(
            "POST",
            f"{versions.PATH}:route",
            "RouteAgent",
            "Send all or some of the new tasks to a version",
            answer(ref("Route")),
            body=body(
                members(
                    version,
                    {
                        "percent": {"type": "integer", "minimum": 0, "maximum": 100},
                        "tenants": list_of(TEXT),
                        "headers": {"type": "object", "additionalProperties": TEXT},
                    },
                )
            ),
        ),
        ApiOperation(
            "POST",
            f"{versions.PATH}:rollback",
            "RollBackAgent",
            "Send new tasks to the version before",
            answer(ref("Route")),
            body=body(
                members({}, {"move": described(FLAG, "Open tasks, too.")}), may_be_empty=True
            ),
        ),
        ApiOperation(
            "POST",
            f"{versions.PATH}:retire",
            "RetireAgentVersion",
            "Forget a version",
            answer(members({"agent": TEXT, **version, "movedTasks": or_null(INTEGER)})),
            body=body(
                members(version, {"moveTo": described(TEXT, "What continues its open tasks.")})
            ),
        ),
    )


def _schedules() -> tuple[ApiOperation, ...]:
    return (
        ApiOperation(
            "GET",
            schedules.PATH,
            "ListSchedules",
            "List schedules",
            answer(
                members(
                    {"schedules": list_of(ref("Schedule")), "next": or_null(INTEGER)},
                    {"unreadable": _NAMED_ONLY},
                )
            ),
            query={**_page(200), **_OWNER},
        ),
        ApiOperation(
            "GET", _ONE_SCHEDULE, "GetSchedule", "Get a schedule", _A_SCHEDULE, query=_OWNER
        ),
        ApiOperation(
            "PUT",
            _ONE_SCHEDULE,
            "PutSchedule",
            "Create or replace a schedule",
            _A_SCHEDULE,
            body=body(ref(ScheduleSpec)),
        ),
        ApiOperation(
            "DELETE",
            _ONE_SCHEDULE,
            "DeleteSchedule",
            "Delete a schedule; its tasks stay",
            answer(members({})),
            query=_OWNER,
        ),
        *(
            ApiOperation(
                "POST", f"{_ONE_SCHEDULE}:{verb}", name, summary, _A_SCHEDULE, query=_OWNER
            )
            for verb, name, summary in (
                ("pause", "PauseSchedule", "Let a schedule fire no more until it is resumed"),
                ("resume", "ResumeSchedule", "Let a paused schedule fire again"),
            )
        ),
        ApiOperation(
            "POST",
            f"{_ONE_SCHEDULE}:run",
            "RunSchedule",
            "Fire a schedule once, now",
            _A_SCHEDULE,
            headers={IDEMPOTENCY_KEY: TEXT},
        ),
        ApiOperation(
            "POST",
            f"{_ONE_SCHEDULE}:backfill",
            "BackFillSchedule",
            "Fire a schedule for each of its times in a range that is over",
            answer(members({"firings": INTEGER})),
            body=body(ref(BackFill)),
        ),
        *_own_letters(_ONE_SCHEDULE, "Schedule"),
    )


def _triggers() -> tuple[ApiOperation, ...]:
    return (
        ApiOperation(
            "GET",
            triggers.PATH,
            "ListTriggers",
            "List triggers",
            answer(members({"triggers": list_of(ref("Trigger"))}, {"unreadable": _NAMED_ONLY})),
            query=_OWNER,
        ),
        ApiOperation("GET", _ONE_TRIGGER, "GetTrigger", "Get a trigger", _A_TRIGGER, query=_OWNER),
        ApiOperation(
            "PUT",
            _ONE_TRIGGER,
            "PutTrigger",
            "Create or change a trigger; its name is the path's",
            {**_A_TRIGGER, **answer(ref("Trigger"), "Created.", status=201)},
            body=body(ref("TriggerBody")),
        ),
        ApiOperation(
            "DELETE",
            _ONE_TRIGGER,
            "DeleteTrigger",
            "Delete a trigger; its tasks stay",
            answer(members({"deleted": TEXT})),
            query=_OWNER,
        ),
        *(
            ApiOperation("POST", f"{_ONE_TRIGGER}:{verb}", name, summary, _A_TRIGGER, query=_OWNER)
            for verb, name, summary in (
                ("pause", "PauseTrigger", "Let a trigger's events wait in their stream"),
                ("resume", "ResumeTrigger", "Let the events of a paused trigger begin tasks"),
            )
        ),
        *_own_letters(_ONE_TRIGGER, "Trigger"),
    )


def _own_letters(path: str, kind: str) -> tuple[ApiOperation, ...]:
    whose = f"of one's own {kind.lower()}"
    return (
        ApiOperation(
            "GET",
            f"{path}{own_letters.PATH}",
            f"List{kind}Letters",
            f"List the dead letters {whose}",
            _LETTERS,
            query=_page(1000),
        ),
        ApiOperation(
            "GET",
            f"{path}{own_letters.PATH}/{{number}}",
            f"Get{kind}Letter",
            f"Get a dead letter {whose}",
            answer(ref("DeadLetterInFull")),
        ),
    )


def _letters() -> tuple[ApiOperation, ...]:
    return (
        ApiOperation(
            "GET",
            dead_letters.PATH,
            "ListDeadLetters",
            "List dead letters, oldest first",
            _LETTERS,
            query={"agent": TEXT, "kind": one_of(*KINDS), "task": TEXT, **_page(1000)},
        ),
        ApiOperation(
            "GET",
            f"{dead_letters.PATH}/{{number}}",
            "GetDeadLetter",
            "Get a dead letter",
            answer(ref("DeadLetterInFull")),
        ),
        ApiOperation(
            "POST",
            f"{dead_letters.PATH}:retry",
            "RetryDeadLetter",
            "Retry dead letters, and drop them",
            _RESULTS,
            body=_IDS,
        ),
        ApiOperation(
            "POST",
            f"{dead_letters.PATH}:drop",
            "DropDeadLetter",
            "Drop dead letters",
            _RESULTS,
            body=_IDS,
        ),
    )


SECTION = ApiSection(
    "Fleet",
    "Logs, lists and usage of tasks, triggers and schedules, and what operators see and do.",
    (
        *_lists(),
        *_tasks(),
        *_threads(),
        *_fleet(),
        *_versions(),
        *_schedules(),
        *_triggers(),
        *_letters(),
    ),
    error=ref("Error"),
    schemas={
        "Schedule": _SCHEDULE,
        "Trigger": _TRIGGER,
        "TriggerBody": members(
            {"agent": TEXT, "subject": TEXT},
            {name: one for name, one in _fields(TriggerSpec).items() if name != "name"},
        ),
        "DeadLetterSummary": members(_LETTER),
        "DeadLetterInFull": _LETTER_IN_FULL,
        "Process": _PROCESS,
        "Candidate": _CANDIDATE,
        "Version": _VERSION,
        "Route": _ROUTE,
        "TaskRow": _TASK_ROW,
        "LogRow": _ROW,
        "LogPage": _LOG,
        "Feedback": _FEEDBACK,
        "Fleet": _FLEET,
        "Usage": _USAGE,
        "Delivery": _DELIVERY,
    },
    models=(
        ScheduleSpec,
        ScheduleFiring,
        BackFill,
        TriggerSpec,
        TriggerFiring,
        TriggerFailure,
        LogLevelChange,
        ListedThread,
        ThreadChange,
    ),
)
