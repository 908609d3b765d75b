"""The scripts of the store take what other readers of a log also name from Python."""

import re
from importlib.resources import files

import pytest

from headrace_task_state import store_redis
from headrace_task_state.store_redis.encoding import constants

LUA = files(store_redis) / "lua"
NAMES = sorted(one.name for one in LUA.iterdir() if one.name.endswith(".lua"))
TAGS_AND_STATES = re.compile(r"TASK_STATE_|HEADRACE_|['\"](?:in|out|child|meta|drop|new|add)['\"]")


@pytest.mark.parametrize("name", NAMES)
def test_a_script_spells_no_state_and_no_tag_of_an_item(name: str) -> None:
    code = re.sub(r"--.*", "", (LUA / name).read_text())
    assert TAGS_AND_STATES.findall(code) == []


def test_the_constants_have_the_spelling_of_the_fold() -> None:
    defined = dict(re.findall(r"^local (\w+) = (.*)$", constants(), re.MULTILINE))
    assert defined["DROP"] == "'drop'"
    assert defined["MOST_ITEMS"] == "64"
    assert defined["AT_WORK"] == "{ TASK_STATE_AUTH_REQUIRED = 1, TASK_STATE_WORKING = 1 }"
