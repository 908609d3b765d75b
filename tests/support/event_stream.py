"""Parse server-sent events from the wire, for tests that check every byte."""

import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx

A2A_ID = re.compile(r"[0-9a-z]{4,16}:[1-9][0-9]*")
"""A cursor of the A2A dialects: log id and generation."""

type Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Frame:
    """One data frame."""

    raw: bytes
    """As it came, without the empty line that ends it."""
    fields: tuple[tuple[str, str], ...]
    """Field names and values, in order."""

    @property
    def id(self) -> str:
        """The cursor; empty if there is none."""
        return dict(self.fields).get("id", "")

    @property
    def name(self) -> str:
        """The event's name; empty if there is none."""
        return dict(self.fields).get("event", "")

    @property
    def json(self) -> Json:
        """The data, parsed."""
        content: Json = json.loads("\n".join(v for name, v in self.fields if name == "data"))
        return content

    @property
    def event(self) -> Json:
        """The A2A event that it carries, over REST or as a JSON-RPC result."""
        content = self.json
        event: Json = content["result"] if "jsonrpc" in content else content
        return event

    @property
    def log(self) -> str:
        """The log id in the cursor."""
        return self.id.partition(":")[0]

    @property
    def generation(self) -> int:
        """The generation in the cursor."""
        return int(self.id.partition(":")[2])

    @property
    def state(self) -> str | None:
        """The state that the event sets; None if it sets none."""
        return state_of(self.event)


def state_of(event: Json) -> str | None:
    """Return the state that an A2A event sets, without its prefix; None if it sets none."""
    body = event.get("task") or event.get("statusUpdate") or {}
    state = body.get("status", {}).get("state")
    return None if state is None else str(state).removeprefix("TASK_STATE_")


def text_of(events: list[Json]) -> str:
    """Return the text that artifact updates make together."""
    updates = [event["artifactUpdate"] for event in events if "artifactUpdate" in event]
    return "".join(
        part.get("text", "") for update in updates for part in update["artifact"]["parts"]
    )


async def frames(response: httpx.Response) -> AsyncIterator[Frame]:
    """Yield data frames as they come; comments and ``retry`` are passed over.

    Raises:
        AssertionError: the stream is no event stream, is not framed with LF, or ends in a frame.
    """
    assert response.status_code == httpx.codes.OK, await response.aread()
    assert response.headers["content-type"].startswith("text/event-stream")
    rest = b""
    async for chunk in response.aiter_raw():
        *blocks, rest = (rest + chunk).split(b"\n\n")
        for block in blocks:
            assert b"\r" not in block
            if b"data:" in block:
                yield _parse(block)
    assert rest == b"", f"the stream ends within a frame: {rest!r}"


async def all_frames(response: httpx.Response) -> list[Frame]:
    """Return the frames of a stream that ends by itself."""
    return [frame async for frame in frames(response)]


def _parse(block: bytes) -> Frame:
    lines = [line for line in block.decode().split("\n") if not line.startswith(":")]
    pairs = (line.partition(":") for line in lines)
    return Frame(block, tuple((name, value.removeprefix(" ")) for name, _, value in pairs))
