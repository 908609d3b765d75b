"""Which addresses a webhook may have."""

import pytest

from headrace_task_state.webhooks.network import AllowedDestinations, is_public

PUBLIC = ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
NOT_PUBLIC = [
    *("0.0.0.0", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.9.9.9", "169.254.169.254"),  # noqa: S104
    *("172.16.0.1", "192.168.0.1", "192.0.0.192", "198.18.0.1", "203.0.113.1", "224.0.0.1"),
    *("239.255.255.250", "240.0.0.1", "255.255.255.255", "100.100.100.200", "168.63.129.16"),
    *("::", "::1", "fe80::1", "fe80::1%1", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1"),
    *("2001:db8::1", "3fff::1", "5f00::1", "100::1"),
    *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:a00:1", "::127.0.0.1"),
    *("64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::808:808", "2002:7f00:1::"),
    *("2002:808:808::", "2001:0:808:808::", "2606:4700::5efe:7f00:1", "2606::200:5efe:808:808"),
    *("192.88.99.1", "192.0.0.9", "192.0.0.10", "::ffff:0:7f00:1", "::ffff:0:808:808", "::2"),
    *("::ffff:10.0.0.1", "::ffff:0:0", "::ffff:224.0.0.1", "::7", "1fff::1", "4000::1", "e000::1"),
    *("2001:1::1", "2001:20::1", "2001:2::1", "fe00::1", "100:0:0:1::1", "9000::1"),
]


@pytest.mark.parametrize("address", PUBLIC)
def test_the_public_internet_may_be_reached(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_nothing_else_may_be_however_it_is_written(address: str) -> None:
    assert not is_public(address)
    assert not AllowedDestinations.parse(["hooks.example"]).holds(address)


def test_what_is_allowed_is_allowed_however_it_is_written() -> None:
    allowed = AllowedDestinations.parse(["10.1.0.0/16", "127.0.0.1", "fd00::/8", "Hooks.Internal."])
    for address in ("10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::a01:203", "127.0.0.1", "fd00::1"):
        assert allowed.holds(address)
    for address in ("10.2.0.1", "127.0.0.2", "::1", "169.254.169.254"):
        assert not allowed.holds(address)
    assert allowed.names("hooks.internal")
    assert allowed.names("HOOKS.internal.")
    assert not allowed.names("evil.hooks.internal")


@pytest.mark.parametrize("item", ["10.0.0.0/33", "10.0.0.1/8", "::1/200", "fe80::/x"])
def test_a_network_that_is_none_is_refused(item: str) -> None:
    with pytest.raises(ValueError, match=r"IPv|network|host bits"):
        AllowedDestinations.parse([item])
