from copy import deepcopy
from typing import Any

import pytest

from headrace.model.json_patch import PatchFailed, apply

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
