"""The content of files that are too large for a log, for those who may see their task."""

import re
from collections.abc import Callable
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from headrace.jetstream.objects import FileInfo, FileStore
from headrace.model.messages import GetTask
from headrace.model.task import TaskKey
from headrace_gateway.call import Call, call_of
from headrace_gateway.server.endpoint import Endpoint
from headrace_gateway.services import Services
from headrace_gateway.tasks.ids import task_key

PATH = "/tasks/{task_id}/files/{name}"
"""Behind the path of an agent; `headrace.links` makes such addresses."""

_MEDIA_TYPE = re.compile(r"[!-~]+/[ -~]+")

_GUARDED = {
    # What an agent made is shown as nobody's page: it runs nothing, whatever it claims to be.
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
    # It never changes, and is for its owner alone.
    "Cache-Control": "private, max-age=31536000, immutable",
}


class FileDownload:
    """The route under which files are read."""

    def __init__(self, services: Services, answering: Callable[[Endpoint], Endpoint]) -> None:
        """Read files over `services`; `answering` answers whatever goes wrong."""
        self._services, self._files = services, FileStore(services.bus)
        self._answering = answering

    def routes(self, prefix: str) -> list[Route]:
        """Return the routes under `prefix`, the path of an agent or nothing."""
        return [Route(prefix + PATH, self._answering(self._download), methods=["GET"])]

    async def _download(self, request: Request) -> Response:
        """Answer with the file.

        Raises:
            NotPermitted, RateLimited: as `call_of`.
            TaskUnknown: no such task of this caller and agent.
            FileUnknown: the task has no such file.
            BusUnavailable, StateUnavailable: try again.
        """
        task = request.path_params["task_id"]
        key = await self._key(call_of(self._services, request, "GetTask", task=task), task)
        info = await self._files.info(key, request.path_params["name"])
        headers = {**_GUARDED, "ETag": f'"{info.digest}"'}
        if headers["ETag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        # Starlette answers HEAD with the headers alone, and reads nothing for it.
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
    """Return what is said of a file, of which type and name are as whoever made it put them."""
    # The server writes headers as they are; RFC 6266 quotes names so that none can end its.
    name = quote(info.filename or info.name, safe="")
    is_type = _MEDIA_TYPE.fullmatch(info.media_type) is not None
    return {
        "Content-Type": info.media_type if is_type else "application/octet-stream",
        "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
        "Content-Length": str(info.size),
    }
