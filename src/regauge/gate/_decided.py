"""What a gate run leaves behind: the engine's outcome and everything around it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from regauge.errors import BudgetError, MissingRecordingError, ProviderError, RecordingError
from regauge.gate._outcome import Decision

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from regauge.errors import Fault, UnmeasuredError
    from regauge.gate._anchor_report import AnchorReport
    from regauge.gate._audit import AuditReport
    from regauge.gate._compared import Compared, SuiteBase
    from regauge.gate._outcome import GateOutcome
    from regauge.gate._types import Arm
    from regauge.gate.base import BaseCommit, Refusal, RuleBreach
    from regauge.runner import Trial

__all__ = ["EXIT_CODES", "Decided", "FinalDecision", "cause_of_case", "final_decision"]

# A change that is refused is not compared.
FinalDecision: TypeAlias = Decision | Literal["refused"]
EXIT_CODES: Final[dict[FinalDecision, int]] = {
    "accept": 0,
    "reject": 1,
    "refused": 2,
    "unmeasured": 3,
    "undecided": 4,
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decided:
    """A decision, with what it was made from.

    Attributes:
        at: What was compared with.
        suites: The suites, changed or not.
        compared: The cases, in the order of the outcome's.
        trials: What was made, by suite, case and arm.
        audit: The candidate's committed completions next to its first trials; None where none
            could be compared.
        anchors: By suite, the sum of what changed since an old version.
        not_run: How many cases were not run, because the change is refused, or rejected whatever
            they show.
        refusals: Why nothing is compared; empty where the change is compared.
        locks: What `prompts.lock` lost against the base version.
        unmeasured: What the run left out and nobody selected so.
        judge_change_accepted: Why main may have been judged otherwise, where it was; empty else.
        moved_bars: Parts of the bar that the change lowers; the base's decided.
        caveats: What else the change edits that an accepted prompt was measured by.
        base_unavailable: By prompt, why the target of its base cannot be called at all.
        rejected_before: How many other versions of the pull request or branch were rejected.
        notes: What a reader should know.
    """

    at: BaseCommit
    suites: Sequence[SuiteBase]
    compared: Sequence[Compared]
    outcome: GateOutcome
    trials: Mapping[tuple[str, str, Arm], Sequence[Trial]]
    audit: AuditReport | None = None
    anchors: Mapping[str, AnchorReport] = field(default_factory=dict[str, "AnchorReport"])
    not_run: int = 0
    refusals: Sequence[Refusal] = ()
    locks: Sequence[RuleBreach] = ()
    unmeasured: Sequence[Fault] = ()
    judge_change_accepted: str = ""
    moved_bars: Sequence[str] = ()
    caveats: Sequence[str] = ()
    base_unavailable: Mapping[str, str] = field(default_factory=dict[str, str])
    rejected_before: int = 0
    notes: Sequence[str] = field(default_factory=tuple[str, ...])

    @property
    def decision(self) -> FinalDecision:
        """The engine's, unless the change is refused, breaks a rule or is not measured whole.

        Recordings that were selected reject it, too, and so does a loss against the anchor where
        the base's settings say so.
        """
        if self.refusals:
            return "refused"
        broken = self.locks or any(one.base.breaches or one.base.faults for one in self.suites)
        selected = self.audit is not None and self.audit.result == "better"
        return final_decision(
            self.outcome.decision,
            broken=bool(broken)
            or selected
            or any(anchor.blocks for anchor in self.anchors.values()),
            unmeasured=bool(self.unmeasured),
        )

    @property
    def provisional(self) -> bool:
        """Whether stored trials of the candidate alone were weighed: the author recorded them."""
        candidates = (trials for (_, _, arm), trials in self.trials.items() if arm == "candidate")
        return self.outcome.policy.provisional and any(candidates)

    @property
    def exit_code(self) -> int:
        """Of `regauge gate`."""
        return EXIT_CODES[self.decision]

    def rules(self, suite: SuiteBase) -> Iterator[tuple[str, Fault]]:
        """What a suite breaks of the rules of versions and of its changelog, each with its name.

        Of several suites of one prompt the first tells it; so does the first of all what is of
        the project: the lock.
        """
        path = suite.suite.prompt.path
        if suite is next(one for one in self.suites if one.suite.prompt.path == path):
            for breach in suite.base.breaches:
                yield breach.rule, breach.fault
            for fault in suite.base.faults:
                yield "changelog", fault
        if suite is self.suites[0]:
            for breach in self.locks:
                yield breach.rule, breach.fault

    def errors(self, prompt: str = "", case: str = "") -> Iterator[UnmeasuredError]:
        """Why trials are unmeasured; of one case, or of all."""
        arms: tuple[Arm, ...] = ("candidate", "main")
        keys: list[tuple[str, str, Arm]] = [(prompt, case, arm) for arm in arms]
        if not prompt:
            keys = [*self.trials]
        for key in keys:
            for trial in self.trials.get(key, ()):
                if trial.error is not None:
                    yield trial.error

    @property
    def lacks(self) -> str:
        """What keeps trials from being measured: `recordings`, `budget`, `answers` or nothing."""
        errors = list(self.errors())
        if any(isinstance(error, BudgetError) for error in errors):
            return "budget"
        if any(isinstance(error, MissingRecordingError) for error in errors):
            return "recordings"
        return "answers" if errors else ""


def final_decision(decision: Decision, *, broken: bool, unmeasured: bool) -> Decision:
    """What a gate comes to, from what the engine decided.

    >>> final_decision("accept", broken=False, unmeasured=True)
    'unmeasured'

    Args:
        decision: Of the engine, from the trials.
        broken: Whether the change breaks a rule of versions; then it is rejected.
        unmeasured: Whether something was left out of the run; then it is not accepted.
    """
    if broken or decision == "reject":
        return "reject"
    return "unmeasured" if unmeasured else decision


def cause_of_case(decided: Decided, prompt: str, case: str) -> str:
    """Why trials of a case have no verdict, on one line."""
    for error in decided.errors(prompt, case):
        if isinstance(error, ProviderError) and error.status is not None:
            return f"HTTP {error.status}"
        what, *more = str(error).splitlines()
        if isinstance(error.__cause__, RecordingError):  # a full disk: every other case has it too
            what = "; ".join([what, *(line.strip() for line in more)])
        return what
    return ""
