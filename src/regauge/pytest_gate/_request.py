"""What a run is asked to gate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from regauge.gate import PolicyOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from regauge.gate import Baseline

__all__ = ["GateRequest", "request_key"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRequest:
    """What a run is asked to gate.

    Attributes:
        ref: What to compare with.
        options: What replaces the base's policy.
        more_trials: Further trials of each undecided case, for a comparison that is continued.
        baseline: Taken in place of the one that is committed.
        accept_judge_change: Why judges may change, where no prompt does.
        narrowed: Whether only some of the evals were asked for, beside what pytest was told.
        dry_run: Whether to stop before anything is drawn.
        again: The words of the command that decides again.
        say: Shows a line while models answer; None leaves that to pytest's terminal.
    """

    ref: str
    options: PolicyOptions = field(default_factory=PolicyOptions)
    more_trials: int = 0
    baseline: Baseline | None = None
    accept_judge_change: str = ""
    narrowed: bool = False
    dry_run: bool = False
    again: Sequence[str] = ()
    say: Callable[[str], None] | None = None


request_key: pytest.StashKey[GateRequest] = pytest.StashKey()
