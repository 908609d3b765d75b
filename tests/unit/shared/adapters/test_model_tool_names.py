"""Names of tools as models take them."""

import re

from headrace.adapters.model_tool_names import LONGEST, model_tool_names

_TAKEN = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def test_a_name_that_models_take_stays_as_it_is() -> None:
    names = ["price", "shop-price_2", "x" * LONGEST]
    assert model_tool_names(names) == names


def test_others_change_as_little_as_is_needed() -> None:
    assert model_tool_names(["shop.price", "größe"]) == ["shop_price", "gr__e"]


def test_no_two_tools_have_one_name() -> None:
    long = "x" * 100
    names = ["a_b", "a.b", "a/b", f"{long}1", f"{long}2", "y" * 65]
    found = model_tool_names(names)
    assert found[0] == "a_b"
    assert len(set(found)) == len(names)
    assert all(_TAKEN.fullmatch(one) for one in found)


def test_the_order_of_tools_does_not_matter() -> None:
    found = model_tool_names(["a.b", "a/b"])
    assert model_tool_names(["a/b", "c", "a.b"]) == [found[1], "c", found[0]]
