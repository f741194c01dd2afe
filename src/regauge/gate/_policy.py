"""What a project holds its gate to, as one value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from regauge.stats import CasePolicy, CriticalPolicy, SuitePolicy

CaseFlips: TypeAlias = Literal["block", "net", "warn"]
BlockOrWarn: TypeAlias = Literal["block", "warn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePolicy:
    """Everything about a decision that a project can choose.

    Attributes:
        case: When one case counts as broken.
        suite: When a suite counts as worse.
        critical: When a critical case blocks.
        case_flips: What broken cases do: `block`, block only when more cases broke than were
            repaired by a sign test at 5 % (`net`), or only `warn`. Critical cases always block.
        on_undecided: Whether a case or suite that stays undecided keeps the change from being
            accepted. A recording that is too short always does.
        on_drifted: The same for a model that changed under the prompt.
        on_new: What a new case does that misses its bar.
        first_draws: Trials of every case before anything is looked at, at least 1.
        min_effect: How much lower scores may be and not count; between 0 and 1.
        history_trials: m, how many trials of main a full history has.
        first_history: How many trials of main are drawn in the same run for a case that has none.
        new_trials: How many trials a new case gets.
        new_passes: How many of them must pass.
        improved_at_most: Only cases that main passes at most so often are tested for repair;
            below 0 none is.
        head_to_head: Trials of each arm for each case after a drift of the whole suite.
    """

    case: CasePolicy = field(default_factory=CasePolicy)
    suite: SuitePolicy = field(default_factory=SuitePolicy)
    critical: CriticalPolicy = field(default_factory=CriticalPolicy)
    case_flips: CaseFlips = "block"
    on_undecided: BlockOrWarn = "block"
    on_drifted: BlockOrWarn = "warn"
    on_new: BlockOrWarn = "block"
    first_draws: int = 1
    min_effect: float = 0.0
    history_trials: int = 12
    first_history: int = 3
    new_trials: int = 3
    new_passes: int = 3
    improved_at_most: float = 0.25
    head_to_head: int = 3

    def __post_init__(self) -> None:
        if not 1 <= self.first_draws <= self.case.cap:
            raise ValueError(
                f"first_draws must be 1 to {self.case.cap}, the cap of trials, "
                f"not {self.first_draws}"
            )
        if not 0 <= self.min_effect < 1 or not self.improved_at_most < 1:
            raise ValueError("min_effect must be at least 0, and it and improved_at_most below 1")
        if min(self.history_trials, self.first_history, self.head_to_head) < 1:
            raise ValueError("history_trials, first_history and head_to_head must be at least 1")
        if not 0 <= self.new_passes <= self.new_trials or self.new_trials < 1:
            raise ValueError(
                f"new_passes must be 0 to new_trials, not {self.new_passes} of {self.new_trials}"
            )
