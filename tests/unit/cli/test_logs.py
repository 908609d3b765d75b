"""`headrace logs`: processes with their log levels, and another level for them."""

import json
from typing import get_args

import click

from headrace.model.messages import LogLevel
from headrace.processes import SERVICES
from headrace_cli.logs import level
from tests.support.fake_gateway import ScriptedResponse, answering
from tests.unit.cli.test_client_commands import headrace

WORKER = {"service": "worker", "process": "worker-1", "release": "0.1.0", "logLevel": "info"}
GATEWAY = {"service": "gateway", "process": "1a2b", "release": "0.1.0", "logLevel": "debug"}
LEVEL = "/v1/processes:logLevel"


def test_services_and_levels_are_those_of_processes() -> None:
    # The command does not import them: that takes longer than the rest of it.
    found = {one.name: one.type for one in level.params}
    named, service = found["name"], found["service"]
    assert isinstance(named, click.Choice)
    assert isinstance(service, click.Choice)
    assert tuple(named.choices) == get_args(LogLevel.__value__)
    assert tuple(service.choices) == SERVICES


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
