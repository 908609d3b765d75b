"""Links of files become addresses, and nothing else does."""

import orjson
import pytest

from headrace.links import Links
from headrace.model.entry import Entry, Stamp
from headrace.model.events import AGUI, QUEUED
from headrace.model.task import WORKING

LINKS = Links("https://fleet.example/base")
LINK = "headrace-file:painter/tasks/0-1/files/ab"
SHOWN = "https://fleet.example/base/v1/agents/painter/tasks/0-1/files/ab"


def test_a_parts_link_becomes_an_address() -> None:
    received = orjson.dumps({"parts": [{"url": LINK, "filename": "a"}]})
    assert orjson.loads(LINKS.shown(received)) == {"parts": [{"url": SHOWN, "filename": "a"}]}


@pytest.mark.parametrize(
    "text",
    [
        {"text": LINK},
        {"text": f'"url":"{LINK}"'},
        {"data": {"link": LINK}},
        {"parts": [{"data": {"url": LINK}}]},
        {"parts": [{"data": {"parts": [{"url": LINK}]}}]},
        {"metadata": {"parts": [{"url": LINK}]}},
        {"parts": [{"url": "headrace-file:../../secret"}]},
        {"text": f'\\","url":"{LINK}'},
    ],
)
def test_what_only_looks_like_a_link_stays(text: object) -> None:
    received = orjson.dumps(text)
    assert LINKS.shown(received) == received


def test_the_link_of_a_message_that_waits_becomes_an_address() -> None:
    def waiting(url: str) -> bytes:
        message = {"parts": [{"url": url}]}
        return orjson.dumps({"statusUpdate": {"metadata": {QUEUED: message}}})

    assert LINKS.shown(waiting(LINK)) == waiting(SHOWN)


def test_an_entry_without_links_is_handed_on_as_it_is() -> None:
    entry = Entry(Stamp("log1", 1, "w", WORKING, 1), [b'{"message":{}}'], 1, "")
    assert LINKS.entry(entry) is entry


def test_the_links_in_an_agui_clients_conversation_become_addresses() -> None:
    def kept(url: str) -> bytes:
        source = {"type": "url", "value": url, "mimeType": "image/png"}
        messages = [{"role": "user", "content": [{"type": "image", "source": source}]}]
        return orjson.dumps({"task": {"metadata": {AGUI: {"messages": messages}}}})

    assert LINKS.shown(kept(LINK)) == kept(SHOWN)
