from copy import deepcopy
from typing import Any

import pytest

from headrace.model.json_patch import (
    MAX_BYTES,
    MAX_OPERATIONS,
    MAX_VALUES,
    CopyBudget,
    Document,
    LimitExceeded,
    PatchFailed,
    apply,
)
from headrace.model.nesting import MAX_DEPTH

DOCUMENT = {"a": {"b": [1, 2]}, "": 0, "x/y": 1, "m~n": 2, "n": None}


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ([{"op": "add", "path": "/c", "value": None}], {**DOCUMENT, "c": None}),
        ([{"op": "add", "path": "", "value": 7}], 7),
        ([{"op": "add", "path": "/a/b/-", "value": 3}], {**DOCUMENT, "a": {"b": [1, 2, 3]}}),
        ([{"op": "add", "path": "/a/b/0", "value": 3}], {**DOCUMENT, "a": {"b": [3, 1, 2]}}),
        ([{"op": "add", "path": "/a/b/2", "value": 3}], {**DOCUMENT, "a": {"b": [1, 2, 3]}}),
        ([{"op": "replace", "path": "/x~1y", "value": 3}], {**DOCUMENT, "x/y": 3}),
        ([{"op": "replace", "path": "/m~0n", "value": 3}], {**DOCUMENT, "m~n": 3}),
        ([{"op": "replace", "path": "", "value": [1]}], [1]),
        ([{"op": "remove", "path": "/a/b/0"}], {**DOCUMENT, "a": {"b": [2]}}),
        ([{"op": "copy", "from": "/a/b", "path": "/"}], {**DOCUMENT, "": [1, 2]}),
        ([{"op": "move", "from": "/a/b/0", "path": "/n"}], {**DOCUMENT, "a": {"b": [2]}, "n": 1}),
        ([{"op": "move", "from": "/n", "path": "/n"}], DOCUMENT),
        ([{"op": "test", "path": "/a", "value": {"b": [1.0, 2]}}], DOCUMENT),
        ([{"op": "test", "path": "/n", "value": None, "extra": "ignored"}], DOCUMENT),
        ([{"op": "add", "path": "/prototype", "value": 1}], {**DOCUMENT, "prototype": 1}),
        ([{"op": "add", "path": "/constructor", "value": 1}], {**DOCUMENT, "constructor": 1}),
        ([], DOCUMENT),
    ],
)
def test_applies_as_the_rfc_states(patch: Any, expected: Any) -> None:  # noqa: ANN401
    before = deepcopy(DOCUMENT)
    assert apply(DOCUMENT, patch) == expected
    assert before == DOCUMENT


@pytest.mark.parametrize(
    "patch",
    [
        "no list",
        ["unknown operation"],
        [{"path": "/a"}],
        [{"op": "add", "path": "/c"}],
        [{"op": "add", "value": 1}],
        [{"op": "add", "path": "c", "value": 1}],
        [{"op": "add", "path": "/a~2", "value": 1}],
        [{"op": "add", "path": "/__proto__", "value": 1}],
        [{"op": "add", "path": "/a/__proto__/x", "value": 1}],
        [{"op": "copy", "from": "/__proto__", "path": "/c"}],
        [{"op": "add", "path": "/constructor/prototype/x", "value": 1}],
        [
            {"op": "add", "path": "/constructor", "value": {}},
            {"op": "add", "path": "/constructor/prototype", "value": 1},
        ],
        [{"op": "add", "path": "/missing/deep", "value": 1}],
        [{"op": "add", "path": "/a/b/3", "value": 1}],
        [{"op": "add", "path": "/a/b/01", "value": 1}],
        [{"op": "add", "path": "/a/b/" + "9" * 5000, "value": 1}],
        [{"op": "add", "path": "/n/x", "value": 1}],
        [{"op": "replace", "path": "/missing", "value": 1}],
        [{"op": "replace", "path": "/a/b/-", "value": 1}],
        [{"op": "remove", "path": "/missing"}],
        [{"op": "remove", "path": ""}],
        [{"op": "copy", "from": "/missing", "path": "/c"}],
        [{"op": "move", "from": "/a", "path": "/a/b/0"}],
        [{"op": "move", "path": "/c"}],
        [{"op": "test", "path": "/x~1y", "value": True}],
        [{"op": "test", "path": "/a/b", "value": [1]}],
        [{"op": "spin", "path": "/a"}],
        [{"op": "remove", "path": "/n"}, {"op": "remove", "path": "/n"}],
    ],
)
def test_refuses_all_of_a_patch_that_does_not_fit(patch: object) -> None:
    before = deepcopy(DOCUMENT)
    with pytest.raises(PatchFailed):
        apply(DOCUMENT, patch)
    assert before == DOCUMENT


def doubling(times: int) -> list[Any]:
    """Return a patch that doubles the list ``l`` that often: 50 bytes for each."""
    return [{"op": "copy", "from": "/l", "path": "/l/-"}] * times


def test_copies_are_values_of_their_own() -> None:
    patch = [*doubling(2), {"op": "add", "path": "/l/0", "value": 7}]
    assert apply({"l": [0]}, patch) == {"l": [7, 0, [0], [0, [0]]]}
    patch = [
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "add", "path": "/a/x", "value": 1},
        {"op": "add", "path": "/b/y", "value": 2},
    ]
    assert apply({"a": {}}, patch) == {"a": {"x": 1}, "b": {"y": 2}}


