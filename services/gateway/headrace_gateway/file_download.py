"""Downloads of files that are too large for a log, for callers that may see their task."""

import re
from collections.abc import Callable
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from headrace.jetstream.objects import FileInfo, FileStore
from headrace.model.messages import GetTask
from headrace.model.task import TaskKey
from headrace_gateway.call import Call, call_of
from headrace_gateway.server.open_requests import Endpoint
from headrace_gateway.server.route import Route
from headrace_gateway.services import Services
from headrace_gateway.tasks.ids import task_key

PATH = "/tasks/{task_id}/files/{name}"
"""Path after an agent's path; `headrace.links` creates such addresses."""

_MEDIA_TYPE = re.compile(r"[!-~]+/[ -~]+")

_GUARDED = {
    # Files come from agents, so a browser must not run them, whatever their type claims to be.
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
    # A file never changes, and only its owner may cache it.
    "Cache-Control": "private, max-age=31536000, immutable",
}


class FileDownload:
    """The route for downloads."""

    def __init__(self, services: Services, answering: Callable[[Endpoint], Endpoint]) -> None:
        """Read files with `services`; `answering` adds error handling."""
        self._services, self._files = services, FileStore(services.bus)
        self._answering = answering

    def routes(self, prefix: str) -> list[Route]:
        """Return the routes under `prefix`, an agent's path or nothing."""
        return [Route(prefix + PATH, self._answering(self._download), methods=["GET"])]

    async def _download(self, request: Request) -> Response:
        """Return the file as a response."""
        task = request.path_params["task_id"]
        call = await call_of(self._services, request, "GetTask", task=task)
        key = await self._key(call, task)
        info = await self._files.info(key, request.path_params["name"])
        headers = {**_GUARDED, "ETag": f'"{info.digest}"'}
        if headers["ETag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        # For HEAD, Starlette sends the headers only, and does not read the file.
        return StreamingResponse(self._files.chunks(key, info), 200, headers | headers_of(info))

    async def _key(self, call: Call, task: str) -> TaskKey:
        key = task_key(self._services.settings, call.caller, call.agent, task)
        owned = GetTask(
            tenant=key.tenant,
            owner=call.caller.owner,
            any_owner=call.caller.operates(call.agent, "GetTask"),
            agent=key.agent,
            task=key.task,
            history_length=0,
        )
        await self._services.state.get(owned)
        return key


def headers_of(info: FileInfo) -> dict[str, str]:
    """Return a file's headers; its type and name come from its creator and are not trusted."""
    # The server does not escape headers; RFC 6266 encoding keeps a name from ending its header.
    name = quote(info.filename or info.name, safe="")
    is_type = _MEDIA_TYPE.fullmatch(info.media_type) is not None
    return {
        "Content-Type": info.media_type if is_type else "application/octet-stream",
        "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
        "Content-Length": str(info.size),
    }
