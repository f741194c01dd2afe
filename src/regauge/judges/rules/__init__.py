"""Rules: deterministic judges, one function each, grouped by what they look at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.on_demand import names_of

if TYPE_CHECKING:
    from regauge.judges.rules._safety import PersonalKind, personal_data
else:
    __getattr__ = names_of("regauge.judges.rules", {"_safety": "PersonalKind personal_data"})

__all__ = ["PersonalKind", "personal_data"]
