from headrace.model import parts
from headrace.model.events import RETRACTED, Json, artifact_update, bare_message
from headrace.model.task import BARE_MESSAGE, COMPLETED
from tests.support.agui.client_rules import Client
from tests.support.agui.logs import GIVEN, KEY, AguiLog


def start(message: str) -> Json:
    return {"type": "TEXT_MESSAGE_START", "messageId": message, "role": "assistant"}


def content(message: str, delta: str) -> Json:
    return {"type": "TEXT_MESSAGE_CONTENT", "messageId": message, "delta": delta}


def end(message: str) -> Json:
    return {"type": "TEXT_MESSAGE_END", "messageId": message}


def agui_events(log: AguiLog) -> list[Json]:
    """Return what comes between the run's start and its end."""
    events = log.agui_events()
    assert events[0]["type"] == "RUN_STARTED"
    assert events[-1]["type"] == "RUN_FINISHED"
    return events[1:-1]


def test_a_block_is_one_message_with_the_blocks_id() -> None:
    log = AguiLog.started()
    log.show(parts.text_part("Hel", "b-1"))
    log.show(parts.text_part("lo", "b-1"), append=True)
    log.show(parts.text_part("", "b-1", end=True), append=True)
    assert agui_events(log.end()) == [
        start("b-1"),
        content("b-1", "Hel"),
        content("b-1", "lo"),
        end("b-1"),
    ]


def test_a_block_without_an_end_ends_with_the_run() -> None:
    log = AguiLog.started().show(parts.text_part("Hi", "b-1"))
    assert agui_events(log.end())[-1] == end("b-1")


def test_the_last_chunk_of_an_artifact_ends_its_block() -> None:
    log = AguiLog.started()
    log.append([log.shown([{"text": "a"}], "b-1", append=False, last=True)])
    log.append([log.shown([{"text": "b"}], "b-2", append=False, last=True)])
    assert agui_events(log.end()) == [
        *[start("b-1"), content("b-1", "a"), end("b-1")],
        *[start("b-2"), content("b-2", "b"), end("b-2")],
    ]


def test_interleaved_blocks_stay_apart() -> None:
    log = AguiLog.started()
    log.show(parts.text_part("1", "x"), artifact="x")
    log.show(parts.text_part("2", "y"), artifact="y")
    log.show(parts.text_part("1", "x"), artifact="x", append=True)
    events = agui_events(log.end())
    assert events == [
        *[start("x"), content("x", "1"), start("y"), content("y", "2"), content("x", "1")],
        *[end("y"), end("x")],
    ]


def test_text_without_metadata_is_answer_text() -> None:
    log = AguiLog.started().show({"text": "plain"}, artifact="answer")
    assert agui_events(log.end()) == [start("answer"), content("answer", "plain"), end("answer")]


def test_empty_pieces_emit_nothing() -> None:
    log = AguiLog.started().show(parts.text_part("", "b-1"))
    log.show(parts.text_part("x", "b-1"), append=True)
    log.show(parts.text_part("", "b-1"), append=True)
    assert agui_events(log.end()) == [start("b-1"), content("b-1", "x"), end("b-1")]


def test_a_last_word_is_a_message() -> None:
    log = AguiLog.started().end(COMPLETED, {"text": "done"})
    assert agui_events(log) == [start("last"), content("last", "done"), end("last")]


def test_a_bare_message_is_the_whole_answer() -> None:
    log = AguiLog.started()
    message = {"messageId": "bare", "role": "ROLE_AGENT", "parts": [{"text": "Hello"}]}
    log.append([bare_message(log.context, message)], state=BARE_MESSAGE)
    assert agui_events(log) == [start("bare"), content("bare", "Hello"), end("bare")]


def test_a_chunk_that_replaces_takes_back_what_was_emitted() -> None:
    log = AguiLog.started().show(parts.text_part("wrong", "b-1"))
    events = agui_events(log.show(parts.text_part("right", "b-1")).end())
    assert {"type": "MESSAGES_SNAPSHOT", "messages": GIVEN} in events
    client = Client(GIVEN).take_all(log.agui_events())
    assert client.messages[-1] == {"id": "b-1", "role": "assistant", "content": "right"}


def test_a_retraction_for_clients_of_a_dead_attempt_emits_nothing() -> None:
    log = AguiLog.started()
    body = {"artifactId": "gone", "parts": [{"text": ""}]}
    log.append([artifact_update(KEY.task, log.context, body, metadata={RETRACTED: True})])
    assert agui_events(log.end()) == []


def test_a_block_named_like_the_users_message_gets_an_id_of_its_own() -> None:
    log = AguiLog.started().show(parts.text_part("Hi", "u"))
    [started] = [e for e in log.end().client_events() if e["type"] == "TEXT_MESSAGE_START"]
    assert started["messageId"] not in {message["id"] for message in GIVEN}


def test_a_sealed_text_carries_its_value() -> None:
    part = parts.text_part("Hi", "b-1")
    part["metadata"][parts.ENCRYPTED_VALUE] = "sealed"
    events = agui_events(AguiLog.started().show(part).end())
    assert {
        "type": "REASONING_ENCRYPTED_VALUE",
        "subtype": "message",
        "entityId": "b-1",
        "encryptedValue": "sealed",
    } in events


def test_many_chunks_take_the_short_way_with_the_same_result() -> None:
    log = AguiLog.started().show(parts.text_part("0", "b-1"))
    for number in range(1, 50):
        log.show(parts.text_part(str(number), "b-1"), append=True)
    log.show(parts.text_part("!", "b-1", end=True), append=True)
    deltas = [e["delta"] for e in agui_events(log.end()) if e["type"] == "TEXT_MESSAGE_CONTENT"]
    assert deltas == [*map(str, range(50)), "!"]
    assert agui_events(log)[-1] == end("b-1")
