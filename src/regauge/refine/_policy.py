"""Limits, error rates and growth of a refinement run."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """Limits of a run; each is checked before it is spent, so none is exceeded.

    Attributes:
        calls: Calls of all models: the prompt's, LLM judges' and the refiner's.
        model_calls: Calls of the refiner model.
        usd: Cost in US dollars; None for no limit.
        cycles: Cycles of diagnose, propose and verify, accepted or failed.
        candidates: Edits tested over the whole run.
        failed_cycles: Failed cycles in a row that end the run.
        holdout_looks: Decisions on the same held-out cases, over all runs of a prompt.
    """

    # The fix of one check of `incident-summary`, 37 cases with LLM judges, takes about 450. Fewer
    # end a run before its edit is verified.
    calls: int = 600
    # Eight for each cycle.
    model_calls: int = 40
    usd: float | None = None
    cycles: int = 5
    candidates: int = 24
    failed_cycles: int = 2
    holdout_looks: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptancePolicy:
    """The evidence that each step needs. Every p-value is of an exact test.

    A comment states the purpose of a value, and the effect of a change. Values without another
    source were chosen on the tasks of `benchmarks/refine_tasks`.
    """

    # Trials per train case before a diagnosis: with one, a flaky failure looks like an error.
    first_trials: int = 2
    # Mean trials per train case with the re-runs of unclear ones, and per held-out case: more find
    # rarer failures and make the diagnosis dearer, of healthy prompts too.
    baseline_trials: int = 3
    # A check is run again while its number of failures at `flaky_rate` is less likely than this;
    # lower saves calls and misses failures of few cases.
    unclear_p: float = 0.60
    # A check that fails no more often is flaky; lower works on noise, higher leaves rare failures.
    flaky_rate: float = 0.10
    # A failure mode stays if its number of failures at `flaky_rate` is less likely: the usual 5 %.
    flaky_p: float = 0.05
    # Or if its repeated failures are less likely. Failures end without an edit of their own if the
    # passes are less likely. Strict, as every case is tested.
    again_p: float = 0.01
    # Failing cases, and their trials in all, of a candidate's screen: more cost a call for every
    # candidate, fewer miss edits that help half of the time.
    screen_cases: int = 6
    # Candidates of one failure mode that are tested, each for a share of `alpha`.
    tested_max: int = 2
    # The error rate of accepting edits over the whole run; the i-th tested edit gets 6/(pi i)^2
    # of it, which sums to 1. The usual 5 %; higher accepts more edits that do nothing.
    alpha: float = 0.05
    # Looks at the evidence for one edit; each look gets its share of the error.
    looks_max: int = 4
    # Trials per case and look, and per doubtful case in the last verification.
    look_trials: int = 2
    # Above this p-value an edit is refuted after this many trials of its cases; lower gives up
    # edits that help a little, higher spends looks on those that do not.
    hopeless: float = 0.35
    hopeless_trials: int = 12
    # Up to this p-value, over `looks`, another check got worse; higher refutes harmless edits.
    harm_p: float = 0.05
    # The gain must show on independent trials, up to this p-value.
    fresh_p: float = 0.05
    # The likelihood ratio of held-out trials: the edit helps there as on train cases, or not at
    # all; at the inverse it is overfit. It bounds the error at 1 in 20.
    generalises: float = 20.0
    # Flaky checks that are run again, most failures first, and cases and trials of each; their
    # product bounds the cost.
    steady_checks: int = 3
    steady_cases: int = 6
    steady_trials: int = 4
    # Cases that fail no more often are steady; others are worked on if their failures are less
    # likely than `steady_p`. It may be loose, as their edits are tested again.
    steady_rate: float = 0.05
    steady_p: float = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardPolicy:
    """Limits of an edit of the text; comments state the purpose of each value."""

    # Changes of one edit, as a user counts them: more are no longer one idea to review.
    ops: int = 3
    # Words and marks that an edit may add, as a share of the first prompt, and on top of that:
    # short prompts need room for one rule.
    growth: float = 0.15
    growth_words: int = 40
    # The same for all edits together: models follow longer prompts less.
    growth_hard: float = 0.35
    # The share that a replaced section may gain, unless its mark sets `words`, and may lose.
    section_growth: float = 0.5
    section_words: int = 20
    section_shrink: float = 0.5
    # Statements of the first prompt that one edit may delete: one that hindered a check.
    deletions: int = 1
    # A word in this share of all cases belongs to the subject, not to a case; lower lets edits
    # name fewer things of the subject.
    common: float = 0.30
    # A name in more than this share of all cases belongs to the subject, too.
    rare: float = 0.10
    # Words of a case are a leak from this number of characters and words on.
    overlap: int = 12
    phrase: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class RefinePolicy:
    """All limits, error rates and guard limits of a run."""

    limits: RunLimits = field(default_factory=RunLimits)
    test: AcceptancePolicy = field(default_factory=AcceptancePolicy)
    guard: GuardPolicy = field(default_factory=GuardPolicy)
