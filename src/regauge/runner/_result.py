"""What an eval's test function receives as `result`, and the failure that `check` raises."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from regauge.errors import UnmeasuredError
from regauge.runner._failure import describe_failure, one_line
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.prompts import Prompt
    from regauge.providers import Completion
    from regauge.runner._suite import Suite
    from regauge.runner._trial import Trial, TrialOutcome

__all__ = ["CaseFailed", "EvalResult"]


@dataclass(slots=True, kw_only=True, eq=False)
class EvalResult:
    """The judged trials of one case.

    Attributes:
        trials: In order of their numbers; at least one.
        where: The pytest item, for commands in messages; empty outside pytest.
        not_blocking: Why a failure does not fail the run; empty where it does.
        passed: How many trials passed.
        outcome: Of the case: decided by its trials as soon as what is unmeasured cannot change it.
    """

    suite: Suite
    case: GoldenCase
    trials: tuple[Trial, ...]
    where: str = ""
    not_blocking: str = ""
    passed: int = field(init=False)
    outcome: TrialOutcome = field(init=False)

    def __post_init__(self) -> None:
        outcomes = [trial.outcome for trial in self.trials]
        unmeasured = outcomes.count("unmeasured")
        self.passed = outcomes.count("passed")
        if self.passed + unmeasured < self.needed:
            self.outcome = "failed"
        else:
            self.outcome = "unmeasured" if unmeasured else "passed"

    @property
    def prompt(self) -> Prompt:
        """The prompt that was evaluated."""
        return self.suite.prompt

    @property
    def completion(self) -> Completion:
        """The answer of the first trial.

        Raises:
            UnmeasuredError: There is none.
        """
        first = self.trials[0]
        if first.answer is None:
            raise first.error or UnmeasuredError("there is no answer")
        return first.answer.completion

    @property
    def output(self) -> str:
        """The text of the first trial's answer; empty when the model gave none."""
        return self.completion.text or ""

    def json(self) -> JSON:
        """The first trial's answer, parsed.

        Raises:
            ValueError: The answer is not JSON.
        """
        parsed: JSON = read_json(self.output)
        return parsed

    @property
    def needed(self) -> int:
        """How many trials must pass: the suite's `pass_rate` of them, rounded up."""
        return max(1, math.ceil(self.suite.pass_rate * len(self.trials) - 1e-9))

    @property
    def error(self) -> UnmeasuredError | None:
        """Why the case is unmeasured: the first error of a trial."""
        return next((trial.error for trial in self.trials if trial.error is not None), None)

    def check(self) -> None:
        """Apply the judges' verdicts.

        Raises:
            CaseFailed: Fewer trials passed than `pass_rate` asks for.
            UnmeasuredError: A trial has no answer or no verdict.
        """
        __tracebackhide__ = True
        match self.outcome:
            case "passed":
                return
            case "failed":
                raise CaseFailed(self)
            case "unmeasured":
                raise self.error or UnmeasuredError("nothing was measured")


class CaseFailed(AssertionError):  # noqa: N818 - it says what happened; it is not an error
    """A case did not pass its judges; the message is what a reader needs to act on it."""

    regauge_words = True

    def __init__(self, result: EvalResult) -> None:
        self.result = result
        super().__init__(result)

    def __str__(self) -> str:
        return describe_failure(self.result)

    @property
    def short(self) -> str:
        """One line: the first judge that failed it, and why."""
        first = next(judged for trial in self.result.trials for judged in trial.failures)
        return one_line(f"{first.judge}: {first.verdict.reason}")
