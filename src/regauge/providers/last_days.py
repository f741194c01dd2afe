"""Announced last days of models: one dated table, which `doctor` and the tests read."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from datetime import timedelta
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import date

    from regauge.model_id import ModelId

__all__ = ["SOON", "LastDay", "find_last_day"]

SOON = timedelta(days=90)
"""From so long before its last day on, a model is to be replaced."""
_SNAPSHOT = r"(-\d{4}(-?\d\d-?\d\d)?)?"


@dataclass(frozen=True, slots=True, kw_only=True)
class LastDay:
    """The last day of a model.

    Attributes:
        source: Where its vendor announces it.
    """

    day: date
    source: str


def find_last_day(model: ModelId) -> LastDay | None:
    """The announced last day of a model or of its dated snapshot; None where there is none."""
    text = (files("regauge.providers") / "last_days.toml").read_text(encoding="utf-8")
    vendor = tomllib.loads(text).get(model.provider, {})
    for name, day in vendor.get("last_days", {}).items():
        if re.fullmatch(re.escape(name) + _SNAPSHOT, model.model):
            return LastDay(day=day, source=vendor["source"])
    return None
