"""An outside agent's words are told once, whatever its streams repeat."""

from typing import Any, cast

from headrace.adapters.a2a.remote_events import EmittedContent, RemoteEvents
from headrace.model.events import Json
from headrace.sdk.context import RunContext
from headrace.sdk.emit import Artifact, RelayedMessage


class Listener:
    """Stands for a run's context: keeps what is said."""

    def __init__(self) -> None:
        self.said: list[Any] = []

    async def emit(self, output: object) -> None:
        self.said.append(output)

    @property
    def text(self) -> str:
        """The artifact as a client has it now."""
        text = ""
        for chunk in (each for each in self.said if isinstance(each, Artifact)):
            text = (text if chunk.append else "") + "".join(part["text"] for part in chunk.parts)
        return text


def listened() -> tuple[Listener, RemoteEvents]:
    listener = Listener()
    return listener, RemoteEvents(cast("RunContext", listener), EmittedContent())


def chunk(text: str, *, append: bool = True) -> Json:
    artifact = {"artifactId": "a", "parts": [{"text": text}]}
    return {"artifactUpdate": {"taskId": "t", "artifact": artifact, "append": append}}


def task(text: str, *messages: Json) -> Json:
    artifact = {"artifactId": "a", "parts": [{"text": text}]}
    status = {"state": "TASK_STATE_WORKING"}
    return {"id": "t", "status": status, "artifacts": [artifact], "history": list(messages)}


def message(text: str) -> Json:
    return {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": text}]}


async def test_only_new_messages_of_a_snapshot_are_emitted() -> None:
    listener, relay = listened()
    await relay.pass_on(chunk("one ", append=False))
    await relay.pass_on({"task": task("one two ", message("hm"))})
    await relay.pass_on({"task": task("one two ", message("hm"))})
    await relay.pass_on(chunk("three"))
    assert listener.text == "one two three"
    assert len([each for each in listener.said if isinstance(each, RelayedMessage)]) == 1


async def test_events_after_a_streams_own_snapshot_are_corrected_at_the_end() -> None:
    listener, relay = listened()
    relay.joined = True
    await relay.pass_on({"task": task("one two ", message("hm"))})
    status = {"state": "TASK_STATE_WORKING", "message": message("hm")}
    await relay.pass_on({"statusUpdate": {"taskId": "t", "status": status}})
    await relay.pass_on(chunk("two "))
    await relay.repair(task("one two "))
    assert listener.text == "one two "
    assert len([each for each in listener.said if isinstance(each, RelayedMessage)]) == 1


async def test_a_snapshot_that_contradicts_earlier_events_replaces_them() -> None:
    listener, relay = listened()
    await relay.pass_on(chunk("one ", append=False))
    await relay.pass_on({"task": task("zero")})
    assert listener.text == "zero"
