"""The parameters of A2A's operations, read from JSON and checked beyond the schema."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from hashlib import sha256
from typing import Self

import orjson
from a2a.types import a2a_pb2

from headrace.model import json_text
from headrace.model.change import RESERVED_PREFIX, without_own
from headrace.model.events import Json
from headrace.model.file_links import LINKS_ARE_OURS, is_link
from headrace.model.subjects import LONGEST_CONTEXT
from headrace_gateway.protocols.a2a.protojson import NotReadable, generation, read
from headrace_gateway.refusals import Malformed, Violation
from headrace_gateway.tasks.ids import is_minted

PAGE_SIZES = range(1, 101)
DEFAULT_PAGE_SIZE = 50

_LONGEST_TOKEN = 1024
"""Maximum characters of a page token; those of responses have about a hundred."""


@dataclass(frozen=True, slots=True)
class SendMessageParams:
    """Parameters of SendMessage and SendStreamingMessage."""

    message: Json
    """An A2A Message in canonical ProtoJSON, without contextId and taskId, which are fields here.
    """
    context: str | None = None
    task: str | None = None
    history_length: int | None = None
    """None for all messages, 0 for none, n for the n latest."""
    return_immediately: bool = False
    if_generation: int | None = None
    """Generation that the task must have; None for any. Only with `task`."""
    accepted_output_modes: list[str] = field(default_factory=list)
    push_config: Json | None = None
    metadata: Json | None = None

    @classmethod
    def read(cls, params: object) -> Self:
        """Read a SendMessageRequest.

        Raises:
            Malformed: the request is invalid.
        """
        if (plain := plain_message(params)) is not None:
            return cls(plain)
        return cls.read_by_schema(params)

    @classmethod
    def read_by_schema(cls, params: object) -> Self:
        """Read a SendMessageRequest of any shape, as `read`."""
        request = read(a2a_pb2.SendMessageRequest, params)
        message = request["message"]
        _check_message(message)
        _drop_reserved(message)
        for part in message["parts"]:
            _drop_reserved(part)
        configuration = request.get("configuration", {})
        if "ifGenerationMatch" in configuration and "taskId" not in message:
            rule = "is only allowed in a message with a taskId"
            raise Malformed([Violation("configuration.ifGenerationMatch", rule)])
        return cls(
            message=message,
            context=message.pop("contextId", None),
            task=message.pop("taskId", None),
            history_length=history_length(configuration, "configuration."),
            return_immediately=configuration.get("returnImmediately", False),
            if_generation=configuration.get("ifGenerationMatch"),
            accepted_output_modes=configuration.get("acceptedOutputModes", []),
            push_config=configuration.get("taskPushNotificationConfig"),
            metadata=request.get("metadata"),
        )

    def fingerprint(self) -> str:
        """Return a hash of the content, independent of its formatting."""
        return _hash(self.as_sent())

    def as_sent(self) -> Json:
        """Return what a repetition contains, too: no message id that a gateway minted."""
        message = self.message
        if is_minted(message.get("messageId", "")):
            message = {name: value for name, value in message.items() if name != "messageId"}
        return {each.name: getattr(self, each.name) for each in fields(self)} | {"message": message}


def _hash(content: Json) -> str:
    return sha256(json_text.encode(content, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _check_message(message: Json) -> None:
    """Check what the schema does not state of a client's message.

    Raises:
        Malformed: the message is invalid.
    """
    _check_length("message.contextId", message.get("contextId", ""), LONGEST_CONTEXT)
    if message["role"] != "ROLE_USER":
        rule = "must be ROLE_USER, because the client sends the message"
        raise Malformed([Violation("message.role", rule)])
    if links := [
        Violation(f"message.parts[{number}].url", LINKS_ARE_OURS)
        for number, part in enumerate(message["parts"])
        if is_link(part.get("url"))
    ]:
        raise Malformed(links)


def _check_length(field: str, value: str, longest: int) -> None:
    if len(value) > longest:
        raise Malformed([Violation(field, f"must not be longer than {longest} characters")])


_PLAIN = frozenset({"messageId", "role", "parts"})


def plain_message(params: object) -> Json | None:
    """Return the message of a request that contains nothing but one of texts to begin a task.

    Most requests are of this shape, which is read here at a tenth of the calls. None: it is of
    another one, or invalid.
    """
    if not isinstance(params, dict) or len(params) != 1:
        return None
    message = params.get("message")
    if not isinstance(message, dict) or message.keys() != _PLAIN or message["role"] != "ROLE_USER":
        return None
    message_id, parts = message["messageId"], message["parts"]
    if not (isinstance(message_id, str) and message_id and isinstance(parts, list) and parts):
        return None
    for part in parts:
        if not (isinstance(part, dict) and len(part) == 1 and isinstance(part.get("text"), str)):
            return None
    return message


@dataclass(frozen=True, slots=True)
class ForkTaskParams:
    """Parameters of ForkTask."""

    task: str
    generation: int | None
    """The last generation of the past, at most; None for the task's current one."""
    sending: SendMessageParams | None
    """The message with which the fork continues, and its metadata; None: as the task did."""

    @classmethod
    def read(cls, params: object) -> Self:
        """Read the request, which A2A does not define.

        Raises:
            Malformed: the request is invalid.
        """
        given = params if isinstance(params, dict) else {}
        task, wanted = given.get("id"), given.get("generation")
        if not isinstance(task, str) or not task:
            raise Malformed([Violation("id", "must be a task's id")])
        try:
            at = None if wanted is None else generation(wanted)
        except NotReadable as error:
            raise Malformed([Violation("generation", str(error))]) from error
        if at == 0:
            raise Malformed([Violation("generation", "must be at least 1")])
        return cls(task, at, cls._sending(given))

    @staticmethod
    def _sending(given: Json) -> SendMessageParams | None:
        sent = {
            name: given[name] for name in ("message", "metadata") if given.get(name) is not None
        }
        if "message" not in sent:
            if "metadata" in sent:
                raise Malformed([Violation("metadata", "is only allowed with a message")])
            return None
        sending = SendMessageParams.read(sent)
        if sending.task is not None or sending.context is not None:
            rule = "must have neither taskId nor contextId: the fork gets new ones"
            raise Malformed([Violation("message", rule)])
        return sending

    def fingerprint(self) -> str:
        """Return a hash of the content, which no message has."""
        sending = None if self.sending is None else self.sending.as_sent()
        content = {"task": self.task, "generation": self.generation, "sending": sending}
        return _hash({"fork": content})


