"""What a use of tokens costs by the file of prices."""

from pathlib import Path

import pytest

from headrace import Usage
from headrace_worker.usage import Prices, PricesUnreadable

FILE = """
[[price]]
model = "small-*"
provider = "api.example"
input = 2.0
output = 8.0
cached_input = 0.5
cache_write_input = 3.0

[[price]]
model = "small-1"
input = 1.0
output = 1.0
"""


@pytest.fixture
def prices(tmp_path: Path) -> Prices:
    """The prices of `FILE`."""
    (tmp_path / "prices.toml").write_text(FILE)
    return Prices.read(tmp_path / "prices.toml")


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        (Usage("small-1", "api.example", 1_000_000, 500_000), 6.0),
        (Usage("small-1", "api.example", 1_000_000, cached_input_tokens=400_000), 1.4),
        (Usage("small-1", "api.example", 1_000_000, cache_write_input_tokens=1_000_000), 3.0),
        (Usage("small-1", "other", 1_000_000, 500_000, cached_input_tokens=400_000), 1.5),
        (Usage("small-1", "api.example", 1_000_000, cost=0.25), 0.25),
        (Usage("large", "api.example", 1_000_000), 0.0),
        (Usage(), 0.0),
    ],
)
def test_the_first_price_of_a_model_applies_where_no_cost_is_reported(
    prices: Prices, usage: Usage, cost: float
) -> None:
    assert prices.priced(usage).cost == pytest.approx(cost)


def test_without_a_file_nothing_has_a_price() -> None:
    usage = Usage("small-1", "api.example", 1)
    assert Prices.read(None).priced(usage) is usage


def test_the_documented_file_is_read(tmp_path: Path) -> None:
    page = Path("docs/usage.md").read_text().partition("## Prices")[2]
    file = tmp_path / "prices.toml"
    file.write_text(page.partition("```toml\n")[2].partition("```")[0])
    priced = Prices.read(file).priced(Usage("gpt-5-mini", "openai", 1_000_000, 1_000_000))
    assert priced.cost == pytest.approx(2.25)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[price]]\nmodel = 'a'\ninput = 1", "price.0.output: "),
        ("[[price]]\nmodel = 'a'\ninput = -1\noutput = 1", "price.0.input: "),
        ("[[prices]]", "price: "),
        ("[[price", "prices.toml: "),
        (None, "prices.toml: "),
    ],
)
def test_an_unreadable_file_states_what_is_wrong(
    tmp_path: Path, text: str | None, why: str
) -> None:
    file = tmp_path / "prices.toml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(PricesUnreadable, match=why):
        Prices.read(file)
