"""`headrace send` and `chat` on a terminal: cards, questions answered in place, Ctrl-C."""

import json
import threading

import pytest

from headrace.model.events import Json
from tests.support.fake_gateway import ScriptedResponse, answering
from tests.support.pseudo_terminal import at_terminal

PATH = "/v1/agents/shop/message:stream"
LEFT, UP, END = "\x1b[D", "\x1b[A", "\x1b[F"


def status(state: str, *parts: Json, **metadata: Json | list[Json]) -> Json:
    body = {"state": f"TASK_STATE_{state}", "message": {"role": "ROLE_AGENT", "parts": list(parts)}}
    update = {"taskId": "t1", "contextId": "c1", "status": body, "metadata": metadata}
    return {"statusUpdate": update}


def text(output: str) -> Json:
    artifact = {"artifactId": "a", "parts": [{"text": output}]}
    update = {"taskId": "t1", "contextId": "c1", "artifact": artifact, "append": True}
    return {"artifactUpdate": update}


def stream(*events: Json, hold: threading.Event | None = None) -> ScriptedResponse:
    frames = tuple((f"log1:{number}", event) for number, event in enumerate(events, 1))
    return ScriptedResponse(frames=frames, hold=hold)


THINKING: Json = {
    "text": "Let me see.",
    "metadata": {"agui_event_type": "thinking", "agui_block_type": "thinking"},
}
CALL: Json = {
    "data": {"id": "c1", "name": "stock", "arguments": {"of": "nails"}},
    "metadata": {"agui_event_type": "tool_call"},
}
RESULT: Json = {
    "data": {"tool_call_id": "c1", "content": "7 \x1b]0;title\x07"},
    "metadata": {"agui_event_type": "tool_call", "agui_is_error": False},
}


def test_a_question_is_answered_in_place_between_cards() -> None:
    waiting = stream(
        status("WORKING", THINKING),
        status("WORKING", CALL),
        status("WORKING", RESULT),
        status("INPUT_REQUIRED", {"text": "How many?"}, **{"headrace.interrupts": [{"id": "q"}]}),
    )
    done = stream(status("WORKING"), text("Sold \x1b[2J3."), status("COMPLETED"))
    with (
        answering(**{PATH: [waiting, done]}) as gateway,
        at_terminal("send", "--agent", "shop", "--url", gateway.url, "nails") as terminal,
    ):
        terminal.until("How many?\n> ")
        terminal.type("3")
        terminal.until("t1 COMPLETED")
        assert terminal.end() == 0
    lines = [line.rstrip() for line in terminal.text.splitlines()]
    assert lines[:8] == [
        "task t1 WORKING",
        "Let me see.",
        "╭─ stock ─────────╮",
        '│ {"of": "nails"} │',
        "╰─────────────────╯",
        "╭─ result ─────╮",
        "│ 7 \ufffd]0;title\ufffd │",
        "╰──────────────╯",
    ]
    assert "Sold \ufffd[2J3." in lines
    assert "\x1b[2;3mLet me see." in terminal.output
    assert not any(line.startswith("answer with") for line in lines)
    [part] = (gateway.asked[1].body or {})["message"]["parts"]
    assert (part["text"], part["metadata"]["agui_interrupt_id"]) == ("3", "q")


def piece(delta: str, *, call: str = "c9", end: bool = False) -> Json:
    hints: Json = {"agui_event_type": "tool_call", "agui_partial": True, "agui_block_end": end}
    return {
        "text": delta,
        "metadata": {**hints, "agui_tool_call_id": call, "agui_tool_name": "refund"},
    }


WHOLE: Json = {
    "data": {"id": "c9", "name": "refund", "arguments": {"order": "A1"}},
    "metadata": {"agui_event_type": "tool_call"},
}
ABOUT: Json = {"id": "q", "toolCallId": "c9", "message": "Sure?"}
REVIEW: Json = {
    "id": "q",
    "metadata": {"value": {"action_requests": [{"name": "refund", "args": {"order": "A1"}}]}},
}


@pytest.mark.parametrize("interrupt", [ABOUT, REVIEW], ids=["by id", "as LangChain describes it"])
@pytest.mark.parametrize(
    "before",
    [
        [status("WORKING", WHOLE)],
        [
            status("WORKING", piece('{"order": ')),
            status("WORKING", piece('"A1"}')),
            status("WORKING", piece("", end=True)),
        ],
    ],
    ids=["whole", "streamed"],
)
def test_a_call_that_is_asked_about_is_shown_once(before: list[Json], interrupt: Json) -> None:
    question = status("INPUT_REQUIRED", {"text": "Sure?"}, **{"headrace.interrupts": [interrupt]})
    with (
        answering(**{PATH: [stream(*before, question)]}) as gateway,
        at_terminal("send", "--agent", "shop", "--url", gateway.url, "Refund.") as terminal,
    ):
        terminal.until("Sure?\n> ")
        terminal.type("\x04")
        assert terminal.end() == 6
    assert terminal.text.count("─ refund ─") == 1
    assert '{"order": "A1"}' in terminal.text


