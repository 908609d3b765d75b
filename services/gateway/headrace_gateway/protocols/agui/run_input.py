"""Reading a RunAgentInput into an A2A message and its metadata."""

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Self

import orjson
from ag_ui.core import RunAgentInput
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from headrace.log_lines import cut, escaped
from headrace.model import json_text, parts
from headrace.model.events import AGUI, Json
from headrace.model.file_links import LINKS_ARE_OURS, is_link
from headrace.model.json_patch import Document, LimitExceeded
from headrace.model.nesting import RULE, is_too_deep
from headrace.model.run_ids import in_order_of_calls, own_id
from headrace.model.user_content import to_parts
from headrace_gateway.json_errors import InputInvalid, check_id, json_object
from headrace_gateway.protocols.agui.extras import with_extras
from headrace_gateway.protocols.agui.plain_input import PlainItems

_ROLES = frozenset({"developer", "system", "assistant", "user", "tool", "activity", "reasoning"})
_MEDIA = frozenset({"image", "audio", "video", "document"})
_SOURCES = frozenset({"data", "url", "file"})
_LEGACY_SOURCES = {"data": "data", "url": "url", "id": "file"}


def normalised(body: Json) -> tuple[Json, list[str]]:
    """Return `body` without messages and parts of unknown types, and the paths of these.

    Malformed messages stay, for the models to reject.

    Raises:
        InputInvalid: no message, or no part of a message's content, is left.
    """
    messages = body.get("messages")
    if not isinstance(messages, list):
        return body, []
    stripped: list[str] = []
    kept = [_message(message, at, stripped) for at, message in enumerate(messages)]
    known = [message for message in kept if message is not None]
    if messages and not known:
        raise InputInvalid(f"messages: unknown roles, all of them: {', '.join(stripped)}")
    return {**body, "messages": known}, stripped


def _message(message: Any, at: int, stripped: list[str]) -> Any:  # noqa: ANN401 - any JSON
    """Return the message at place `at` in the models' form; None if its role is unknown."""
    if not isinstance(message, dict):
        return message
    role = message.get("role")
    if isinstance(role, str) and role not in _ROLES:
        stripped.append(f"messages.{at} (role {role})")
        return None
    content = message.get("content")
    if not isinstance(content, list):
        return message
    path = f"messages.{at}"
    kept = [_part(part, f"{path}.content.{at}", stripped) for at, part in enumerate(content)]
    known = [part for part in kept if part is not None]
    if not known:
        raise InputInvalid(f"{path}.content: must have a part of a known AG-UI type")
    return {**message, "content": known}


def _part(part: Any, path: str, stripped: list[str]) -> Any:  # noqa: ANN401 - any JSON
    if not isinstance(part, dict) or not isinstance(kind := part.get("type"), str):
        return part
    if kind == "binary":
        return _modern(part)
    source = part.get("source")
    known = kind == "text" or (kind in _MEDIA and _is_known_source(source))
    if not known:
        stripped.append(f"{path} (part {kind})")
        return None
    return part


def _is_known_source(source: Any) -> bool:  # noqa: ANN401 - any JSON
    """Return whether the source's kind is known or missing."""
    kind = source.get("type") if isinstance(source, dict) else None
    return not isinstance(kind, str) or kind in _SOURCES


def _modern(part: Json) -> Json:
    """Convert a 0.x ``binary`` part to the media part that replaced it."""
    media_type = part.get("mimeType")
    kind = str(media_type).partition("/")[0]
    field = next((name for name in ("data", "url", "id") if part.get(name)), "data")
    source = {"type": _LEGACY_SOURCES[field], "value": part.get(field), "mimeType": media_type}
    named = {"metadata": {"filename": part["filename"]}} if part.get("filename") else {}
    return {"type": kind if kind in _MEDIA else "document", "source": source, **named}


_log = logging.getLogger(__name__)


_KEPT = (
    "runId",
    "parentRunId",
    "protocolVersion",
    "state",
    "tools",
    "context",
    "forwardedProps",
    "resume",
)


