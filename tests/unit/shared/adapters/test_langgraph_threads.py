"""What a run's checkpoint says of its position in LangGraph's thread."""


def test_fields_that_a_later_version_stores_are_ignored() -> None:
    from headrace.adapters.langgraph.threads import Position, position_of

    stored = {"langgraph": {"base": "1", "at": "2", "extra": ["t"], "later": True}}
    assert position_of(stored) == Position(base="1", at="2", extra=["t"])


def test_a_checkpoint_without_a_position_has_none() -> None:
    from headrace.adapters.langgraph.threads import position_of

    assert position_of(None) is None
    assert position_of({"agui": {}}) is None
