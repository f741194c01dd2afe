"""Prices of tokens, and estimates for future requests."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from regauge.project import PriceSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from regauge.providers._types import CompletionRequest, Usage

_MILLION: Final = 1_000_000
# For estimates only: English text has about four characters per token, and an image of medium size
# takes about a thousand tokens. Smaller numbers let budgets be exceeded.
_ATTACHED_TOKENS: Final = 1_000
_CHARS_PER_TOKEN: Final = 4
# A private server has no published prices, and the table takes half a second to load.
_PUBLIC: Final = re.compile(r"https://[^/]*[a-z]\.[a-z]{2,}(?::\d+)?(?:/|$)")
_SNAPSHOT: Final = re.compile(r"-(\d{4}-\d{2}-\d{2}|\d{4,8})$")


class ListPrice(PriceSettings):
    """The published price of a model.

    Attributes:
        input_tokens_max: The longest input with this price; None for any.
    """

    input_tokens_max: int | None = None


def price_of(
    prices: Mapping[str, PriceSettings],
    model: str,
    *,
    reported_model: str | None = None,
    url: str = "",
) -> PriceSettings | None:
    """Return the price of a model, or None if it is unknown.

    The requested name is looked up first, then the reported name, then either without its date:
    `gpt-5.4-mini-2026-03-17` costs what `gpt-5.4-mini` costs. Without a price in the settings, the
    price is the published one of the vendor at `url`.
    """
    names = [model, reported_model or model]
    for name in (*names, *(_SNAPSHOT.sub("", name) for name in names)):
        if (price := prices.get(name)) is not None:
            return price
    return published_price(url, model) if _PUBLIC.match(url) else None


# OpenAI, Azure and Anthropic publish half of the live price for batches.
_HALF_PRICE: Final = re.compile(
    r"https://(?:api\.openai\.com|api\.anthropic\.com|[^/]+\.(?:openai|services\.ai)\.azure\.com)"
    r"(?::\d+)?(?:/|$)"
)


def batch_cost_of(cost_usd: float | None, *, url: str, share: float | None) -> float | None:
    """Return the cost of calls in a batch, or None if it is unknown.

    Args:
        cost_usd: The cost of live calls.
        url: The URL of the endpoint.
        share: `batch_price` of the endpoint's settings.
    """
    if not cost_usd:
        return cost_usd
    if share is None and _HALF_PRICE.match(url):
        share = 0.5
    return None if share is None else round(share * cost_usd, 9)


# The names of genai-prices.
_PRICES: Final = {
    "input_per_million": "input_mtok",
    "output_per_million": "output_mtok",
    "cached_input_per_million": "cache_read_mtok",
}


@cache
def published_price(url: str, model: str) -> ListPrice | None:
    """Return the price of a model in the package genai-prices; None if it has none.

    The package is a table: it opens no connection by default.
    """
    try:
        from genai_prices import Usage as PricedUsage, calc_price
        from genai_prices.types import TieredPrices
    except ModuleNotFoundError:
        return None
    try:
        model_price = calc_price(
            PricedUsage(input_tokens=1), model, provider_api_url=url
        ).model_price
    except (LookupError, ValueError):
        return None
    prices: dict[str, Any] = {}
    starts: list[int] = []
    for key, name in _PRICES.items():
        price = getattr(model_price, name, None)
        if isinstance(price, TieredPrices):
            starts += [tier.start for tier in price.tiers]
            price = price.base
        if price is not None:
            prices[key] = float(price)
    if not {"input_per_million", "output_per_million"} <= prices.keys():
        return None
    return ListPrice(**prices, input_tokens_max=min(starts, default=None))


def cost_of(usage: Usage, price: PriceSettings | None) -> float | None:
    """Return the cost of `usage` in US dollars, or None if the price is unknown."""
    if price is None:
        return None
    input_tokens_max = price.input_tokens_max if isinstance(price, ListPrice) else None
    if input_tokens_max is not None and usage.input_tokens > input_tokens_max:
        return None
    cached = min(usage.cached_input_tokens, usage.input_tokens)
    cached_price = price.cached_input_per_million
    dollars = (
        (usage.input_tokens - cached) * price.input_per_million
        + cached * (price.input_per_million if cached_price is None else cached_price)
        + usage.output_tokens * price.output_per_million
    ) / _MILLION
    # A billionth of a dollar is below every price list; more digits would be rounding noise.
    return round(dollars, 9)


def sum_if_known(amounts: Iterable[float | None]) -> float | None:
    """Return the sum; None if an amount is unknown.

    >>> sum_if_known([0.5, 1.0]), sum_if_known([0.5, None])
    (1.5, None)
    """
    total = 0.0
    for amount in amounts:
        if amount is None:
            return None
        total += amount
    return total


def approximate_tokens(request: CompletionRequest) -> int:
    """Estimate the tokens of a request.

    One for every four characters of its messages, and 1,000 for each image or file.
    """
    attachments = sum([len(message.attachments) for message in request.messages])
    characters = sum([len(message.content) for message in request.messages])
    return -(-characters // _CHARS_PER_TOKEN) + _ATTACHED_TOKENS * attachments
