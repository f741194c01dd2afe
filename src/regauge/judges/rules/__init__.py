"""Rules: deterministic judges, one function each, grouped by subject."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.on_demand import lazy_getattr

if TYPE_CHECKING:
    from regauge.judges.rules._safety import (
        PersonalKind as PersonalKind,
        personal_data as personal_data,
    )
else:
    __getattr__ = lazy_getattr(__name__)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")})
