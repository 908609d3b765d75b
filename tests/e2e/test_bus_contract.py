"""All that a fleet says on the bus is what the AsyncAPI document says."""

import re
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import jsonschema
import orjson
from nats.aio.msg import Msg

from headrace.jetstream.connection import Bus
from headrace.model.events import Json
from headrace.settings import BusSettings
from headrace_cli.asyncapi import document
from tests.support.fleet import Fleet
from tests.support.plain_http import NO_TLS
from tests.support.waiting import eventually

_PREFIX = "headrace"


_DOCUMENT = document()
_ADDRESSES: dict[str, str] = {
    name: one["address"] for name, one in _DOCUMENT["channels"].items() if one["address"]
}


def _pattern(address: str) -> re.Pattern[str]:
    literal = re.escape(address).replace(r"\{", "{").replace(r"\}", "}")
    return re.compile(re.sub(r"\{\w+\}", r"[A-Za-z0-9_-]+", literal.replace("{prefix}", _PREFIX)))


_PATTERNS = [(_pattern(address), name) for name, address in _ADDRESSES.items()]


def channel_of(subject: str) -> str:
    """Return the name of the channel that the document has for `subject`."""
    # One question goes to any replica, or to all where that one is silent: one channel.
    request = subject.replace(f"{_PREFIX}.state.all.", f"{_PREFIX}.state.", 1)
    found = [name for pattern, name in _PATTERNS if pattern.fullmatch(request)]
    assert len(found) == 1, f"{subject} is of {found}"
    return found[0]


def check(channel: str, msg: Msg) -> None:
    """Check that the message is one that the document has for the channel."""
    messages = [_at(reference) for reference in _DOCUMENT["channels"][channel]["messages"].values()]
    problems = [problem for each in messages for problem in [_problem(each, msg)] if problem]
    assert len(problems) < len(messages), f"{msg.subject}: {msg.data[:300]!r}: {problems}"


def _at(reference: Json) -> Json:
    found = _DOCUMENT
    for step in reference["$ref"].removeprefix("#/").split("/"):
        found = found[step]
    return found


def _problem(message: Json, msg: Msg) -> str | None:
    try:
        if "headers" in message:
            jsonschema.validate(dict(msg.headers or {}), message["headers"])
        payload = message["payload"] | {"components": _DOCUMENT["components"]}
        for line in msg.data.split(b"\n"):
            jsonschema.validate(orjson.loads(line) if line else None, payload)
    except (jsonschema.ValidationError, orjson.JSONDecodeError) as error:
        return str(error).partition("\n")[0]
    return None


class Ear:
    """Hears everything, and checks it when it has the time: that takes longer than to hear it."""

    def __init__(self) -> None:
        """Have heard nothing."""
        self.received: defaultdict[str, int] = defaultdict(int)
        self.problems: list[str] = []
        self._unchecked: list[Msg] = []
        self._inboxes: dict[str, str] = {}
        self._early: dict[str, Msg] = {}
        """Replies that came before their questions: these come by another subscription."""

    def take(self, msg: Msg) -> None:
        """Hear one message."""
        self._unchecked.append(msg)

    def check(self) -> None:
        """Check what was heard since the last time."""
        unchecked, self._unchecked = self._unchecked, []
        for msg in unchecked:
            try:
                self._hear(msg)
            except AssertionError as problem:
                self.problems.append(str(problem))

    def _hear(self, msg: Msg) -> None:
        if msg.subject.startswith("_INBOX."):
            self._hear_reply(msg)
            return
        channel = channel_of(msg.subject)
        self.received[channel] += 1
        if "reply" in _DOCUMENT["operations"][channel] and msg.reply:
            self._inboxes[msg.reply] = f"{channel}Reply"
            if (reply := self._early.pop(msg.reply, None)) is not None:
                self._hear_reply(reply)
        check(channel, msg)

    def _hear_reply(self, msg: Msg) -> None:
        channel = self._inboxes.pop(msg.subject, None)
        if channel is None:
            self._early[msg.subject] = msg
            return
        if "Headrace-More" in (msg.headers or {}):
            return
        if (msg.headers or {}).get("Status") == "503":
            return
        self.received[channel] += 1
        check(channel, msg)


@asynccontextmanager
async def listening(fleet: Fleet) -> AsyncIterator[Ear]:
    """Hear everything for the length of a block."""
    bus, ear = Bus(BusSettings(nats_url=fleet.nats_url)), Ear()
    await bus.connect("ear")
    for subjects in (f"{_PREFIX}.>", "$KV.AGENTS.>", "_INBOX.>"):
        await bus.listen(subjects, ear.take)
    try:
        yield ear
        await bus.connection.flush()
    finally:
        await bus.close()


async def ask(client: httpx.AsyncClient, agent: str, text: str, **more: str) -> str:
    """Send a message and return the task's id, at once."""
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}], **more}
    order = {"message": message, "configuration": {"returnImmediately": True}}
    answer = await client.post(f"/v1/agents/{agent}/message:send", json=order)
    task: str = answer.raise_for_status().json()["task"]["id"]
    return task


def http_at(fleet: Fleet) -> httpx.AsyncClient:
    """Return a client of a gateway."""
    return httpx.AsyncClient(base_url=fleet.gateways[0], timeout=90, verify=NO_TLS)


async def until_at_work(client: httpx.AsyncClient, task: str) -> None:
    """Return once a worker has begun the task."""

    async def is_at_work() -> bool:
        found = (await client.get(f"/v1/agents/counter/tasks/{task}")).json()
        return bool(found["status"]["state"] == "TASK_STATE_WORKING")

    await eventually(is_at_work, "the task is at work")


def test_a_question_to_all_replicas_is_of_the_channel_that_describes_it() -> None:
    channel = channel_of(f"{_PREFIX}.state.all.get")
    assert channel == "stateGet"
    assert "state.all.get" in _DOCUMENT["channels"][channel]["description"]


async def test_what_is_sent_on_the_bus_is_what_the_document_states(fleet: Fleet) -> None:
    async with listening(fleet) as ear, http_at(fleet) as client:
        done = await ask(client, "assistant", "how many words?")
        slow = await ask(client, "counter", "100000 200")
        await until_at_work(client, slow)
        await ask(client, "counter", "2", taskId=slow)
        await client.post(f"/v1/agents/counter/tasks/{slow}:cancel")
        for path in (f"assistant/tasks/{done}", "counter/tasks", f"counter/tasks/{done}"):
            await client.get(f"/v1/agents/{path}")
        expected = {"run", "event", "live", "control", "controlReply", "instance"}
        expected |= {"stateGet", "stateList", "stateGetReply"}

        async def has_received() -> bool:
            ear.check()
            return expected <= ear.received.keys()

        await eventually(has_received, "all that there is to hear is heard")
    ear.check()
    assert ear.problems == []
