"""What `headrace schedules create` asks of a gateway."""

from tests.support.fake_gateway import ScriptedResponse, answering
from tests.unit.cli.test_client_commands import headrace

STORED = {
    "name": "hourly",
    "agent": "shop",
    "at": None,
    "every": "1h",
    "cron": None,
    "ended": None,
    "next": None,
    "state": "active",
    "message": [{"text": "count"}],
}
CREATE = ("schedules", "create", "hourly", "shop", "count", "--every", "1h")


def test_answers_are_declared_as_their_options_state() -> None:
    stated = {
        "subject": "stock.counted",
        "stream": "STOCK",
        "what": "artifacts",
        "mode": "binary",
    }
    subject = ("--answers", "stock.counted")
    others = (
        "--answers-stream",
        "STOCK",
        "--answers-what",
        "artifacts",
        "--answers-mode",
        "binary",
    )
    with answering(**{"/v1/schedules/hourly": ScriptedResponse(body=STORED)}) as gateway:
        asking = ((), subject, (*subject, *others))
        made = [headrace(gateway, *CREATE, *more) for more in asking]
        refused = headrace(gateway, *CREATE, "--answers-mode", "binary")
    assert [one.exit_code for one in made] == [0, 0, 0]
    assert [(one.body or {}).get("answers") for one in gateway.asked] == [
        None,
        {"subject": "stock.counted"},
        stated,
    ]
    assert (refused.exit_code, "--answers is required" in refused.output) == (2, True)
