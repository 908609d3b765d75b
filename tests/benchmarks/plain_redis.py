"""What people write by hand: a Starlette route that streams a counter run over a Redis Stream.

The agent runs in the server and adds each event to the run's stream; the route reads the stream, as
a client that reconnects to another replica would. No leases, no fencing, no view, no owners.

Run as ``python -m tests.benchmarks.plain_redis REDIS_URL``; prints ``ready <url>``.
"""

import asyncio
import socket
import sys
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

import orjson
import uvicorn
from redis.asyncio import BlockingConnectionPool, Redis
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

_KEPT = 3600
_BLOCK_MS = 5000

type Json = dict[str, Any]


class Runs:
    """Runs of the agent, each with a stream in Redis."""

    def __init__(self, url: str) -> None:
        """Keep runs at `url`."""
        pool = BlockingConnectionPool.from_url(url, max_connections=1000, timeout=None)
        self._redis = Redis(connection_pool=pool)
        self._running = set[asyncio.Task[None]]()

    async def answer(self, request: Request) -> Response:
        """Start the run of a request, JSON-RPC or REST, and stream its events or await its end."""
        call = orjson.loads(await request.body())
        [part] = call.get("params", call)["message"]["parts"]
        task = str(uuid.uuid4())
        run = asyncio.create_task(self._run(task, part["text"]))
        self._running.add(run)
        run.add_done_callback(self._running.discard)
        envelope = {"jsonrpc": "2.0", "id": call["id"]} if "id" in call else None
        if call.get("method", request.url.path) in {"SendStreamingMessage", "/message:stream"}:
            return StreamingResponse(self._frames(envelope, task), media_type="text/event-stream")
        text = "".join([text async for event in self._events(task) if (text := _text(event))])
        artifact = {"artifactId": "count", "parts": [{"text": text}]}
        result = {"task": _task(task, "TASK_STATE_COMPLETED") | {"artifacts": [artifact]}}
        return JSONResponse(_wrapped(envelope, result))

    async def _run(self, task: str, prompt: str) -> None:
        count, delay, hold = (*map(int, prompt.split()), 0, 0)[:3]
        await self._add(task, {"task": _task(task, "TASK_STATE_SUBMITTED")})
        await self._add(task, {"statusUpdate": _status(task, "TASK_STATE_WORKING")})
        await asyncio.sleep(hold / 1000)
        for number in range(1, count + 1):
            text = f"{number} {time.time_ns()} " if hold else f"{number} "
            artifact = {"artifactId": "count", "parts": [{"text": text}]}
            update = {"taskId": task, "contextId": task, "artifact": artifact, "append": number > 1}
            await self._add(task, {"artifactUpdate": update})
            if delay:
                await asyncio.sleep(delay / 1000)
        await self._add(task, {"statusUpdate": _status(task, "TASK_STATE_COMPLETED")})
        await self._redis.expire(task, _KEPT)

    async def _add(self, task: str, event: Json) -> None:
        await self._redis.xadd(task, {"event": orjson.dumps(event)})

    async def _events(self, task: str) -> AsyncIterator[Json]:
        last = b"0"
        while True:
            found: Any = await self._redis.xread({task: last}, block=_BLOCK_MS)
            for name, fields in (entry for _, entries in found or () for entry in entries):
                last = name
                event = orjson.loads(fields[b"event"])
                yield event
                if event.get("statusUpdate", {}).get("status", {}).get("state") == _END:
                    return

    async def _frames(self, envelope: Json | None, task: str) -> AsyncIterator[bytes]:
        async for event in self._events(task):
            yield b"data: " + orjson.dumps(_wrapped(envelope, event)) + b"\n\n"


_END = "TASK_STATE_COMPLETED"


def _wrapped(envelope: Json | None, result: Json) -> Json:
    return result if envelope is None else envelope | {"result": result}


def _task(task: str, state: str) -> Json:
    return {"id": task, "contextId": task, "status": {"state": state}}


def _status(task: str, state: str) -> Json:
    return {"taskId": task, "contextId": task, "status": {"state": state}}


def _text(event: Json) -> str:
    parts = event.get("artifactUpdate", {}).get("artifact", {}).get("parts", [])
    return "".join(part["text"] for part in parts)


def main() -> None:
    """Serve on a free port until ended."""
    answer, paths = Runs(sys.argv[1]).answer, ("/", "/message:stream", "/message:send")
    app = Starlette(routes=[Route(path, answer, methods=["POST"]) for path in paths])
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    sys.stdout.write(f"ready http://127.0.0.1:{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    config = uvicorn.Config(
        app, loop="uvloop", http="httptools", log_level="warning", access_log=False
    )
    uvicorn.Server(config).run([listener])


if __name__ == "__main__":
    main()
