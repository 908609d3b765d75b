"""The tutorial's steps follow each other; `tests/e2e/test_wheel.py` does what they say."""

from tests.support.document import TUTORIAL


def test_every_step_states_what_comes_next() -> None:
    following = [step.read_text().rsplit("Next: ", 1)[-1] for step in TUTORIAL[:-1]]
    assert len(following) == 4
    named = [text.partition("](")[2].partition(")")[0] for text in following]
    assert named == [step.name for step in TUTORIAL[1:]]
