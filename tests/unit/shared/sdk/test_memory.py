"""What an agent that is called as a function remembers: the rules of the fleet's memory."""

import pytest

from headrace.model.errors import InvalidName
from headrace.model.memory import (
    LARGEST_VALUE,
    LONGEST_KEY,
    MemoryChanged,
    MemoryFull,
    decode_key,
    encode_key,
)
from headrace.sdk.direct_run import DirectRun
from headrace.sdk.errors import MalformedOutput
from headrace.sdk.memory import Memory


@pytest.fixture
def memory() -> Memory:
    return DirectRun("any", "hi").context.memory


async def test_a_value_is_found_under_its_key_only(memory: Memory) -> None:
    revision = await memory.put("a/b", b"1")
    found = await memory.get("a/b")
    assert found is not None
    assert (found.data, found.revision) == (b"1", revision)
    assert await memory.get("a") is None


async def test_a_write_expects_a_revision(memory: Memory) -> None:
    first = await memory.put("a", b"1", revision=0)
    second = await memory.put("a", b"2", revision=first)
    assert second > first
    for wrong in (0, first):
        with pytest.raises(MemoryChanged, match=r"memory key 'a' has another revision; get it"):
            await memory.put("a", b"3", revision=wrong)
        with pytest.raises(MemoryChanged):
            await memory.delete("a", revision=wrong)
    await memory.delete("a", revision=second)
    assert await memory.get("a") is None
    await memory.delete("a")


async def test_keys_are_listed_by_whole_segments(memory: Memory) -> None:
    for key in ("b", "a/2", "a/1", "ab/1"):
        await memory.put(key, key.encode())
    assert await memory.keys() == ["a/1", "a/2", "ab/1", "b"]
    assert await memory.keys("a/") == ["a/1", "a/2"]
    assert {key: one.data for key, one in (await memory.read("a/")).items()} == {
        "a/1": b"a/1",
        "a/2": b"a/2",
    }
    with pytest.raises(InvalidName, match="must be empty or end with '/'"):
        await memory.keys("a")


async def test_scopes_share_nothing(memory: Memory) -> None:
    scopes = memory, memory.of_task, memory.of_owner
    for number, one in enumerate(scopes):
        await one.put("key", str(number).encode())
    found = [await one.get("key") for one in scopes]
    assert [one.data for one in found if one is not None] == [b"0", b"1", b"2"]


async def test_json_is_loaded_as_it_was_saved(memory: Memory) -> None:
    assert await memory.load("list", []) == []
    await memory.save("list", [1, "ä", {"big": 2**70}])
    assert await memory.load("list") == [1, "ä", {"big": 2**70}]
    with pytest.raises(MalformedOutput, match=r"memory key 'list' is not JSON.*use put for bytes"):
        await memory.save("list", object())


async def test_an_update_is_repeated_with_what_another_run_wrote(memory: Memory) -> None:
    seen = list[list[int]]()

    async def other() -> None:
        await memory.save("list", [1])

    def add(value: list[int]) -> list[int]:
        seen.append(value)
        if len(seen) == 1:
            coroutine = other()
            with pytest.raises(StopIteration):
                coroutine.send(None)
        return [*value, 2]

    assert await memory.update("list", add, []) == [1, 2]
    assert seen == [[], [1]]
    assert await memory.load("list") == [1, 2]


@pytest.mark.parametrize("key", ["a", "a/b", "/", "a//b", "_", "ä.*>", " ", "a/_/b", "x" * 150])
def test_any_key_is_subject_tokens_and_back(key: str) -> None:
    tokens = encode_key(key)
    assert decode_key(tokens) == key
    assert not set(tokens) & set("*> ")
    assert "" not in tokens.split(".")


@pytest.mark.parametrize(
    ("key", "rule"),
    [
        ("", "must not be empty"),
        ("a/" * LONGEST_KEY, f"at most {LONGEST_KEY} characters"),
        ("a/" + "x" * 201, "memory key 'a/x+' must have at most 200 .* encoded, in each segment"),
        ("\ud800", "must be valid Unicode"),
    ],
)
async def test_an_impossible_key_is_refused_with_the_rule(
    memory: Memory, key: str, rule: str
) -> None:
    with pytest.raises(InvalidName, match=rule):
        await memory.put(key, b"1")


async def test_a_value_that_is_too_large_is_refused_with_its_key(memory: Memory) -> None:
    with pytest.raises(MemoryFull, match=r"memory key 'big' has 16777217 bytes, more than"):
        await memory.put("big", b"x" * (LARGEST_VALUE + 1))