def test_a_call_of_an_earlier_run_is_shown_with_its_question() -> None:
    said = {"messageId": "m", "role": "ROLE_AGENT", "parts": [piece('{"order": "A1"}', end=True)]}
    task = {
        "id": "t1",
        "contextId": "c1",
        "history": [said],
        "status": {"state": "TASK_STATE_SUBMITTED"},
    }
    question = status("INPUT_REQUIRED", {"text": "Sure?"}, **{"headrace.interrupts": [ABOUT]})
    with (
        answering(**{PATH: [stream({"task": task}, question)]}) as gateway,
        at_terminal("send", "--agent", "shop", "--url", gateway.url, "Go.") as terminal,
    ):
        terminal.until("Sure?\n> ")
        terminal.type("\x04")
        assert terminal.end() == 6
    assert terminal.text.count("─ refund ─") == 1
    assert '{"order": "A1"}' in terminal.text


def test_a_call_whose_arguments_were_cut_is_shown_whole_with_its_question() -> None:
    order = "A" * 600
    call = {**WHOLE, "data": {**WHOLE["data"], "arguments": {"order": order}}}
    question = status("INPUT_REQUIRED", {"text": "Sure?"}, **{"headrace.interrupts": [ABOUT]})
    with (
        answering(**{PATH: [stream(status("WORKING", call), question)]}) as gateway,
        at_terminal("send", "--agent", "shop", "--url", gateway.url, "Go.") as terminal,
    ):
        terminal.until("Sure?\n> ")
        terminal.type("\x04")
        assert terminal.end() == 6
    assert terminal.text.count("─ refund ─") == 2
    assert terminal.text.count("A") >= len(order) + 350


def test_each_of_several_questions_is_answered_in_place() -> None:
    questions: list[Json] = [{"id": "q", "message": "How many?"}, {"id": "r", "message": "Sure?"}]
    waiting = stream(
        status("INPUT_REQUIRED", {"text": "Two things."}, **{"headrace.interrupts": questions})
    )
    with (
        answering(**{PATH: [waiting, stream(status("COMPLETED"))]}) as gateway,
        at_terminal("send", "--agent", "shop", "--url", gateway.url, "nails") as terminal,
    ):
        terminal.until("question 1 of 2: How many?\n> ")
        terminal.type("3")
        terminal.until("question 2 of 2: Sure?\n> ")
        terminal.type("yes")
        terminal.until("t1 COMPLETED")
        assert terminal.end() == 0
    first, second = (gateway.asked[1].body or {})["message"]["parts"]
    answers = [(part["metadata"]["agui_interrupt_id"], part["text"]) for part in (first, second)]
    assert answers == [("q", "3"), ("r", "yes")]


def thinking(output: str, block: str) -> Json:
    metadata = {"agui_event_type": "thinking", "agui_block_id": block}
    return {"text": output, "metadata": metadata}


def child(*levels: Json) -> Json:
    [first, *others] = levels
    return {**first, "child": child(*others)} if others else first


def test_the_work_of_child_tasks_is_indented_below_them() -> None:
    store, clerk = {"task": "t2"}, {"task": "t3"}
    received = stream(
        status("WORKING", thinking("Who ", "a"), thinking("knows?", "a")),
        status("WORKING", thinking("The store.", "b")),
        status("WORKING", **{"headrace.child": child({**store, "agent": "store"})}),
        status("WORKING", thinking("One\nTwo", "a"), **{"headrace.child": child(store)}),
        status("WORKING", **{"headrace.child": child(store, {**clerk, "agent": "clerk"})}),
        status("WORKING", thinking("I do.", "a"), **{"headrace.child": child(store, clerk)}),
        status("WORKING", CALL, **{"headrace.child": child(store, clerk)}),
        status("WORKING", RESULT, **{"headrace.child": child(store)}),
        status("COMPLETED"),
    )
    with (
        answering(**{PATH: received}) as gateway,
        at_terminal("send", "--agent", "shop", "--url", gateway.url, "nails") as terminal,
    ):
        terminal.until("t1 COMPLETED")
        assert terminal.end() == 0
    assert [line.rstrip() for line in terminal.text.splitlines()] == [
        "task t1 WORKING",
        "Who knows?",
        "The store.",
        "  asks store: task t2",
        "  One",
        "  Two",
        "    asks clerk: task t3",
        "    I do.",
        "    ╭─ clerk: stock ──╮",
        '    │ {"of": "nails"} │',
        "    ╰─────────────────╯",
        "  ╭─ result ─────╮",
        "  │ 7 \ufffd]0;title\ufffd │",
        "  ╰──────────────╯",
        "task t1 COMPLETED",
    ]