@dataclass(frozen=True, slots=True)
class RunInput:
    """A run that a client requests."""

    thread: str
    run: str
    message: Json
    """The A2A Message for the agent: the user's last message, or the tool results that follow it.
    """
    metadata: Json
    """Metadata of the input event; see `events.AGUI`."""
    resumes: frozenset[str] = frozenset()
    """Ids of the interrupts that it answers, as the client has received them."""
    results: Mapping[str, Json] = MappingProxyType({})
    """The results that end its messages, as parts, by the ids of their calls that the client has
    received."""
    without_cancels: Self | None = None
    """The run without its resume, if it only cancels and its messages end with the user's."""

    @property
    def wishes(self) -> Json:
        """Options for the gateway, not for the agent: ``forwardedProps.headrace``."""
        props = self.metadata[AGUI].get("forwardedProps")
        ours = props.get("headrace") if isinstance(props, dict) else None
        return ours if isinstance(ours, dict) else {}

    @property
    def key(self) -> str:
        """Idempotency key of the run. The line break keeps it distinct from clients' keys."""
        return f"run\n{json_text.encode([self.thread, self.run]).decode()}"

    def fingerprint(self) -> str:
        """Return a hash of the content, independent of its formatting."""
        content = [self.message, self.metadata]
        return sha256(json_text.encode(content, option=orjson.OPT_SORT_KEYS)).hexdigest()

    @classmethod
    def read(cls, body: bytes, extras: frozenset[str] = frozenset()) -> Self:
        """Parse a request's body; `extras` are options from the rest of the request.

        Raises:
            InputInvalid: the body is not a RunAgentInput; the message names field and rule.
        """
        return cls.of(json_object(body), extras)

    @classmethod
    def of(cls, given: Json, extras: frozenset[str] = frozenset()) -> Self:
        """Read a request's body that is parsed, as `read` does."""
        _check_depth(given)
        _check_state(given.get("state"))
        validated = _validated(given)
        for name in ("threadId", "runId", "parentRunId"):
            if name in validated:
                check_id(name, validated[name])
        _check_links(validated["messages"])
        last = _last_said(validated["messages"])
        results = _results(validated["messages"], last)
        message, messages = _message_and_history(
            validated["messages"], last, results, validated["runId"]
        )
        if resume := validated.get("resume"):
            _check_each_once(resume)
            validated["resume"] = [{**e, "interruptId": own_id(e["interruptId"])} for e in resume]
            message = _resumed(validated["resume"], validated["runId"])
            messages = validated["messages"]
        elif (props := validated.get("forwardedProps")) and (action := _surface_action(props)):
            part = parts.surface_action_part(action)
            message = _user_message(f"{validated['runId']}-action", [part])
            messages = validated["messages"]
        kept = {name: validated[name] for name in _KEPT if name in validated}
        if extras:
            kept["forwardedProps"] = with_extras(validated.get("forwardedProps"), extras)
        alone: Self | None = None
        if resume and _only_cancels(resume) and messages and messages[-1]["role"] == "user":
            alone = cls.of({key: given[key] for key in given if key != "resume"}, extras)
        return cls(
            thread=validated["threadId"],
            run=validated["runId"],
            message=message,
            metadata={AGUI: {**kept, "messages": messages}},
            resumes=frozenset(entry["interruptId"] for entry in resume or ()),
            results={result["toolCallId"]: _result(result) for result in results},
            without_cancels=alone,
        )


def _check_depth(body: Json) -> None:
    for name, value in body.items():
        # Of most runs, only the messages contain anything.
        if value and isinstance(value, dict | list) and is_too_deep(value):
            raise InputInvalid(f"{escaped(cut(name, 100))}: {RULE}")


def _check_state(state: object) -> None:
    if not state:
        return  # Most runs have none.
    try:
        Document(state).check()
    except LimitExceeded as excess:
        raise InputInvalid(f"state: {excess}") from None


def _validated(body: Json) -> Json:
    """Return the input by its wire names, without fields that have no value."""
    known, stripped = normalised(body)
    if stripped:
        _log.warning("AG-UI input: unknown fields are ignored: %s", stripped)
    plain = PlainItems(known)
    with suppress(ValidationError):
        return plain.returned_to(_modelled(plain.without()))
    try:
        return _modelled(known)  # Its error names the items by their places.
    except ValidationError as error:
        raise InputInvalid(_complaint(error, known)) from None


def _modelled(body: Json) -> Json:
    return RunAgentInput.model_validate(body).model_dump(mode="json", by_alias=True)


def _complaint(error: ValidationError, body: Json) -> str:
    """Return the error message; of several errors, the most deeply nested one."""
    found = max(error.errors(include_url=False, include_input=False), key=_depth)
    path, rule = _path(found["loc"], body), found["msg"]
    if found["type"] == "union_tag_not_found":
        return f"{path}.{_tag(found)}: Field required"
    if found["type"] == "union_tag_invalid":
        return f"{path}.{_tag(found)}: Input should be one of {found['ctx']['expected_tags']}"
    return f"{path}: {rule}"


