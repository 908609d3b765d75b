"""Misspelt settings are recognized, and only those."""

import pytest

from headrace.setting_names import misspelt_settings


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("HEADRACE_NATS_ULR", "HEADRACE_NATS_URL"),
        ("HEADRACE_RETENTON", "HEADRACE_RETENTION"),
        ("HEADRACE_HTTPS_PORT", "HEADRACE_HTTP_PORT"),
    ],
)
def test_a_misspelt_setting_is_found_with_the_one_that_was_meant(name: str, meant: str) -> None:
    assert misspelt_settings({name: "8080"}) == {name: meant}


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
        ("HEADRACE_HTTPS_PORT", "tcp://10.0.0.1:8080"),
        ("HEADRACE_NATS_SERVICE_HOST", "10.0.0.1"),
    ],
)
def test_others_are_not(name: str, value: str) -> None:
    assert misspelt_settings({name: value}) == {}
