"""What the store looks for is in all tasks with the text."""

import sys

from headrace_task_state.queries.find_tasks import sought_in
from headrace_task_state.store_redis.encoding import BECOME_ASCII


def test_all_characters_that_become_ascii_letters_are_listed() -> None:
    characters = map(chr, range(128, sys.maxunicode + 1))
    found = {one for one in characters if any(each.isascii() for each in one.casefold())}
    assert found == set(BECOME_ASCII)


def test_no_other_character_is_sought_if_it_is_that_of_another_case() -> None:
    characters = map(chr, range(128, sys.maxunicode + 1))
    cased = [one for one in characters if one.casefold() != one and one not in BECOME_ASCII]
    assert [one for one in cased if sought_in(one)] == []