def list_filters(params: object) -> Json:
    """Return the fields of a `ListTasks` query that a ListTasksRequest states.

    Raises:
        Malformed: the request is invalid.
    """
    request = read(a2a_pb2.ListTasksRequest, params)
    _check_length("contextId", request.get("contextId", ""), LONGEST_CONTEXT)
    _check_length("pageToken", request.get("pageToken", ""), _LONGEST_TOKEN)
    page_size = request.get("pageSize", DEFAULT_PAGE_SIZE)
    if page_size not in PAGE_SIZES:
        raise Malformed([Violation("pageSize", "must be from 1 to 100")])
    return {
        "context": request.get("contextId"),
        "states": [request["status"]] if request.get("status") is not None else [],
        "status_after": request.get("statusTimestampAfter"),
        "page_size": page_size,
        "page_token": request.get("pageToken", ""),
        "history_length": history_length(request),
        "include_artifacts": request.get("includeArtifacts", False),
    }


def _drop_reserved(message: Json) -> None:
    """Remove the keys reserved for the fleet from a message's or part's metadata."""
    given = message.get("metadata")
    if not given or not any(key.startswith(RESERVED_PREFIX) for key in given):
        return
    # Copy, because the original request may be read again.
    if kept := without_own(given):
        message["metadata"] = kept
    else:
        del message["metadata"]


def history_length(request: Json, path: str = "") -> int | None:
    """Return the number of messages that a request asks for; None for all.

    Raises:
        Malformed: it is negative; `path` is where the request's field is.
    """
    length: int | None = request.get("historyLength")
    if length is not None and length < 0:
        raise Malformed([Violation(f"{path}historyLength", "must not be negative")])
    return length


_BY_ID = frozenset({"GetTask", "SubscribeToTask", "CancelTask", "DeleteTask", "ForkTask"})
"""Operations on the task that ``id`` names."""

_BY_TASK_ID = frozenset(
    {
        "CreateTaskPushNotificationConfig",
        "GetTaskPushNotificationConfig",
        "ListTaskPushNotificationConfigs",
        "DeleteTaskPushNotificationConfig",
    }
)
"""Operations on the task that ``taskId`` names; their ``id`` is a webhook's."""


def task_in(operation: str, params: Mapping[str, object]) -> object:
    """Return what unchecked parameters of 1.0 name as the task; empty for nothing.

    Only members that `operation` reads are looked at, because the audit log contains the task:
    others are ignored, and may name any other task.
    """
    if operation in _BY_ID:
        return params.get("id", "")
    holder = params if operation in _BY_TASK_ID else params.get("message")
    if not isinstance(holder, Mapping):
        return ""
    # Both spellings are read, and refused together.
    return holder.get("taskId") or holder.get("task_id", "")
