"""The commands of the guides, run against a gateway."""

import json
import shlex
import subprocess

from tests.architecture.tree import ROOT
from tests.support.document import blocks
from tests.support.fleet import Fleet
from tests.support.javascript import program

_HOST = "http://127.0.0.1:8080"


async def test_hectors_client_is_answered_in_its_form(fleet: Fleet) -> None:
    command = blocks(ROOT / "docs" / "guides" / "hector.md", "sh")[0].code
    joined = command.replace("\\\n", "").replace(_HOST, fleet.gateways[0])
    name, *arguments = shlex.split(joined)
    sent = [program(name), "--silent", *arguments]
    answer = json.loads(subprocess.check_output(sent, timeout=60))  # noqa: ASYNC221  # it is short
    assert answer["response"]["content"] == [{"text": "Hello"}]
    assert answer["status"] == "completed"
