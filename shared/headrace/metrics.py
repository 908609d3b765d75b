"""The Prometheus metrics of all services.

Appends, runs, requests and batches are counted, tokens are not. Agent names are labels because
there are few of them. Tenants and owners are not.
"""

from prometheus_client import (
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)

from headrace.loop_metrics import LoopCounter, LoopHistogram

# They would add an unused series to each metric.
disable_created_metrics()  # type: ignore[no-untyped-call]

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

_LONG_SECONDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3600, 14400)

_INVOKE_AGENT_SECONDS = tuple(0.1 * 2**power for power in range(13))
_EXECUTE_TOOL_SECONDS = tuple(0.01 * 2**power for power in range(14))
"""Those that OpenTelemetry's GenAI conventions advise for these two: up to 409.6 and 81.92 s."""

BUILD = Gauge(
    "headrace_build_info",
    "Always 1; the labels name the service, Headrace's version and Python's.",
    ["service", "version", "python"],
)

LOOP_LAG_SECONDS = Histogram(
    "headrace_loop_lag_seconds",
    "Seconds by which a timer of the event loop fires too late, measured twice a second.",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
CONNECTIONS_TIMED_OUT = Counter(
    "headrace_connections_timed_out",
    "Connections that were closed because the client did not send or receive something in time, by "
    "what: request (its first byte), head, body, handshake (its answer), message (of a WebSocket), "
    "received (the rest of an answer), probe (all of one on the metrics port).",
    ["awaited"],
)
APPENDS = LoopCounter(
    "headrace_appends",
    "Appends to task logs, by outcome: stored, fenced, lost, full, unknown.",
    ["outcome"],
)
DISTURBANCES = Counter(
    "headrace_nats_disturbances",
    "Reconnects to NATS and slow-consumer errors, after which logs are read again.",
)
MESSAGES_DROPPED = Counter(
    "headrace_messages_dropped",
    "Messages over core NATS that were dropped, because too many waited to be handled.",
)
DEAD_LETTERS = Counter(
    "headrace_dead_letters",
    "Dead letters written, by kind: run, run-request, entry, push, event, other.",
    ["kind"],
)
DEAD_LETTERS_DROPPED = Counter(
    "headrace_dead_letters_dropped",
    "Dead letters that were not stored, because there was no room for them, by kind.",
    ["kind"],
)
for _kind in ("run", "run-request", "entry", "push", "event", "other"):
    DEAD_LETTERS.labels(_kind)
    DEAD_LETTERS_DROPPED.labels(_kind)

TRIGGER_EVENTS = Counter(
    "headrace_trigger_events",
    "Events and firings of schedules, by what became of them: began, letter, dropped, waits.",
    ["outcome"],
)
for _outcome in ("began", "letter", "dropped", "waits"):
    TRIGGER_EVENTS.labels(_outcome)
CHAIN_LIMITS = Counter(
    "headrace_chain_limits",
    "Answers that begin no task, or begin it later, by the limit: depth, tasks, rate.",
    ["limit"],
)
for _limit in ("depth", "tasks", "rate"):
    CHAIN_LIMITS.labels(_limit)

REQUEST_SECONDS = LoopHistogram(
    "headrace_request_seconds",
    "Duration of requests in seconds, of all protocols; for streams, until they open.",
    ["protocol", "binding", "operation"],
    buckets=SECONDS,
)
REQUESTS = LoopCounter(
    "headrace_requests",
    "Requests, by outcome: ok, refused (the client's error or a limit), unavailable (503), failed "
    "(an unexpected error), disconnected (the client did not wait).",
    ["protocol", "binding", "operation", "outcome"],
)
REFUSALS = Counter(
    "headrace_refusals",
    "Refused requests, by the reason in the error response.",
    ["reason"],
)

ATTEMPTS = LoopCounter(
    "headrace_attempts", "Attempts started by this worker.", ["agent", "version"]
)
RUNS_TAKEN_OVER = Counter(
    "headrace_runs_taken_over",
    "Runs this worker took over from another worker.",
    ["agent", "version"],
)
RUNS_ENDED = LoopCounter(
    "headrace_runs_ended",
    "Runs that this worker ended, by task state.",
    ["agent", "version", "state"],
)
QUEUE_WAIT_SECONDS = LoopHistogram(
    "headrace_queue_wait_seconds",
    "Seconds from the request of a run to the start of its first attempt.",
    ["agent", "version"],
    buckets=_LONG_SECONDS,
)
FIRST_EVENT_SECONDS = LoopHistogram(
    "headrace_first_event_seconds",
    "Seconds from the start of a run's last attempt to its first stored event.",
    ["agent", "version"],
    buckets=SECONDS,
)
RUN_SECONDS = LoopHistogram(
    "headrace_run_seconds",
    "Seconds from a run's input to its end, including the wait in the queue and all attempts.",
    ["agent", "version"],
    buckets=_LONG_SECONDS,
)
INVOKE_AGENT_SECONDS = LoopHistogram(
    "gen_ai_invoke_agent_duration_seconds",
    "Duration of attempts in seconds; error_type is empty for those that did not fail.",
    ["gen_ai_agent_name", "error_type"],
    buckets=_INVOKE_AGENT_SECONDS,
)
EXECUTE_TOOL_SECONDS = LoopHistogram(
    "gen_ai_execute_tool_duration_seconds",
    "Seconds from a tool call's complete arguments to its result, as agents emit them. After 100 "
    "names of tools in a process, further ones are _OTHER.",
    ["gen_ai_agent_name", "gen_ai_tool_name", "error_type"],
    buckets=_EXECUTE_TOOL_SECONDS,
)
TOKENS = LoopCounter(
    "headrace_tokens",
    "Tokens that agents reported for runs that this worker completed, by kind: input, output.",
    ["agent", "version", "kind"],
)
COST = LoopCounter(
    "headrace_cost",
    "Cost that agents reported for runs that this worker completed, in their currency.",
    ["agent", "version"],
)
RUNS_WORKING = Gauge(
    "headrace_runs_working", "Runs that this worker is working on.", ["agent", "version"]
)

QUOTA_WARNINGS = Counter(
    "headrace_quota_warnings",
    "Runs that began while a quota was nearly used up, or used up and not enforced, and requests "
    "near another limit, by its name.",
    ["quota"],
)

FOLLOWING = Gauge(
    "headrace_following",
    "1 while this replica applies a range; 0 if it waits for NATS or Redis, or does not hold it.",
    ["range"],
)
POSITION = Gauge(
    "headrace_position", "Last stream sequence that the holder of a range has applied.", ["range"]
)
LAG = Gauge("headrace_lag", "Messages that the holder of a range has not applied yet.", ["range"])
CLOCK_OFFSET = Gauge(
    "headrace_clock_offset_seconds",
    "Seconds by which the clock of NATS or Redis is ahead of this service's.",
    ["server"],
)
MAX_CLOCK_OFFSET = 1.0
"""Seconds by which clocks may differ before it is reported: deadlines are wrong by as much."""
RUNS_REQUESTED_AGAIN = Counter(
    "headrace_runs_requested_again",
    "Runs requested again: not started within HEADRACE_SWEEP_AFTER, or held by no worker.",
)
TASKS_PURGED = Counter("headrace_tasks_purged", "Tasks erased: expired or deleted.")
TASKS_EXPIRED = Counter(
    "headrace_tasks_expired", "Tasks canceled because no user input arrived in time."
)
PUSH_SECONDS = Histogram(
    "headrace_push_seconds",
    "Duration of webhook deliveries in seconds, by outcome: delivered, failed.",
    ["outcome"],
    buckets=SECONDS,
)
for _outcome in ("delivered", "failed"):
    PUSH_SECONDS.labels(_outcome)
