"""The criteria that a judge can have."""

from __future__ import annotations

from typing import Final, Literal, get_args

Criterion = Literal["correctness", "completeness", "format", "relevance"]

CRITERIA: Final[tuple[Criterion, ...]] = get_args(Criterion)
