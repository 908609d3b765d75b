"""Prices of models: what a reported use of tokens costs, if neither agent nor library says so."""

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from headrace.model.errors import HeadraceError
from headrace.model.field_rule import first_problem
from headrace.sdk.signals import Usage
from headrace_worker.usage import UsageTotals

_PER = 1_000_000


class PricesUnreadable(HeadraceError):
    """The file of prices is missing or invalid."""

    code = "prices_unreadable"


class Price(BaseModel):
    """One ``[[price]]`` of the file; amounts are for a million tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str = Field(min_length=1)
    provider: str = "*"
    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached_input: float | None = Field(default=None, ge=0)
    cache_write_input: float | None = Field(default=None, ge=0)

    def is_of(self, usage: Usage) -> bool:
        """Return whether it is the price of the model that was used."""
        return fnmatchcase(usage.model, self.model) and fnmatchcase(usage.provider, self.provider)

    def cost(self, usage: Usage) -> float:
        """Return what `usage` costs; cached tokens are among the input tokens."""
        cached, written = usage.cached_input_tokens, usage.cache_write_input_tokens
        amounts = (
            (max(usage.input_tokens - cached - written, 0), self.input),
            (cached, self.input if self.cached_input is None else self.cached_input),
            (written, self.input if self.cache_write_input is None else self.cache_write_input),
            (usage.output_tokens, self.output),
        )
        return sum(tokens * price for tokens, price in amounts) / _PER


class _PriceFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    price: list[Price]


class Prices:
    """The prices of a worker."""

    def __init__(self, prices: Sequence[Price] = ()) -> None:
        """Use the first of `prices` that is of a model."""
        self._prices = prices

    @classmethod
    def read(cls, path: Path | None) -> "Prices":
        """Read the file of prices; none without a file.

        Raises:
            PricesUnreadable: it is missing or not TOML, or a key breaks a rule.
        """
        if path is None:
            return cls()
        try:
            return cls(_PriceFile.model_validate(tomllib.loads(path.read_text())).price)
        except ValidationError as invalid:
            raise PricesUnreadable(f"{path}: {first_problem(invalid, 'file')}") from None
        except (OSError, ValueError) as trouble:
            raise PricesUnreadable(f"{path}: {trouble}") from None

    def priced(self, usage: Usage) -> Usage:
        """Return `usage` with its cost, unless that was reported or the model has no price."""
        if usage.cost:
            return usage
        price = next((one for one in self._prices if one.is_of(usage)), None)
        return usage if price is None else replace(usage, cost=price.cost(usage))


class UsageMeter:
    """Prices and counts what an attempt reports."""

    def __init__(self, totals: UsageTotals, prices: Prices | None = None) -> None:
        """Add to `totals`; without `prices`, only reported cost counts."""
        self.totals, self._prices = totals, prices or Prices()

    def take(self, usage: Usage) -> Usage:
        """Count `usage`, and return it with its cost."""
        priced = self._prices.priced(usage)
        self.totals.add(priced)
        return priced
