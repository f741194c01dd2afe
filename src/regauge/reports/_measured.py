"""The measurement of a prompt in a run, as the run history keeps it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSuite:
    """The measurement of one prompt, dataset and model in one run.

    Attributes:
        run: The id of the run.
        started_at: The start of the run, ISO 8601 in UTC.
        commit: The checked-out commit; None outside a repository.
        dirty: Whether the work tree differed from the commit.
        side: The side of the trials, with `--gate`; else None.
        cases: The number of cases.
        measured: The number of cases with an outcome.
        passed: The number of passed cases; in a gate run, by the first trial of each case.
        trials: The number of trials per case.
        completions: The number of completions in `cost_usd`.
        cost_usd: The cost of all completions when they were made; None if a price is unknown.
        latency_p50_s: The median latency, in seconds.
        judges_digest: The digest of the blocking judges.
        cases_digest: The digest of the cases with inputs and expected outputs.
    """

    run: str
    started_at: str
    commit: str | None
    dirty: bool
    prompt: str
    version: str | None
    prompt_digest: str
    dataset: str
    model: str
    side: str | None
    cases: int
    measured: int
    passed: int
    trials: int
    completions: int
    cost_usd: float | None
    latency_p50_s: float | None
    judges_digest: str
    cases_digest: str

    @property
    def rate(self) -> float | None:
        """The share of measured cases that passed, from 0 to 1; None without any."""
        return self.passed / self.measured if self.measured else None

    @property
    def cost_per_completion_usd(self) -> float | None:
        """None if the price is unknown or there are no completions."""
        if self.cost_usd is None or not self.completions:
            return None
        return self.cost_usd / self.completions
