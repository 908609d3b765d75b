"""Misspelt settings are recognized, and only those."""

import pytest

from headrace.setting_names import ineffective_settings


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("HEADRACE_NATS_ULR", "HEADRACE_NATS_URL"),
        ("HEADRACE_RETENTON", "HEADRACE_RETENTION"),
        ("HEADRACE_HTTPS_PORT", "HEADRACE_HTTP_PORT"),
    ],
)
def test_a_misspelt_setting_is_found_with_the_one_that_was_meant(name: str, meant: str) -> None:
    [found] = ineffective_settings({name: "8080"})
    assert str(found) == f"{name} is not a setting; did you mean {meant}?"


def test_a_name_with_too_few_words_is_answered_with_those_that_have_more() -> None:
    [found] = ineffective_settings({"HEADRACE_PORT": "8080"})
    named = set(found.remedy.removeprefix("did you mean ").removesuffix("?").split(" or "))
    assert named == {"HEADRACE_HTTP_PORT", "HEADRACE_GRPC_PORT", "HEADRACE_METRICS_PORT"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HEADRACE_HTTP_PORT", "8080"),
        ("HEADRACE_SEED", "1"),
        ("HEADRACE_SOAK", "1"),
        ("HEADRACE_DATABASE_OF_MINE", "x"),
        ("PATH", "x"),
        # Kubernetes adds these for a Service that is called headrace-http or headrace-nats.
        ("HEADRACE_HTTP_PORT_8080_TCP_PORT", "8080"),
        ("HEADRACE_HTTP_SERVICE_PORT", "8080"),
        ("HEADRACE_PORT", "tcp://10.0.0.1:8080"),
        ("HEADRACE_HTTPS_PORT", "tcp://10.0.0.1:8080"),
        ("HEADRACE_NATS_SERVICE_HOST", "10.0.0.1"),
    ],
)
def test_others_are_not(name: str, value: str) -> None:
    assert list(ineffective_settings({name: value})) == []
