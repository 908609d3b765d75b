"""``headrace asyncapi``: the bus contract for machines, generated from the code.

FastStream describes task state's requests. The rest is added here: the log and its queues, which
are JetStream's, messages between gateways and workers, and answers.
"""

import re
from collections.abc import Iterable
from typing import Any

import click
import orjson
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from headrace.model.entry import CONTRACT_VERSION
from headrace.model.events import Json
from headrace_cli.bus_channels import (
    ANSWERS,
    CHANNELS,
    REQUEST_HEADERS,
    WITHOUT_VERSION,
    Channel,
    ChannelMessage,
)
from headrace_cli.services import module_of

_PARAMETERS = {
    "prefix": "Prefix of all subjects: HEADRACE_PREFIX (default `headrace`).",
    "tenant": "The tenant, as a subject token.",
    "agent": "The agent's name.",
    "thread": "What stands for the task's owner and context: the first 12 digits of its id.",
    "task": "The task's id, `<shard>-<32 hex digits>`.",
    "shard": "The task's shard: the number at the start of its id.",
    "run": "Generation of the run's input.",
    "priority": "The run's priority: `high`, `normal` or `low`.",
    "version": "The version that the task is pinned to, as a subject token.",
    "stream": "Number of the event stream that contains the task's log.",
    "webhook": "The webhook's id, as a subject token.",
    "owner": "The schedule's owner, as a subject token.",
    "schedule": "The schedule's name among those of its owner.",
    "instance": "A worker's id.",
    "service": "`gateway`, `task-state` or `triggers`.",
    "replica": "The replica of task state that holds the response.",
    "token": "Id of the response.",
    "number": "Number of the piece, from 0.",
    "eventSubject": "A subject of the users, as a trigger names it.",
    "answerSubject": "A subject of the users, as `answers` of a trigger or schedule names it, or"
    " the event's reply subject.",
}

_ABOUT = (
    "The messages between the services of a Headrace fleet over NATS. docs/bus.md describes"
    " how they are used, and in which order."
)


@click.command()
def asyncapi() -> None:
    """Print the bus contract as an AsyncAPI 3.0 document, in JSON."""
    click.echo(orjson.dumps(document(), option=orjson.OPT_INDENT_2).decode())


def document() -> Json:
    """Return the AsyncAPI 3.0 document of the bus.

    Raises:
        Misconfigured: FastStream is not installed.
    """
    service = module_of("task-state", "headrace_task_state.requests")
    whole: Json = service.described("Headrace bus", f"{CONTRACT_VERSION}.0.0", _ABOUT)
    for name, message in whole["components"]["messages"].items():
        if name.partition(":")[0] not in WITHOUT_VERSION:
            message["headers"] = REQUEST_HEADERS
    for channel in CHANNELS:
        name = _name(channel.name)
        whole["channels"][name] = _channel(channel)
        whole["operations"][name] = _operation(channel)
    answered = [(_name(one.name), one.replies) for one in CHANNELS if one.replies]
    for name, answers in (*ANSWERS.items(), *answered):
        whole["channels"][f"{name}Reply"] = {"address": None, "messages": _listed(answers)}
        whole["operations"][name]["reply"] = _reply(f"{name}Reply", answers)
    for channel in whole["channels"].values():
        channel["parameters"] = {
            name: {"description": _PARAMETERS[name]}
            for name in re.findall(r"\{(\w+)\}", channel["address"] or "")
        }
    whole["components"]["messages"] |= {_key(each): _message(each) for each in _carried()}
    whole["components"]["schemas"] |= _schemas(_carried())
    shown: Json = _on_one_line(whole)
    return shown


def _channel(channel: Channel) -> Json:
    return {
        "address": channel.address,
        "description": f"{channel.description} Carrier: {channel.carrier}.",
        "messages": _listed(channel.messages),
    }


def _operation(channel: Channel) -> Json:
    name = _name(channel.name)
    return {
        "action": channel.action,
        "summary": channel.description,
        "channel": {"$ref": f"#/channels/{name}"},
        "messages": _refs(name, channel.messages),
    }


def _reply(channel: str, answers: tuple[ChannelMessage, ...]) -> Json:
    return {
        "address": {"location": "$message.header#/replyTo"},
        "channel": {"$ref": f"#/channels/{channel}"},
        "messages": _refs(channel, answers),
    }


def _listed(carried: tuple[ChannelMessage, ...]) -> Json:
    return {each.name: {"$ref": f"#/components/messages/{_key(each)}"} for each in carried}


def _refs(channel: str, carried: tuple[ChannelMessage, ...]) -> list[Json]:
    return [{"$ref": f"#/channels/{channel}/messages/{each.name}"} for each in carried]


def _message(carried: ChannelMessage) -> Json:
    message: Json = {
        "name": carried.name,
        "payload": {"$ref": f"#/components/schemas/{carried.name}"},
    }
    if carried.by_line:
        message["contentType"] = "application/x-ndjson"
        message["summary"] = "One such object per line, without a line break at the end."
    if carried.headers is not None:
        message["headers"] = carried.headers
    return message


def _schemas(carried: Iterable[ChannelMessage]) -> Json:
    """Return the JSON Schemas of the messages; for messages by line, that of one line."""
    schemas: Json = {}
    models: list[type[BaseModel]] = []
    for each in carried:
        if isinstance(each.payload, dict):
            schemas[each.name] = each.payload
        else:
            models.append(each.payload)
    of_models = [(model, "validation") for model in dict.fromkeys(models)]
    _, found = models_json_schema(of_models, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]  # a literal
    schemas |= found["$defs"]
    return schemas


def _on_one_line(schema: Any) -> Any:  # noqa: ANN401  # any JSON
    """Return the schema with descriptions on one line, without the line breaks of docstrings."""
    if isinstance(schema, dict):
        return {key: _on_one_line(value) for key, value in schema.items()}
    if isinstance(schema, list):
        return [_on_one_line(value) for value in schema]
    return " ".join(schema.split()) if isinstance(schema, str) else schema


def _carried() -> list[ChannelMessage]:
    of_log = [each for channel in CHANNELS for each in (*channel.messages, *channel.replies)]
    return of_log + [each for answers in ANSWERS.values() for each in answers]


def _key(carried: ChannelMessage) -> str:
    return carried.name if carried.headers is None else f"{carried.name}WithHeaders"


def _name(channel: str) -> str:
    """Return a channel's name as a component's, without dots."""
    first, *others = channel.split(".")
    return first + "".join(other.capitalize() for other in others)
