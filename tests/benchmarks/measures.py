"""Everything that is measured, in the order of the table."""

from tests.benchmarks import agui_runs, pace, replicas, runs, sockets, subscribers, triggered
from tests.benchmarks.contestants import HEADRACE, OFFICIAL, PLAIN
from tests.benchmarks.measure import Measure

_OURS = (HEADRACE,)
_ALL = (OFFICIAL, PLAIN, HEADRACE)

MEASURES = [
    Measure("one-stream", "one stream", "events/s", runs.one_stream, at_least=(10, 25)),
    Measure("many-streams", "50 streams at once", "events/s", runs.many_streams, at_least=(5, 12)),
    Measure(
        "short-runs",
        "short runs, 32 at once, streamed",
        "runs/s",
        runs.short_runs,
        at_least=(1.5, 3),
        of=_ALL,
    ),
    Measure(
        "short-runs-awaited",
        "the same by the blocking call",
        "runs/s",
        runs.short_runs_awaited,
        of=_ALL,
    ),
    Measure("first-event", "first event, idle, median", "ms", runs.first_event, at_most=(2, 1.2)),
    Measure("paced-alone", "yield to client, 1 stream x 20/s", "ms", pace.alone, of=_ALL),
    Measure("paced-few", "yield to client, 20 streams x 20/s", "ms", pace.few, of=_ALL),
    Measure("paced", "yield to client, 60 streams x 20/s", "ms", pace.usual, of=_ALL),
    Measure("paced-many", "yield to client, 300 streams x 20/s", "ms", pace.many, of=_ALL),
    Measure(
        "hundred",
        "one task to 100 subscribers",
        "events/s",
        subscribers.hundred,
        at_least=(25, 25),
    ),
    Measure("thousand", "one task to 1,000", "events/s", subscribers.thousand, of=_OURS),
    Measure(
        "other-replica",
        "latency through another replica",
        "ms",
        replicas.latency,
        limit=5,
    ),
    Measure("resume", "resume of 10,000 events", "ms", replicas.resume, limit=150, of=_OURS),
    Measure("idle", "memory of each of 10,000 idle", "KB", subscribers.idle, limit=20, of=_OURS),
    Measure("socket", "one stream over a WebSocket", "events/s", sockets.one, of=_OURS),
    Measure("socket-many", "50 streams over one WebSocket", "events/s", sockets.many, of=_OURS),
    Measure("agui", "one stream by AG-UI, beside plain Starlette", "events/s", agui_runs.sse),
    Measure("agui-binary", "the same in the binary form", "events/s", agui_runs.binary, of=_OURS),
    Measure("triggered", "NATS to a task's first event, at once", "events/s", triggered.burst),
    Measure("triggered-idle", "the same, one by one, median", "ms", triggered.one_by_one),
]
