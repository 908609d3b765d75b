import pytest

from headrace.model.nesting import MAX_DEPTH, is_too_deep


def nested(levels: int, innermost: object, *, lists: bool) -> object:
    value = innermost
    for _ in range(levels):
        value = [0, value] if lists else {"a": 0, "b": value}
    return value


@pytest.mark.parametrize("lists", [True, False])
@pytest.mark.parametrize("innermost", [0, "text", None])
def test_a_value_within_the_most_levels_is_too_deep(innermost: object, *, lists: bool) -> None:
    assert not is_too_deep(nested(MAX_DEPTH - 1, innermost, lists=lists))
    assert is_too_deep(nested(MAX_DEPTH, innermost, lists=lists))


@pytest.mark.parametrize("innermost", [list[int](), dict[str, int]()])
def test_an_empty_object_or_list_is_a_value(innermost: object) -> None:
    assert not is_too_deep(nested(MAX_DEPTH - 1, innermost, lists=True))
    assert is_too_deep(nested(MAX_DEPTH, innermost, lists=True))


@pytest.mark.parametrize("value", [0, "text", None, [], {}])
def test_a_value_without_levels_is_not(value: object) -> None:
    assert not is_too_deep(value)
