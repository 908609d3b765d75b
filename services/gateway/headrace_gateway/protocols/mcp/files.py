"""Files of tasks as resources: stored ones by their address, small ones by their place in a log."""

import base64
import re
from urllib.parse import unquote

from headrace.jetstream.objects import FileStore
from headrace.model.errors import FileUnknown
from headrace.model.events import Json
from headrace.model.file_links import LINK, SCHEME
from headrace_gateway.protocols.mcp.results import ITEMS
from headrace_gateway.refusals import Malformed, Violation
from headrace_gateway.server.auth.caller import Caller
from headrace_gateway.services import Services
from headrace_gateway.tasks.ids import query_of, task_key

READ = "GetTask"
"""A2A's operation that permits it."""

_LARGEST = 16 * 1024 * 1024
"""Bytes of the largest file that is put into a response; larger ones are downloaded."""

_INSIDE = re.compile(rf"{SCHEME}([\w-]+)/tasks/([\w-]+)/{ITEMS}/([^/]*)/(\d{{1,6}})")


class FileResources:
    """Reads files for callers that may see their tasks."""

    def __init__(self, services: Services) -> None:
        """Read with `services`."""
        self._services, self._files = services, FileStore(services.bus)

    def agent_of(self, uri: str) -> tuple[str, str]:
        """Return the agent and the task that `uri` names.

        Raises:
            FileUnknown: it names none.
        """
        found = LINK.fullmatch(self._link(uri)) or _INSIDE.fullmatch(uri)
        if found is None:
            raise _unknown(uri)
        return found[1], found[2]

    async def read(self, caller: Caller, uri: str) -> Json:
        """Return the content of the file at `uri`.

        Raises:
            FileUnknown: there is no such file.
            TaskUnknown: no such task of this caller.
            Malformed: the file is too large for a response.
            StateUnavailable, BusUnavailable: try again.
        """
        agent, task = self.agent_of(uri)
        key = task_key(self._services.settings, caller, agent, task)
        found = await self._services.state.get(query_of(caller, key, READ, history_length=0))
        if inside := _INSIDE.fullmatch(uri):
            part = _part_of(found.task, unquote(inside[3]), int(inside[4]))
            if part is None or "raw" not in part:
                raise _unknown(uri)
            return {"uri": uri, "mimeType": part.get("mediaType"), "blob": part["raw"]}
        info = await self._files.info(key, self._link(uri).rpartition("/")[2])
        if info.size > _LARGEST:
            rule = f"has {info.size} bytes, and at most {_LARGEST} are read here; download it"
            raise Malformed([Violation("params.uri", rule)])
        content = b"".join([chunk async for chunk in self._files.chunks(key, info)])
        blob = base64.b64encode(content).decode()
        return {"uri": uri, "mimeType": info.media_type or None, "blob": blob}

    def _link(self, uri: str) -> str:
        return self._services.links.stored(uri) or uri


def _part_of(task: Json, artifact: str, at: int) -> Json | None:
    message = task["status"].get("message") or {}
    items = [(one["artifactId"], one["parts"]) for one in task.get("artifacts") or ()]
    items.append((message.get("messageId", ""), message.get("parts") or []))
    parts: list[Json] = next((parts for name, parts in items if name == artifact), [])
    return parts[at] if at < len(parts) else None


def _unknown(uri: str) -> FileUnknown:
    return FileUnknown(f"{uri[:200]!r} is not a file of this fleet")
