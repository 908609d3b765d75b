"""Downloads of files that are too large for a log: with credentials, or by a signed URL."""

import re
from collections.abc import Callable, Mapping
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from headrace.jetstream.objects import FileInfo, FileStore
from headrace.model.task import TaskKey
from headrace_gateway.call import AGENT, Call, begin_as, call_of
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.server.auth.signed_urls import LIFETIME, READ, SIGNED_PATH, SignedFile
from headrace_gateway.server.json_response import NO_STORE, json_response
from headrace_gateway.server.open_requests import Endpoint
from headrace_gateway.server.public_url import public_url
from headrace_gateway.services import Services
from headrace_gateway.tasks.ids import query_of, task_key

PATH = "/tasks/{task_id}/files/{name}"
"""Path after an agent's path; `headrace.links` creates such addresses."""

_MEDIA_TYPE = re.compile(r"[!-.0-~]+/[ -~]+")

_GUARDED = {
    # Files come from agents, so a browser must not run them, whatever their type claims to be.
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
}

_BY_CREDENTIALS = _GUARDED | {
    # A file never changes, and only its owner may cache it.
    "Cache-Control": "private, max-age=31536000, immutable",
}

_BY_SIGNATURE = _GUARDED | {
    "Cache-Control": f"private, max-age={LIFETIME}",
    # A page that isolates itself (COEP) may show it, too.
    "Cross-Origin-Resource-Policy": "cross-origin",
}


class FileDownload:
    """The routes for downloads."""

    def __init__(self, services: Services, map_errors: Callable[[Endpoint], Endpoint]) -> None:
        """Read files with `services`; `map_errors` adds error handling."""
        self._services, self._files = services, FileStore(services.bus)
        self._map_errors = map_errors

    def routes(self) -> list[Route]:
        """Return the routes."""
        by_agent = (
            Route(f"{prefix}{PATH}{verb}", self._map_errors(endpoint), methods=[method])
            for prefix in (AGENT, "")
            for method, verb, endpoint in (
                ("POST", ":sign", self._sign),
                ("GET", "", self._download),
            )
        )
        signed = Route(SIGNED_PATH, self._map_errors(self._download_signed), methods=["GET"])
        return [*by_agent, signed]

    async def _download(self, request: Request) -> Response:
        """Return the file as a response."""
        call = await self._call(request)
        params = request.path_params
        found = await self._find(call.caller, call.agent, params["task_id"], params["name"])
        return self._response(request, *found, _BY_CREDENTIALS)

    async def _sign(self, request: Request) -> Response:
        """Return a URL by which the file can be downloaded without credentials for a while."""
        call = await self._call(request)
        caller, params = call.caller, request.path_params
        key, info = await self._find(caller, call.agent, params["task_id"], params["name"])
        path = await self._services.signed_urls.path_of(
            SignedFile(
                tenant=caller.tenant,
                owner=caller.owner,
                operates=caller.operates(call.agent, READ),
                agent=key.agent,
                task=key.task,
                name=info.name,
            )
        )
        url = public_url(request, self._services.settings) + path
        return json_response({"url": url, "expiresInSeconds": LIFETIME}, headers=NO_STORE)

    async def _download_signed(self, request: Request) -> Response:
        """Return the file that a signed URL permits to read, as a response."""
        file = await self._services.signed_urls.file_of(request.path_params["sealed"])
        caller = file.caller
        await begin_as(self._services, request, caller, READ, agent=file.agent, task=file.task)
        found = await self._find(caller, file.agent, file.task, file.name)
        return self._response(request, *found, _BY_SIGNATURE)

    async def _call(self, request: Request) -> Call:
        return await call_of(self._services, request, READ, task=request.path_params["task_id"])

    async def _find(
        self, caller: Caller, agent: str, task: str, name: str
    ) -> tuple[TaskKey, FileInfo]:
        """Return the file's task and description, if the caller may see the task."""
        key = task_key(self._services.settings, caller, agent, task)
        await self._services.state.get(query_of(caller, key, READ, history_length=0))
        return key, await self._files.info(key, name)

    def _response(
        self, request: Request, key: TaskKey, info: FileInfo, guarded: Mapping[str, str]
    ) -> Response:
        headers = {**guarded, "ETag": f'"{info.digest}"'}
        if headers["ETag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        # For HEAD, Starlette sends the headers only, and does not read the file.
        return StreamingResponse(self._files.chunks(key, info), 200, headers | headers_of(info))


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
