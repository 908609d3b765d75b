"""Chunks that are known by their frames change what they would change if they were parsed."""

import random

import orjson
import pytest

from headrace.model.events import Draft, TextChunks
from headrace.model.task import WORKING
from headrace_task_state.projector import delta
from headrace_task_state.projector.batches import Batches, StoreBatch
from headrace_task_state.projector.delta import ChunkFrame
from headrace_task_state.store import Progress
from tests.support.legal_logs import LegalLog
from tests.support.task_states import new_key
from tests.unit.task_state.projector.test_batches import SUBJECTS, arrivals

TEXTS = ["a", "", " ", '"', "\\", "\u00e9\u4e16", "\U0001f600", '"text":"a"', "1}}}", "\u2028\n\t"]
METADATA = {"agui_block_index": 0, "text": "a"}


def chunks(artifact: str = "block-1", **more: object) -> TextChunks:
    return TextChunks("task", "context", artifact, METADATA | more)


def line_of(text: str, generation: int = 7) -> bytes:
    return chunks().draft(text).line(generation)


@pytest.mark.parametrize("first", TEXTS)
@pytest.mark.parametrize("generation", [1, 9, 10, 12345])
def test_a_frame_knows_its_lines_and_their_texts(first: str, generation: int) -> None:
    frame = ChunkFrame.of(line_of(first, generation), generation)
    assert frame is not None
    assert [frame.text_of(line_of(text, 99), 99) for text in TEXTS] == TEXTS


@pytest.mark.parametrize(
    "line",
    [
        line_of("b", 8),
        line_of("b", 17),
        line_of("b").replace(b'"b"', b"5"),
        line_of("b").replace(b'"b"', b'"b","b":"b"'),
        line_of("b").replace(b'"b"', b'"\\ud800"'),
        line_of("b").replace(b'"b"', b'"\xff"'),
        line_of("b").replace(b'"b"', b'"b'),
        line_of("b").replace(b'"b"', b""),
        line_of("b").replace(b"block-1", b"block-2"),
        line_of("b").replace(b'"append":true', b'"append":false'),
        line_of("b")[:-1],
        b"",
    ],
)
def test_a_frame_knows_no_other_line(line: bytes) -> None:
    frame = ChunkFrame.of(line_of("a"), 7)
    assert frame is not None
    assert frame.text_of(line_of("b"), 7) == "b"
    assert frame.text_of(line, 7) is None


def test_a_line_that_is_written_otherwise_has_no_frame() -> None:
    spaced = line_of("a").replace(b'"text":', b'"text": ')
    escaped = line_of("\u00e9").replace("\u00e9".encode(), b"\\u00e9")
    behind = line_of("a").replace(b'"headrace.generation":7}', b'"headrace.generation":7,"x":1}')
    assert [ChunkFrame.of(line, 7) for line in (spaced, escaped, behind)] == [None] * 3


def test_of_equal_bytes_the_text_is_found_or_nothing() -> None:
    line = orjson.dumps(
        {
            "artifactUpdate": {
                "artifact": {"metadata": {"text": "a"}, "parts": [{"text": "a"}]},
                "metadata": {"headrace.generation": 7},
            }
        }
    )
    assert ChunkFrame.of(line, 7) is None


def in_between(log: LegalLog, chance: random.Random) -> Draft:
    """Return what a run may say between two chunks."""
    whole = {"artifactId": "block-1", "parts": [{"text": "anew"}]}
    update = {"taskId": "task", "contextId": "context", "artifact": whole}
    body = orjson.dumps({"artifactUpdate": update | {"metadata": {}}})
    anew = Draft(body.removesuffix(b"}}}") + b'"headrace.generation":', b"}}}")
    others = [log.status(WORKING), chunks("block-2").draft("other"), chunks(x=1).draft("x"), anew]
    return chance.choice(others)


def built(log: LegalLog, cuts: list[int]) -> list[StoreBatch]:
    batches, progress, made = Batches(SUBJECTS, 5, 30), Progress(origin="origin"), []
    all_arrivals = arrivals(log)
    for start, end in zip([0, *cuts], [*cuts, len(all_arrivals)], strict=True):
        made.append(batches.build(all_arrivals[start:end], progress))
        progress = made[-1].then
    return made


@pytest.mark.parametrize("seed", range(20))
def test_known_or_parsed_chunks_make_the_same_batches(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, log, frame = random.Random(seed), LegalLog(new_key()), chunks()
    log.submit("hello")
    log.begin_attempt()
    for _ in range(12):
        drafts = [frame.draft(chance.choice(TEXTS)) for _ in range(chance.choice([1, 9, 20]))]
        if chance.random() < 0.4:
            drafts.insert(chance.randrange(len(drafts) + 1), in_between(log, chance))
        log.append(drafts)
    cuts = sorted(chance.sample(range(1, 14), 3))
    monkeypatch.setattr(delta, "LEARNT_FROM", 1)
    known = built(log, cuts)
    monkeypatch.setattr(delta, "LEARNT_FROM", 10_000)
    assert known == built(log, cuts)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """Texts that known frames find in lines; None for a line of another frame."""
    found: list[str | None] = []
    knows = ChunkFrame.text_of

    def text_of(self: ChunkFrame, line: bytes, generation: int) -> str | None:
        found.append(knows(self, line, generation))
        return found[-1]

    monkeypatch.setattr(ChunkFrame, "text_of", text_of)
    return found


@pytest.mark.parametrize(("size", "learned_from"), [(delta.LEARNT_FROM, 1), (1, 9), (3, 3)])
def test_a_stream_is_known_after_its_first_events(
    size: int, learned_from: int, known: list[str | None]
) -> None:
    log, frame = LegalLog(new_key()), chunks()
    log.submit("hello")
    log.begin_attempt()
    for _ in range(learned_from + 2):
        log.append([frame.draft("word ")] * size)
    built(log, [3])
    assert known == ["word "] * (2 * size)
