"""`headrace logs`: processes with their log levels, and another level for them."""

import json

from tests.support.fake_gateway import ScriptedResponse, answering
from tests.unit.cli.test_client_commands import headrace

WORKER = {"service": "worker", "process": "worker-1", "release": "0.1.0", "logLevel": "info"}
GATEWAY = {"service": "gateway", "process": "1a2b", "release": "0.1.0", "logLevel": "debug"}
LEVEL = "/v1/processes:logLevel"


def test_processes_are_listed_with_their_levels() -> None:
    found = ScriptedResponse(body={"processes": [GATEWAY, WORKER]})
    with answering(**{"/v1/processes": found}) as gateway:
        listed = headrace(gateway, "logs", "level")
        workers = headrace(gateway, "logs", "level", "--service", "worker", "--json")
    assert listed.output.splitlines() == [
        "SERVICE  PROCESS   RELEASE  LOG LEVEL",
        "gateway  1a2b      0.1.0    debug",
        "worker   worker-1  0.1.0    info",
    ]
    assert json.loads(workers.output) == WORKER


def test_a_level_is_set_for_the_processes_that_are_named() -> None:
    changed = ScriptedResponse(body={"processes": [WORKER | {"logLevel": "debug"}]})
    with answering(**{LEVEL: changed}) as gateway:
        answer = headrace(gateway, "logs", "level", "debug", "--service", "worker")
    assert answer.output.splitlines()[-1] == "worker   worker-1  0.1.0    debug"
    [request] = gateway.asked
    assert (request.method, request.path) == ("POST", LEVEL)
    assert request.body == {"level": "debug", "service": "worker"}
