"""The models that an endpoint lists, and the dates of their shutdown."""

from __future__ import annotations

import math
import re
import tomllib
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from http import HTTPStatus
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.errors import ProviderError
from regauge.project import redact_url
from regauge.providers._client import connection_error, setup_error
from regauge.providers._endpoint import Endpoint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.model_id import ModelId
    from regauge.project import EndpointSettings


SOON = timedelta(days=90)
"""The time before a model's last day in which it should be replaced."""
_SNAPSHOT = r"(-\d{4}(-?\d\d-?\d\d)?)?"


@dataclass(frozen=True, slots=True, kw_only=True)
class LastDay:
    """The last day of a model.

    Attributes:
        source: The URL of the vendor's announcement.
    """

    day: date
    source: str


def find_last_day(model: ModelId) -> LastDay | None:
    """Find the announced last day of a model or of its dated snapshot; None without one."""
    text = (files("regauge.providers") / "last_days.toml").read_text(encoding="utf-8")
    vendor = tomllib.loads(text).get(model.provider, {})
    for name, day in vendor.get("last_days", {}).items():
        if re.fullmatch(re.escape(name) + _SNAPSHOT, model.model):
            return LastDay(day=day, source=vendor["source"])
    return None


# There is no standard; these keys of servers hold a last day.
_LAST_DAYS: Final = (
    "shutdown_date",
    "shutdown_at",
    "deprecation",
    "deprecation_date",
    "deprecated_at",
    "expiration_date",
    "retirement_date",
    "sunset_date",
)


def list_models(
    name: str, settings: EndpointSettings, environ: Mapping[str, str], *, timeout_s: float = 10
) -> dict[str, date | None]:
    """List the models of an endpoint, with their last day if one is published.

    Args:
        name: The name of the provider, for messages.
        timeout_s: Time limit in seconds.

    Raises:
        ProviderError: There is no key, the server is unreachable or rejects the request, or the
            response is not a list of models.
    """
    import httpx2

    from regauge.bounded_http import certificates_for, send_bounded

    endpoint = Endpoint(name=name, settings=settings, environ=environ)
    url = f"{endpoint.url}/models"
    place = redact_url(url)
    headers = {"Authorization": f"Bearer {endpoint.key()}", **endpoint.headers()}
    if settings.api == "anthropic":
        # By default a page has 20 models.
        url = f"{url}?limit=1000"
        headers = {"anthropic-version": "2026-10-21", **headers}
    try:
        with httpx2.Client(timeout=timeout_s, verify=certificates_for(url)) as client:
            request = client.build_request("GET", url, headers=headers)
            reply = send_bounded(client, request, seconds_max=timeout_s)
    except httpx2.TimeoutException as error:
        raise ProviderError(
            f"{place} did not respond within {timeout_s:g} s", kind="timeout"
        ) from error
    except httpx2.HTTPError as error:
        raise connection_error(error, endpoint=place, provider=name) from error
    except (httpx2.InvalidURL, OSError, ValueError) as error:
        raise setup_error(error, endpoint=place) from error
    if reply.status_code != HTTPStatus.OK:
        refused = reply.status_code in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
        kind = "authentication" if refused else "server"
        raise ProviderError(
            f"{place} returned {reply.status_code}", kind=kind, status=reply.status_code
        )
    try:
        document: Any = reply.json()
        return {str(model["id"]): shutdown_of(model) for model in document["data"]}
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ProviderError(f"{place} returned no list of models", kind="malformed") from error


def shutdown_of(model: Mapping[str, object]) -> date | None:
    """Return the last day of a listed model: ISO 8601, or seconds since 1970.

    >>> shutdown_of({"id": "m", "shutdown_date": "2026-12-01"})
    datetime.date(2026, 12, 1)
    >>> shutdown_of({"id": "m", "deprecation": None}) is None
    True
    """
    days = [day for key in _LAST_DAYS if (day := _day(model.get(key))) is not None]
    return min(days, default=None)


def _day(value: object) -> date | None:
    if isinstance(value, dict):
        values = cast("dict[str, object]", value).values()
        return min((day for item in values if (day := _day(item)) is not None), default=None)
    try:
        if isinstance(value, str):
            return datetime.fromisoformat(value).date()
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            return datetime.fromtimestamp(value, UTC).date() if value > 0 else None
    except (ValueError, OverflowError, OSError):
        return None
    return None
