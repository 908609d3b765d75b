"""Entries: what the headers say, and what is no entry for anybody."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.jetstream.client import header_lines
from headrace.model.entry import (
    ATTEMPT,
    GENERATION,
    LOG,
    OWNER,
    RUN,
    STATE,
    VERSION,
    WRITER,
    Entry,
    Stamp,
    parse_entry,
    parse_lines,
    parse_stamp,
    read_stamp,
)
from headrace.model.errors import NewerVersion, UndecodableMessage
from headrace.model.task import (
    AUTH_REQUIRED,
    BARE_MESSAGE,
    COMPLETED,
    FAILED,
    INPUT_REQUIRED,
    STATES,
    SUBMITTED,
    WORKING,
)

NUMBERS = st.integers(1, 10**12)
TOKENS = st.from_regex(r"[A-Za-z0-9_-]{1,40}", fullmatch=True)
STAMPS = st.builds(
    Stamp,
    log=st.from_regex(r"[0-9a-z]{4,16}", fullmatch=True),
    generation=NUMBERS,
    writer=TOKENS,
    state=st.sampled_from([*sorted(STATES), BARE_MESSAGE]),
    run=NUMBERS,
    attempt=st.integers(0, 100),
    owner=st.none() | TOKENS,
    checkpoint=st.none() | st.just('{"step":1}'),
)
STAMP = Stamp("abcd0123", 5, "writer", WORKING, 1, 1)


def entry(stamp: Stamp, data: bytes) -> Entry:
    return parse_entry("subject", stamp.headers(), data, 12, "then")


@given(STAMPS)
def test_a_stamp_comes_back_from_its_headers(stamp: Stamp) -> None:
    assert parse_stamp("subject", stamp.headers()) == stamp


@pytest.mark.parametrize("name", [VERSION, LOG, GENERATION, WRITER, STATE, RUN])
def test_a_header_that_is_missing_makes_no_entry(name: str) -> None:
    headers = STAMP.headers()
    del headers[name]
    with pytest.raises(UndecodableMessage):
        parse_stamp("subject", headers)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (VERSION, "1"),
        (LOG, ""),
        (LOG, "ABCD"),
        (LOG, "a"),
        (LOG, "a:b:c"),
        (GENERATION, "0"),
        (GENERATION, "-1"),
        (GENERATION, "+1"),
        (GENERATION, "1_0"),
        (GENERATION, "٣"),
        (GENERATION, "1.0"),
        (GENERATION, ""),
        (GENERATION, "9" * 16),
        (WRITER, ""),
        (STATE, "working"),
        (STATE, "TASK_STATE_UNSPECIFIED"),
        (RUN, "0"),
        (RUN, "x"),
        (ATTEMPT, "-1"),
        (OWNER, ""),
        (OWNER, "ann:echo"),
        (OWNER, "x" * 201),
    ],
)
def test_a_header_that_is_malformed_makes_no_entry(name: str, value: str) -> None:
    with pytest.raises(UndecodableMessage):
        parse_stamp("subject", {**STAMP.headers(), name: value})
    headers = {**STAMP.headers(), name: value}
    with pytest.raises(UndecodableMessage):
        read_stamp("subject", block_of(headers), lambda: headers)


@pytest.mark.parametrize("headers", [None, {}, {"Status": "404"}])
def test_no_headers_no_entry(headers: dict[str, str] | None) -> None:
    with pytest.raises(UndecodableMessage):
        parse_entry("subject", headers, b"{}", 1, "")


@pytest.mark.parametrize("version", ["2", "3"])
def test_two_versions_are_read(version: str) -> None:
    headers = STAMP.headers(version)
    assert parse_stamp("subject", headers) == STAMP
    assert read_stamp("subject", block_of(headers), dict) == STAMP, "without parsing headers"
    added = headers | {"Headrace-Added": "1"}
    assert read_stamp("subject", block_of(added), lambda: added) == STAMP


@pytest.mark.parametrize(
    ("version", "is_newer"), [("4", True), ("99", True), ("1", False), ("x", False), ("", False)]
)
def test_a_later_version_is_distinguished_from_no_entry(version: str, *, is_newer: bool) -> None:
    with pytest.raises(UndecodableMessage) as refused:
        parse_stamp("subject", STAMP.headers(version))
    assert isinstance(refused.value, NewerVersion) is is_newer


def test_headers_of_others_are_no_hindrance() -> None:
    assert parse_stamp("subject", {**STAMP.headers(), "Traceparent": "00-1-2-01"}) == STAMP


def test_an_entry_holds_its_lines_as_they_are_and_parsed() -> None:
    parsed = entry(STAMP, b'{"a": 1}\n{"b":2}')
    assert parsed.lines == [b'{"a": 1}', b'{"b":2}']
    assert parsed.events == [{"a": 1}, {"b": 2}]
    assert (parsed.generation, parsed.last_generation) == (5, 6)
    assert (parsed.sequence, parsed.time) == (12, "then")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\n",
        b"{}\n",
        b"\n{}",
        b"{}\n\n{}",
        b"null",
        b"[]",
        b'"text"',
        b"{",
        b"{}{}",
        b"{},{}",
        b"{}],[{}",
        b'{"a":[{}\n{}]},{"b":1}',
        b'{"a":\r1}',
        b"{}\r\n{}",
        b'{"a":NaN}',
        b'{"a":"\xff"}',
        b'{"a":%b%b}' % (b"[" * 200, b"]" * 200),
        b'{"a":%b1%b}' % (b'{"b":' * 300, b"}" * 300),
    ],
)
def test_a_body_that_is_not_one_object_per_line_makes_no_entry(body: bytes) -> None:
    with pytest.raises(UndecodableMessage):
        entry(STAMP, body)


@pytest.mark.parametrize(
    "body", [b'{"a":%b%b}' % (b"[" * 199, b"]" * 199), b'{"a":[%b{}]}' % (b"{}," * 999)]
)
def test_what_is_large_but_not_deep_is_an_entry(body: bytes) -> None:
    assert entry(STAMP, body).lines == [body]


OTHERS = '{"artifactUpdate":{"artifact":{"parts":[{"text":"%s"}]}}}'


@pytest.mark.parametrize(
    ("written", "line", "text"),
    [
        ("a\u2028b\u2029c\x85d", r"a\u2028b\u2029c\u0085d", "a\u2028b\u2029c\x85d"),
        (r"\ud83d", r"\ufffd", "\ufffd"),
        (r"\ud83d\ude00", r"\ud83d\ude00", "\U0001f600"),
        ("\u00e9\u4e2d\u201c", "\u00e9\u4e2d\u201c", "\u00e9\u4e2d\u201c"),
    ],
)
def test_lines_of_other_writers_are_one_line_and_whole_text_for_every_client(
    written: str, line: str, text: str
) -> None:
    body = (OTHERS % written).encode()
    stamp = Stamp("log1", 2, "writer", WORKING, 1, 1)
    entry = parse_entry("subject", stamp.headers(), body, 1, "")
    lines, [event] = parse_lines("subject", stamp, body)
    assert entry.lines == lines == [(OTHERS % line).encode()]
    assert [event] == entry.events == [json.loads(OTHERS % text)]


def test_events_keep_their_integers_beyond_64_bits() -> None:
    body = b'{"artifactUpdate":{"artifact":{"parts":[{"data":\t%d}]}}}' % 2**70
    stamp = Stamp("log1", 2, "writer", WORKING, 1, 1)
    [event] = parse_entry("subject", stamp.headers(), body, 1, "").events
    assert event["artifactUpdate"]["artifact"]["parts"] == [{"data": 2**70}]
    assert parse_lines("subject", stamp, body)[1] == [event]


def test_parsed_whole_it_is_the_same_entry_with_its_events() -> None:
    body = b'{"a": 1}\n{"b":2}'
    lines, found = parse_lines("subject", STAMP, body)
    assert lines == entry(STAMP, body).lines
    assert found == entry(STAMP, body).events
    with pytest.raises(UndecodableMessage):
        parse_lines("subject", STAMP, b"{}\n[]")


_ARTIFACT = '{"artifactUpdate":{"artifact":{"artifactId":"a"}}}'
_MESSAGE = '{"message":{"messageId":"m"}}'


def _status(state: str, **fields: object) -> str:
    return json.dumps({"statusUpdate": {"status": {"state": state, **fields}}})


def _body(*events: str) -> bytes:
    return "\n".join(events).encode()


@pytest.mark.parametrize(
    ("state", "events"),
    [
        (COMPLETED, [_status(WORKING)]),
        (COMPLETED, [_status(FAILED)]),
        (COMPLETED, [_ARTIFACT]),
        (COMPLETED, [_MESSAGE]),
        (COMPLETED, ['{"other":{}}']),
        (COMPLETED, [_status(COMPLETED, message=7)]),
        (COMPLETED, [_status(COMPLETED), _ARTIFACT]),
        (COMPLETED, [_status(COMPLETED), _status(COMPLETED)]),
        (WORKING, [_status(COMPLETED)]),
        (WORKING, [_MESSAGE]),
        (WORKING, [_status(COMPLETED), _status(WORKING)]),
        (WORKING, [_MESSAGE, _ARTIFACT]),
        (INPUT_REQUIRED, [_status(COMPLETED)]),
        (INPUT_REQUIRED, [_status(WORKING)]),
        (INPUT_REQUIRED, [_status(INPUT_REQUIRED), _status(WORKING)]),
        (INPUT_REQUIRED, [_ARTIFACT]),
        (WORKING, [_status(INPUT_REQUIRED)]),
        (WORKING, [_status(SUBMITTED)]),
        (WORKING, [_status(AUTH_REQUIRED)]),
        (AUTH_REQUIRED, [_status(WORKING)]),
        (SUBMITTED, [_status(WORKING)]),
        # What clients would see of an event that no fold takes for one.
        (WORKING, [_status(COMPLETED, message=7)]),
        (WORKING, [_status(INPUT_REQUIRED, message=7), _status(WORKING)]),
        (WORKING, ['{"message":{"messageId":7}}']),
        # It does not put the task back to work.
        (WORKING, [_status(INPUT_REQUIRED), _status(WORKING, message=7)]),
        (BARE_MESSAGE, [_status(COMPLETED)]),
        (BARE_MESSAGE, ['{"message":{"messageId":7}}']),
    ],
)
def test_headers_and_events_that_contradict_each_other_make_no_entry(
    state: str, events: list[str]
) -> None:
    stamp, body = STAMP._replace(state=state), _body(*events)
    with pytest.raises(UndecodableMessage):
        entry(stamp, body)
    with pytest.raises(UndecodableMessage):
        parse_lines("subject", stamp, body)


@pytest.mark.parametrize(
    ("state", "events"),
    [
        (COMPLETED, [_ARTIFACT, _status(COMPLETED)]),
        (FAILED, [_status(WORKING), _status(FAILED)]),
        (BARE_MESSAGE, [_MESSAGE]),
        (WORKING, [_status(WORKING), _ARTIFACT, '{"other":{}}', '{"statusUpdate":[]}']),
        (WORKING, ['{"statusUpdate":{"status":{"state":[]}}}', _status(WORKING, message=7)]),
        (WORKING, [_status(INPUT_REQUIRED), _status(WORKING)]),
        (AUTH_REQUIRED, [_status(WORKING), _status(AUTH_REQUIRED)]),
        (SUBMITTED, [_status(SUBMITTED)]),
        (INPUT_REQUIRED, [_status(INPUT_REQUIRED)]),
        (INPUT_REQUIRED, [_status(SUBMITTED), _status(INPUT_REQUIRED), _ARTIFACT]),
    ],
)
def test_the_events_leave_the_task_in_the_state_of_the_headers(
    state: str, events: list[str]
) -> None:
    stamp, body = STAMP._replace(state=state), _body(*events)
    assert entry(stamp, body).lines == parse_lines("subject", stamp, body)[0] == body.split(b"\n")


@given(st.binary(max_size=60))
def test_any_bytes_are_an_entry_or_undecodable(body: bytes) -> None:
    try:
        parsed = entry(STAMP, body)
    except UndecodableMessage:
        return
    assert b"\n".join(parsed.lines) == body
    assert len(parsed.events) == len(parsed.lines)


@pytest.mark.parametrize(
    ("state", "ends_run", "ends_task"),
    [
        (WORKING, False, False),
        (AUTH_REQUIRED, False, False),
        (INPUT_REQUIRED, True, False),
        (COMPLETED, True, True),
        (BARE_MESSAGE, True, True),
    ],
)
def test_the_state_shows_what_an_entry_ends(state: str, *, ends_run: bool, ends_task: bool) -> None:
    event = _MESSAGE if state == BARE_MESSAGE else _status(state)
    last = entry(Stamp("abcd", 1, "w", state, 1), event.encode())
    assert (last.ends_run, last.ends_task) == (ends_run, ends_task)


def block_of(headers: dict[str, str]) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"NATS/1.0\r\n{lines}\r\n".encode()


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"Headrace-Owner": "owner"},
        {"Nats-Expected-Last-Subject-Sequence": "3"},
        {"Headrace-Checkpoint": '{"a": 1}'},
        {"Some-Other": "header"},
        {"Headrace-Attempt": "2"},
        {"Headrace-State": "HEADRACE_ANSWERED"},
    ],
    ids=str,
)
def test_a_stamp_is_the_same_from_the_bytes_as_from_the_headers(change: dict[str, str]) -> None:
    headers = STAMP.headers() | change
    assert read_stamp("subject", block_of(headers), lambda: headers) == parse_stamp("", headers)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"Headrace-Generation": "999999999999999"},
        {"Headrace-Owner": "owner"},
        {"Headrace-Run": "2"},
        {"Headrace-Attempt": "2"},
        {"Nats-Expected-Last-Subject-Sequence": "12"},
        {"Nats-Stream": "EVENTS", "Headrace-Checkpoint": '{"a": 1}'},
        {"Nats-Stream": "EVENTS", " Headrace-Owner": "owner"},
    ],
    ids=str,
)
def test_a_stamp_is_the_same_after_an_earlier_entry_of_the_attempt(change: dict[str, str]) -> None:
    earlier = STAMP.headers() | {"Nats-Expected-Last-Subject-Sequence": "3"}
    for generation in ("1", "2"):
        earlier |= {"Headrace-Generation": generation}
        assert read_stamp("", block_of(earlier), dict).generation == int(generation)
    headers = earlier | {"Headrace-Generation": "7"} | change
    block = block_of(headers)
    read = header_lines(block.partition(b"\r\n")[2])
    assert read_stamp("", block, lambda: read) == parse_stamp("", read)


@pytest.mark.parametrize(
    "change",
    [
        {"Headrace-Version": "1"},
        {"Headrace-Generation": "0"},
        {"Headrace-Run": "0"},
        {"Headrace-State": "TASK_STATE_ODD"},
        {"Headrace-Log": "x"},
        {"Headrace-Generation": "٣"},
        {"Headrace-Generation": "9" * 16},
    ],
    ids=str,
)
@pytest.mark.parametrize("has_earlier", [False, True])
def test_what_is_no_stamp_is_none_from_the_bytes_either(
    change: dict[str, str], *, has_earlier: bool
) -> None:
    usual = STAMP.headers() | {"Nats-Expected-Last-Subject-Sequence": "3"}
    if has_earlier:
        assert read_stamp("subject", block_of(usual), dict) == STAMP
    headers = usual | change
    with pytest.raises(UndecodableMessage):
        read_stamp("subject", block_of(headers), lambda: headers)
