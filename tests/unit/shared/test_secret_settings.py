"""Secrets as settings: given or in a file, once, and never shown."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from headrace.secret_settings import SecretUnreadable, setting_errors
from headrace.settings import BusSettings

SECRET = "pa,ss@wo:rd/%41"


def refused(**settings: object) -> str:
    with pytest.raises(ValidationError) as invalid:
        BusSettings.model_validate(settings)
    assert SECRET not in str(invalid.value)
    [line] = setting_errors(invalid.value)
    return line


def test_a_file_is_read_anew_and_keeps_all_but_its_last_line_break(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(f" {SECRET} \r\n")
    settings = BusSettings.model_validate({"nats_user": "ann", "nats_password_file": file})
    assert settings.nats_login() == ("ann", f" {SECRET} ")
    file.write_text("another")
    assert settings.nats_login() == ("ann", "another")
    file.unlink()
    with pytest.raises(SecretUnreadable, match=r"HEADRACE_NATS_PASSWORD_FILE .*No such file"):
        settings.nats_login()


def test_each_invalid_setting_is_named() -> None:
    with pytest.raises(ValidationError) as invalid:
        BusSettings.model_validate({"replicas": "many", "event_streams": 0})
    named = {line.split(":")[0] for line in setting_errors(invalid.value)}
    assert named == {"HEADRACE_EVENT_STREAMS", "HEADRACE_REPLICAS"}


def test_no_settings_show_what_is_secret() -> None:
    settings = BusSettings.model_validate({"nats_user": "ann", "nats_password": SECRET})
    assert SECRET not in f"{settings!r} {settings} {settings.model_dump()}"


def test_an_empty_variable_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NATS_PASSWORD", "NATS_PASSWORD_FILE", "NATS_CA_FILE", "REPLICAS"):
        monkeypatch.setenv(f"HEADRACE_{name}", "")
    settings = BusSettings()
    assert not settings.has("nats_password")
    assert settings.nats_ca_file is None


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "absent"
    assert refused(nats_creds_file=path) == (
        f"HEADRACE_NATS_CREDS_FILE ({path}): No such file or directory"
    )


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "binary"
    path.write_bytes(b"\xff\xfe")
    assert "not UTF-8" in refused(nats_token_file=path)


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"nats_user": "a", "nats_token": SECRET}, "NATS_USER and HEADRACE_NATS_TOKEN are set"),
        ({"nats_user": "ann"}, "HEADRACE_NATS_USER is set without HEADRACE_NATS_PASSWORD"),
        ({"nats_password": SECRET}, "HEADRACE_NATS_PASSWORD is set without HEADRACE_NATS_USER"),
        ({"nats_cert": "PEM"}, "HEADRACE_NATS_CERT is set without HEADRACE_NATS_KEY"),
        ({"nats_key": "PEM"}, "HEADRACE_NATS_KEY is set without HEADRACE_NATS_CERT"),
        (
            {"nats_nkey": SECRET, "nats_url": "nats://a:b@host"},
            "HEADRACE_NATS_NKEY and credentials in HEADRACE_NATS_URL are set",
        ),
        ({"nats_url": f"nats://ann:{SECRET}@host"}, "HEADRACE_NATS_URL: not comma-separated"),
        (
            {"nats_url": "nats://a:1@one,nats://b:2@two"},
            "HEADRACE_NATS_URL: its URLs have different credentials",
        ),
        # A comma in a password: the first part looks like a port.
        ({"nats_url": "nats://ann:123,s3cret@host"}, "HEADRACE_NATS_URL: not comma-separated"),
        ({"nats_url": "nats://host:99999999"}, "HEADRACE_NATS_URL: not comma-separated"),
    ],
)
def test_what_does_not_fit_together_is_reported_without_the_secret(
    settings: dict[str, object], rule: str
) -> None:
    assert rule in refused(**settings)


def test_both_forms_of_one_setting_are_one_too_many(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    assert "set one" in refused(nats_token=SECRET, nats_token_file=file)


def test_servers_are_without_the_credentials_of_their_url() -> None:
    settings = BusSettings(nats_url="nats://ann:p%40ss@one:4222, two:4222")
    assert settings.nats_servers == ["nats://one:4222", "two:4222"]
    assert settings.nats_login() == ("ann", "p@ss")
