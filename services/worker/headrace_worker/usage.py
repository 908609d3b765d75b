"""Token usage: what it costs, and the totals of a run with its earlier attempts."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from headrace.model.errors import SettingInvalid
from headrace.model.events import Json
from headrace.model.usage_counts import cost_of, token_count
from headrace.sdk.signals import Usage
from headrace.sdk.token_usage import COST, COUNTS
from headrace.toml_file import read_toml

_log = logging.getLogger(__name__)


class UsageTotals:
    """What a run has used; there is none until something is reported."""

    def __init__(self) -> None:
        """Start without a report."""
        self.tokens = 0
        """Tokens reported so far, also by child tasks."""
        self.input_tokens = 0
        """Input tokens reported so far, without those of child tasks."""
        self.output_tokens = 0
        """Output tokens reported so far, without those of child tasks."""
        self.cost = 0.0
        """Cost reported so far, without that of child tasks."""
        self.model = ""
        """The model reported last; empty if none was."""
        self._has_warned = False

    def add(self, used: Usage) -> None:
        """Add one report."""
        self.tokens += used.total_tokens or used.input_tokens + used.output_tokens
        self.input_tokens += used.input_tokens
        self.output_tokens += used.output_tokens
        self.cost += used.cost
        self.model = used.model or self.model

    def add_priced(self, usage: Usage, prices: "Prices") -> Usage:
        """Add `usage`, and return it with its cost, without what is no count or cost."""
        priced = prices.priced(self._sound(usage))
        self.add(priced)
        return priced

    def metadata(self, seconds: float) -> Json:
        """Return ``tokens_used``, ``model`` and ``execution_time``, which is `seconds`."""
        totals: Json = {"tokens_used": self.tokens}
        if self.model:
            totals["model"] = self.model
        return totals | {"execution_time": round(seconds, 3)}

    def _sound(self, usage: Usage) -> Usage:
        counts: dict[str, Any] = {name: token_count(getattr(usage, name)) for name in COUNTS}
        sound = replace(usage, **counts, cost=cost_of(usage.cost))
        if sound != usage and not self._has_warned:
            self._has_warned = True
            names = (*COUNTS, COST)
            wrong = [f"Usage.{n}" for n in names if getattr(sound, n) != getattr(usage, n)]
            rule = "must be a number that is not negative, a whole one for tokens; it counts as 0"
            _log.warning("%s %s", ", ".join(wrong), rule)
        return sound


_PER = 1_000_000


class PricesUnreadable(SettingInvalid):
    """The file of prices is missing or invalid."""

    code = "prices_unreadable"


class Price(BaseModel):
    """One ``[[price]]`` of the file; amounts are for a million tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

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
    model_config = ConfigDict(extra="forbid", defer_build=True)

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
            PricesUnreadable: it is missing or not TOML, or keys break rules; the message names each
                key with its rule.
        """
        if path is None:
            return cls()
        return cls(read_toml(path, _PriceFile, PricesUnreadable).price)

    def priced(self, usage: Usage) -> Usage:
        """Return `usage` with its cost, unless that was reported or the model has no price."""
        if usage.cost:
            return usage
        price = next((one for one in self._prices if one.is_of(usage)), None)
        return usage if price is None else replace(usage, cost=price.cost(usage))
