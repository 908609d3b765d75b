"""The schema of headrace.yaml is what the code reads."""

import orjson

from headrace_worker.config import schema
from tests.architecture.tree import ROOT


def test_the_schema_is_made_anew() -> None:
    page = orjson.loads((ROOT / "docs" / "headrace.schema.json").read_bytes())
    assert page == schema(), "run: headrace config schema > docs/headrace.schema.json"
