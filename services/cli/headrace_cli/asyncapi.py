"""``headrace asyncapi``: the bus contract for machines, from the code that keeps it."""

import re
from typing import Any

import click
import orjson

from headrace.model.entry import CONTRACT_VERSION
from headrace.model.events import Json
from headrace_cli.bus_channels import CHANNELS, Carried, Channel

_PARAMETERS = {
    "prefix": "First tokens of every subject, `headrace` unless HEADRACE_PREFIX says otherwise.",
    "tenant": "Whose fleet it is, as a subject token.",
    "agent": "The agent's name.",
    "task": "The task's id, `<shard>-<32 hex digits>`.",
    "shard": "The number that the task's id begins with.",
    "run": "Generation of the input that is to be worked on.",
    "stream": "Number of the event stream that the task's log is in.",
    "webhook": "The webhook's id, as a subject token.",
    "instance": "A worker's id.",
}

_ABOUT = (
    "What travels between the services of a Headrace fleet over NATS. docs/bus.md says in words"
    " what is done with it, and in which order."
)


@click.command()
def asyncapi() -> None:
    """Print the bus contract as an AsyncAPI 3.0 document, in JSON."""
    click.echo(orjson.dumps(document(), option=orjson.OPT_INDENT_2).decode())


def document() -> Json:
    """Return the AsyncAPI 3.0 document of the bus."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Headrace bus",
            "version": f"{CONTRACT_VERSION}.0.0",
            "description": _ABOUT,
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": dict(pair for channel in CHANNELS for pair in _channels(channel)),
        "operations": {_name(channel.name): _operation(channel) for channel in CHANNELS},
        "components": {"messages": _messages(), "schemas": _schemas()},
    }


def _channels(channel: Channel) -> list[tuple[str, Json]]:
    asked: Json = {
        "address": channel.address,
        "description": f"{channel.description} Carrier: {channel.carrier}.",
        "messages": _listed(channel.messages),
        "parameters": {
            name: {"description": _PARAMETERS[name]}
            for name in re.findall(r"\{(\w+)\}", channel.address)
        },
    }
    pairs = [(_name(channel.name), asked)]
    if channel.replies:
        reply: Json = {"address": None, "messages": _listed(channel.replies)}
        pairs.append((_reply_name(channel), reply))
    return pairs


def _operation(channel: Channel) -> Json:
    name = _name(channel.name)
    operation: Json = {
        "action": "send",
        "summary": channel.description,
        "channel": {"$ref": f"#/channels/{name}"},
        "messages": _refs(name, channel.messages),
    }
    if channel.replies:
        there = _reply_name(channel)
        operation["reply"] = {
            "address": {"location": "$message.header#/replyTo"},
            "channel": {"$ref": f"#/channels/{there}"},
            "messages": _refs(there, channel.replies),
        }
    return operation


def _listed(carried: tuple[Carried, ...]) -> Json:
    return {each.name: {"$ref": f"#/components/messages/{_key(each)}"} for each in carried}


def _refs(channel: str, carried: tuple[Carried, ...]) -> list[Json]:
    return [{"$ref": f"#/channels/{channel}/messages/{each.name}"} for each in carried]


def _messages() -> Json:
    return {_key(each): _message(each) for each in _carried()}


def _message(carried: Carried) -> Json:
    told: Json = {"name": carried.name, "payload": {"$ref": f"#/components/schemas/{carried.name}"}}
    if carried.by_line:
        told["contentType"] = "application/x-ndjson"
        told["summary"] = "One such object per line, without a line break at the end."
    if carried.headers is not None:
        told["headers"] = carried.headers
    return told


def _schemas() -> Json:
    return {each.name: schema_of(each) for each in _carried()}


def schema_of(carried: Carried) -> Json:
    """Return the JSON Schema of what is carried: of one line where it comes by the line."""
    if isinstance(carried.payload, dict):
        return carried.payload
    schema: Json = _on_one_line(carried.payload.model_json_schema())
    return schema


def _on_one_line(schema: Any) -> Any:  # noqa: ANN401  # any JSON
    """Return the schema with descriptions as running text, as docstrings break them."""
    if isinstance(schema, dict):
        return {key: _on_one_line(value) for key, value in schema.items()}
    if isinstance(schema, list):
        return [_on_one_line(value) for value in schema]
    return " ".join(schema.split()) if isinstance(schema, str) else schema


def _carried() -> list[Carried]:
    return [each for channel in CHANNELS for each in (*channel.messages, *channel.replies)]


def _key(carried: Carried) -> str:
    return carried.name if carried.headers is None else f"{carried.name}WithHeaders"


def _name(channel: str) -> str:
    """Return a channel's name as a component's: without dots."""
    first, *others = channel.split(".")
    return first + "".join(other.capitalize() for other in others)


def _reply_name(channel: Channel) -> str:
    return f"{_name(channel.name)}Reply"