def test_a_value_of_the_patch_that_is_added_twice_is_changed_in_one_place() -> None:
    value: list[Any] = []
    patch = [
        {"op": "add", "path": "/a", "value": value},
        {"op": "add", "path": "/b", "value": value},
        {"op": "add", "path": "/a/-", "value": 1},
    ]
    assert apply({}, patch) == {"a": [1], "b": []}
    assert not value


def test_what_a_patch_may_copy_is_bounded_whatever_its_own_size() -> None:
    assert apply({"l": [0]}, doubling(16))["l"][0] == 0
    before = {"l": [0]}
    with pytest.raises(LimitExceeded, match="copies more than 1000000 bytes of JSON"):
        apply(before, doubling(25))
    assert before == {"l": [0]}
    with pytest.raises(LimitExceeded, match="copies more"):
        # Each replaces the one before: the result would be small.
        apply({"a": "x" * 1000}, [{"op": "copy", "from": "/a", "path": "/b"}] * 1000)


def test_patches_may_share_what_they_may_copy() -> None:
    copies = CopyBudget()
    for _ in range(2):
        Document({"a": "x" * 400_000}).patched([{"op": "copy", "from": "/a", "path": "/b"}], copies)
    with pytest.raises(LimitExceeded, match="copies more"):
        Document({"a": "x" * 400_000}).patched([{"op": "copy", "from": "/a", "path": "/b"}], copies)


@pytest.mark.parametrize("op", ["add", "copy"])
def test_the_result_of_patches_is_bounded_in_bytes(op: str) -> None:
    value = "ü" * 50_000
    document = Document({"from": value, "l": []})
    patch = [{"op": op, "value": value, "from": "/from", "path": "/l/-"}]
    for _ in range(8):
        document = document.patched(patch)
    with pytest.raises(LimitExceeded, match="bytes of JSON; the limit is 1000000"):
        document.patched(patch)
    assert len(document.value["l"]) == 8
    emptied = document.patched([{"op": "remove", "path": "/l/0"}])
    assert len(emptied.patched(patch).value["l"]) == 8


def test_a_document_of_the_largest_size_may_change_within_it() -> None:
    document = Document({"a": "x" * (MAX_BYTES - len('{"a":"","b":0}')), "b": 0})
    document.check()
    for n in range(10):
        document = document.patched([{"op": "replace", "path": "/b", "value": n}])
    with pytest.raises(LimitExceeded, match="takes 1000001 bytes"):
        document.patched([{"op": "replace", "path": "/b", "value": 10}])
    assert document.value["b"] == 9


def test_the_result_of_patches_is_bounded_in_values() -> None:
    document = Document([0] * (MAX_VALUES - 2))
    document = document.patched([{"op": "add", "path": "/0", "value": ",,,,"}])
    with pytest.raises(LimitExceeded, match="has 200001 values; the limit is 200000"):
        document.patched([{"op": "add", "path": "/0", "value": 0}])


def test_the_result_of_patches_is_bounded_in_depth() -> None:
    def nested(levels: int) -> Any:  # noqa: ANN401
        return {"a": nested(levels - 1)} if levels > 1 else {"a": 0}

    whole = nested(MAX_DEPTH - 1)
    Document(whole).check()
    pointer = "/a" * 44
    for patch in (
        [{"op": "add", "path": "/a" * (MAX_DEPTH - 1), "value": {"b": 0}}],
        [{"op": "replace", "path": "/a", "value": whole}],
        [{"op": "copy", "from": "", "path": "/b"}],
        [{"op": "move", "from": "/a/a", "path": pointer.replace("a", "b", 1)}],
    ):
        with pytest.raises(PatchFailed):
            apply(whole, patch)
    half = {"deep": nested(60), "at": nested(60)}
    with pytest.raises(LimitExceeded, match="nested deeper than 90 levels"):
        apply(half, [{"op": "move", "from": "/deep", "path": "/at" + "/a" * 59 + "/b"}])
    assert apply(half, [{"op": "move", "from": "/deep", "path": "/at/b"}])["at"]["b"] == nested(60)


def test_a_patch_is_bounded_in_operations() -> None:
    operation = {"op": "test", "path": "", "value": 1}
    assert apply(1, [operation] * MAX_OPERATIONS) == 1
    with pytest.raises(LimitExceeded, match="has 10001 operations; the limit is 10000"):
        apply(1, [operation] * (MAX_OPERATIONS + 1))


def test_a_patch_is_bounded_in_the_items_that_it_moves() -> None:
    long = {"l": [0] * 100_000}
    for operation in (
        {"op": "add", "path": "/l/0", "value": 0},
        {"op": "remove", "path": "/l/0"},
    ):
        with pytest.raises(LimitExceeded, match="lists more than 20000000 times"):
            apply(long, [operation] * 300)
        assert len(apply(long, [operation] * 100)["l"]) in {100_100, 99_900}
    assert len(apply(long, [{"op": "add", "path": "/l/-", "value": 0}] * 300)["l"]) == 100_300


def test_an_error_message_repeats_only_the_beginning_of_a_pointer() -> None:
    with pytest.raises(PatchFailed) as failure:
        apply({}, [{"op": "remove", "path": "/" + "x" * 100_000}])
    assert len(str(failure.value)) < 200


def test_a_document_that_is_not_json_is_refused() -> None:
    with pytest.raises(PatchFailed, match="not JSON"):
        Document({"a": object()}).check()


def test_copies_keep_exact_integers_and_text_as_it_is() -> None:
    large = {"n": 2**80, "text": "\u2028"}
    copied = apply({"a": large}, [{"op": "copy", "from": "/a", "path": "/b"}])
    assert copied == {"a": large, "b": large}
