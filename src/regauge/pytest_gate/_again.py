"""The command that makes the missing trials of a decision."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.gate import Decided
    from regauge.runner import EvalSession

__all__ = ["missing_trials"]


# Trials of a suspect for each step of an undecided gate.
_MORE = 8


def missing_trials(decided: Decided, again: Sequence[str], session: EvalSession) -> list[str]:
    """The command that makes missing trials or gathers more evidence; empty when decided."""
    if decided.decision in {"accept", "refused"}:
        return []
    match decided.lacks:
        case "recordings":
            return [*_without(again, "--record"), "--record=missing"]
        case "budget":
            limit = session.budget.limit_usd
            more = f"--budget-usd={math.ceil(200 * (limit or 0)) / 100:g}"
            return [*_without(again, "--budget-usd"), more] if limit else list(again)
        case "answers":
            return list(again)
        case _:
            if decided.decision != "undecided":
                return []
            return [*_without(again, "--more-trials"), f"--more-trials={_MORE}"]


def _without(words: Sequence[str], option: str) -> list[str]:
    """A command without one of its options.

    >>> _without(["gate", "--record", "none", "--record=all", "main"], "--record")
    ['gate', 'main']
    """
    kept: list[str] = []
    skip = False
    for word in words:
        if not skip and word != option and not word.startswith(f"{option}="):
            kept.append(word)
        skip = word == option
    return kept
