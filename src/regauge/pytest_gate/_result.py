"""What an item holds of the gate: the candidate's trials of its case, and the verdict on it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regauge.errors import UnmeasuredError
from regauge.printable import printable
from regauge.reports import answer_diff
from regauge.runner import EvalResult

if TYPE_CHECKING:
    from regauge.reports import CaseDocument

__all__ = ["GateFailed", "GatedResult"]


class GateFailed(AssertionError):  # noqa: N818 - it says what happened; it is not an error
    """A case that keeps a change from being accepted; the message is what a reader needs."""

    regauge_words = True

    def __init__(self, document: CaseDocument, *, where: str) -> None:
        self.document = document
        self.where = where
        super().__init__(document.message)

    def __str__(self) -> str:
        again = f"  again: regauge gate --prompt {shlex.quote(self.document.prompt)}"
        diff = [f"    {line}" for line in answer_diff(self.document)]
        return printable("\n".join([self.document.message, *diff, again]))

    @property
    def short(self) -> str:
        """One line, for lists."""
        return printable(self.document.message)


@dataclass(slots=True, kw_only=True, eq=False)
class GatedResult(EvalResult):
    """The candidate's trials of one case, and what the gate says of them.

    Attributes:
        gated: The verdict; it decides in place of the single trials.
        outcome: `failed` when the case keeps the change from being accepted.
    """

    gated: CaseDocument

    def __post_init__(self) -> None:
        outcomes = [trial.outcome for trial in self.trials]
        self.passed = outcomes.count("passed")
        if self.gated.verdict == "unmeasured":
            self.outcome = "unmeasured"
        else:
            self.outcome = "failed" if self.breaks else "passed"

    @property
    def breaks(self) -> bool:
        """Whether the case is worse, and blocks."""
        return self.gated.blocks and self.gated.verdict in {"broken", "new"}

    def check(self) -> None:
        """Apply the gate's verdict.

        Raises:
            GateFailed: The change broke the case.
            UnmeasuredError: Trials have no answer or no verdict.
        """
        __tracebackhide__ = True
        if self.gated.verdict == "unmeasured":
            raise self.error or UnmeasuredError(self.gated.message)
        if self.breaks:
            raise GateFailed(self.gated, where=self.where)