def _depth(found: ErrorDetails) -> int:
    return len(found["loc"])


def _tag(found: ErrorDetails) -> str:
    return str(found["ctx"]["discriminator"]).strip("'")


def _path(location: tuple[int | str, ...], body: Json) -> str:
    """Return the path of an error, without the names of alternatives that the models add."""
    path: list[str] = []
    place: object = body
    for step in location:
        if isinstance(place, dict) and isinstance(step, str):
            if step not in place and step != location[-1]:
                continue
            place = place.get(step)
        elif isinstance(place, list) and isinstance(step, int):
            place = place[step]
        else:
            continue
        path.append(str(step))
    return ".".join(path) or "the body"


def _check_links(messages: list[Json]) -> None:
    for number, message in enumerate(messages):
        if not isinstance(content := message.get("content"), list):
            continue
        for place, part in enumerate(content):
            if is_link((part.get("source") or {}).get("value")):
                where = f"messages.{number}.content.{place}.source.value"
                raise InputInvalid(f"{where}: {LINKS_ARE_OURS}")


def _check_each_once(resume: list[Json]) -> None:
    names = set[str]()
    for at, entry in enumerate(resume):
        if (name := entry["interruptId"]) in names:
            raise InputInvalid(f"resume.{at}.interruptId: {name} has two answers")
        names.add(name)


def _only_cancels(resume: list[Json]) -> bool:
    return all(entry["status"] == "cancelled" for entry in resume)


def _last_said(messages: list[Json]) -> Json | None:
    """Return the last message that is for the agent: the user's, or a tool's result."""
    return next((m for m in reversed(messages) if m["role"] in {"user", "tool"}), None)


def _message_and_history(
    messages: list[Json], last: Json | None, results: list[Json], run: str
) -> tuple[Json, list[Json]]:
    """Return the A2A message, and the messages with its source stripped of its content."""
    if last is None:
        # The conversation may start with the agent.
        return _user_message(f"{run}-input", [{"text": ""}]), messages
    if results:
        return _user_message(last["id"], list(map(_result, results))), messages
    bare = {key: value for key, value in last.items() if key != "content"}
    rest = [bare if message is last else message for message in messages]
    return _user_message(last["id"], to_parts(last["content"])), rest


def _resumed(resume: list[Json], run: str) -> Json:
    """Return the answers to interrupts as an A2A message with one part each."""
    return _user_message(f"{run}-resume", [_answer(entry) for entry in resume])


def _surface_action(props: object) -> Json | None:
    """Return what the user has done on an A2UI surface, as AG-UI's clients send it.

    They send the thread's messages unchanged with it: the last one is not the run's input.

    Raises:
        InputInvalid: it is none, or has no name.
    """
    sent = props.get("a2uiAction") if isinstance(props, dict) else None
    if sent is None:
        return None
    where = "forwardedProps.a2uiAction"
    action = sent.get("userAction") if isinstance(sent, dict) else None
    if not isinstance(action, dict):
        raise InputInvalid(f"{where}: must be an object with userAction, an object")
    if not isinstance(action.get("name"), str) or not action["name"]:
        raise InputInvalid(f"{where}.userAction.name: must be a text that is not empty")
    return action


def _answer(entry: Json) -> Json:
    payload = entry.get("payload")
    content = {"text": payload or ""} if isinstance(payload, str | None) else {"data": payload}
    metadata = {parts.INTERRUPT_ID: entry["interruptId"], parts.RESUME_STATUS: entry["status"]}
    return {**content, "metadata": metadata}


def _result(message: Json) -> Json:
    own = own_id(message["toolCallId"])
    return parts.tool_result_part(own, message["content"], message.get("error") or "")


def _results(messages: list[Json], last: Json | None) -> list[Json]:
    """Return the messages with tool results that end with `last`; none if that is the user's.

    Results of calls for which the agent has one id are in the order of the calls, by which they are
    told apart.
    """
    if last is None or last["role"] != "tool":
        return []
    end = messages.index(last) + 1
    start = next((n for n in range(end, 0, -1) if messages[n - 1]["role"] != "tool"), 0)
    results = messages[start:end]
    order = in_order_of_calls([message["toolCallId"] for message in results])
    return [results[at] for at in order]


def _user_message(message: str, content: list[Json]) -> Json:
    return {"messageId": message, "role": "ROLE_USER", "parts": content}
