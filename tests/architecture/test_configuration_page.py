"""The schema of headrace.yaml is what the code reads, and the page's files load."""

import orjson
import pytest

from headrace_worker.config import read, schema
from tests.architecture.tree import ROOT
from tests.support.document import blocks

_PAGE = ROOT / "docs" / "configuration.md"
_BLOCKS = [block.code for block in blocks(_PAGE, "yaml")]


def test_the_schema_is_made_anew() -> None:
    page = orjson.loads((ROOT / "docs" / "headrace.schema.json").read_bytes())
    assert page == schema(), "run: headrace config schema > docs/headrace.schema.json"


@pytest.mark.parametrize("number", range(3))
def test_every_file_on_the_page_is_read(
    number: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert len(_BLOCKS) == 3
    path = tmp_path_factory.mktemp("page") / "headrace.yaml"
    path.write_text(_BLOCKS[number])
    configuration, _ = read(path, {"MODEL_KEY": "k", "PARTNER_SECRET": "s"})
    assert configuration.agents
