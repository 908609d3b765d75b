"""What every service counts, declared once: names, labels and meanings, in Prometheus's terms.

Nothing is counted per token: an append, a run, a request, a batch are. Names of tenants and owners
are no labels; names of agents are, of which there are few.
"""

from prometheus_client import (
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)

# A series more for each, of no use to anybody here.
disable_created_metrics()  # type: ignore[no-untyped-call]

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

APPENDS = Counter(
    "headrace_appends",
    "Appends to logs by outcome: stored, fenced, lost, full, unknown.",
    ["outcome"],
)
DISTURBANCES = Counter(
    "headrace_nats_disturbances",
    "Reconnects to NATS and overrun subscriptions, after which logs are read again.",
)
DEAD_LETTERS = Counter(
    "headrace_dead_letters",
    "Dead letters written by kind: run, run-request, entry, push.",
    ["kind"],
)

REQUEST_SECONDS = Histogram(
    "headrace_request_seconds",
    "Seconds of A2A operations, on every binding; of streams, until they open.",
    ["operation"],
    buckets=_SECONDS,
)
REFUSALS = Counter(
    "headrace_refusals",
    "Requests that were refused, by the reason that clients are told.",
    ["reason"],
)

RUNS_TAKEN = Counter(
    "headrace_runs_taken", "Runs that workers have taken up, each attempt once.", ["agent"]
)
RUNS_TAKEN_OVER = Counter(
    "headrace_runs_taken_over", "Those of them that somebody else had before.", ["agent"]
)
RUNS_ENDED = Counter(
    "headrace_runs_ended",
    "Runs that workers have brought to an end, by the state.",
    ["agent", "state"],
)
RUNS_WORKING = Gauge("headrace_runs_working", "Runs that this worker holds.", ["agent"])

FOLLOWING = Gauge(
    "headrace_following",
    "1 while this replica applies a range, 0 while it waits for NATS or Redis or holds it not.",
    ["range"],
)
POSITION = Gauge(
    "headrace_position", "Stream sequence up to which a range is applied, by its holder.", ["range"]
)
LAG = Gauge("headrace_lag", "Messages that a range has still to apply, by its holder.", ["range"])
CLOCK_OFFSET = Gauge(
    "headrace_clock_offset_seconds",
    "How far the clock of NATS or Redis is ahead of this task state's.",
    ["server"],
)
RUNS_ASKED_AGAIN = Counter(
    "headrace_runs_asked_again",
    "Runs asked for again: no worker had begun them in time, or nobody held them.",
)
TASKS_PURGED = Counter("headrace_tasks_purged", "Tasks removed: past retention, or deleted.")
TASKS_EXPIRED = Counter("headrace_tasks_expired", "Tasks canceled: no user input came in time.")
PUSH_SECONDS = Histogram(
    "headrace_push_seconds",
    "Seconds of attempts to tell a webhook, by outcome: taken, failed.",
    ["outcome"],
    buckets=_SECONDS,
)
