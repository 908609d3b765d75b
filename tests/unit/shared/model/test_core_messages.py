"""Core NATS messages that are malformed are ignored, because nobody keeps them."""

import pytest

from headrace.model.messages import ProcessQuery
from tests.support.fake_bus import message


def test_a_message_is_decoded() -> None:
    found = ProcessQuery.decode_or_ignore(message("s", b'{"process": "one"}'), "question")
    assert found == ProcessQuery(process="one")


def test_a_malformed_message_is_ignored_with_a_warning_that_names_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert ProcessQuery.decode_or_ignore(message("s", b'{"process": 1}'), "question") is None
    [warning] = caplog.messages
    assert warning.startswith("ignored a malformed question: message on s: process: ")
