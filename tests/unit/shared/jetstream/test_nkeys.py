"""Seeds and public halves of NATS' keys."""

import pytest

from headrace.jetstream.credentials import InvalidSeed, KeyPair
from tests.support.nats_seeds import seed_of


def test_a_seed_is_the_text_of_its_key() -> None:
    seed = seed_of(bytes(range(32)))
    pair = KeyPair.of_user(seed)
    assert seed.startswith("SU")
    assert pair.public.startswith("U")
    assert len(pair.public) == 56
    assert pair.sign(b"nonce") == KeyPair(bytes(range(32))).sign(b"nonce")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not base32!",
        "SUA" + "A" * 55,
        KeyPair(bytes(32)).public,
        seed_of(bytes(32), 0),  # an account's
        seed_of(bytes(32))[:-1],
        seed_of(bytes(32)).lower(),
    ],
)
def test_what_is_no_users_seed_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(InvalidSeed) as refused:
        KeyPair.of_user(text)
    assert not text or text not in str(refused.value)