def test_a_conversation_keeps_its_context_until_ctrl_d() -> None:
    answers = [stream(text("One."), status("COMPLETED")), stream(text("Two."), status("COMPLETED"))]
    with (
        answering(**{PATH: answers}) as gateway,
        at_terminal("chat", "--agent", "shop", "--url", gateway.url) as terminal,
    ):
        terminal.until("> ")
        terminal.type("first")
        terminal.until("COMPLETED\n> ")
        terminal.type("second")
        terminal.until("Two.\n> ")
        terminal.end_input()
        assert terminal.end() == 0
    contexts = [(question.body or {})["message"].get("contextId") for question in gateway.asked]
    assert contexts == [None, "c1"]


def test_ctrl_c_leaves_the_task_and_states_how_to_come_back_or_cancels_it() -> None:
    hold = threading.Event()
    canceled = {"id": "t1", "status": {"state": "TASK_STATE_CANCELED"}}
    script = {
        PATH: stream(text("Wait."), hold=hold),
        "/v1/agents/shop/tasks/t1:cancel": ScriptedResponse(body=canceled),
    }
    with (
        answering(**script) as gateway,
        at_terminal("chat", "--agent", "shop", "--url", gateway.url) as terminal,
    ):
        try:
            terminal.until("> ")
            terminal.type("work")
            terminal.until("Wait.")
            terminal.interrupt()
            terminal.until("Cancel the task? [y/N]: ")
            terminal.type("y")
            terminal.until("task t1 CANCELED\n> ")
            terminal.type("work")
            terminal.until("CANCELED\n> work\nWait.")
            terminal.interrupt()
            terminal.until("CANCELED\n> work\nWait.^C\nCancel the task? [y/N]: ")
            terminal.type("n")
            assert terminal.end() == 130
        finally:
            hold.set()
    resumes = f"  resume it: headrace chat --url {gateway.url} --task t1\n"
    assert f"task t1 continues\n{resumes}" in terminal.text
    assert [q.path for q in gateway.asked].count("/v1/agents/shop/tasks/t1:cancel") == 1


def test_a_question_that_is_left_open_is_answered_later_by_the_command_that_is_shown() -> None:
    waiting = stream(status("INPUT_REQUIRED", {"text": "How many?"}))
    with answering(**{PATH: [waiting, waiting]}) as gateway:
        endings = []
        for command in (["send", "nails"], ["chat"]):
            with at_terminal(*command, "--agent", "shop", "--url", gateway.url) as terminal:
                if command == ["chat"]:
                    terminal.until("> ")
                    terminal.type("nails")
                terminal.until("How many?\n> ")
                terminal.end_input()
                endings.append((terminal.end(), terminal.text.splitlines()[-1]))
                assert terminal.text.count("answer with: ") == 1
    hint = f"answer with: headrace send --url {gateway.url} --task t1 TEXT"
    assert endings == [(6, hint), (0, hint)]


def test_credentials_are_requested_with_the_command_that_gives_them() -> None:
    waiting = status("AUTH_REQUIRED", {"text": "Your token?"})
    answers = stream(waiting, status("WORKING"), text("Thanks."), status("COMPLETED"))
    with answering(**{PATH: answers}) as gateway:
        command = ("send", "nails", "--agent", "shop", "--url", gateway.url)
        with at_terminal(*command) as terminal:
            assert terminal.end() == 0
    assert "Your token?" in terminal.text
    hint = f"answer with: headrace send --url {gateway.url} --task t1 TEXT"
    assert terminal.text.count(hint) == 1


def test_a_message_is_edited_and_comes_back_with_the_arrow_keys() -> None:
    answers = [stream(text("One."), status("COMPLETED")), stream(text("Two."), status("COMPLETED"))]
    with (
        answering(**{PATH: answers}) as gateway,
        at_terminal("chat", "--agent", "shop", "--url", gateway.url) as terminal,
    ):
        terminal.until("> ")
        terminal.type(f"nail{LEFT * 4}two {END}s")
        terminal.until("One.")
        terminal.until("COMPLETED\n> ")
        terminal.type(UP)
        terminal.until("Two.\n> ")
        terminal.end_input()
        assert terminal.end() == 0
    sent = [(question.body or {})["message"]["parts"][0]["text"] for question in gateway.asked]
    assert sent == ["two nails", "two nails"]


def test_a_conversation_in_json_has_no_prompt() -> None:
    with (
        answering(**{PATH: stream(text("One."), status("COMPLETED"))}) as gateway,
        at_terminal("chat", "--json", "--agent", "shop", "--url", gateway.url) as terminal,
    ):
        terminal.type("first")
        terminal.until('"TASK_STATE_COMPLETED"')
        terminal.until("\n")
        terminal.end_input()
        assert terminal.end() == 0
    events = [json.loads(line) for line in terminal.text.splitlines() if line.startswith("{")]
    assert [next(iter(event)) for event in events] == ["artifactUpdate", "statusUpdate"]
    assert "> " not in terminal.text
