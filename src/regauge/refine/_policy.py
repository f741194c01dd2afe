"""Limits, error rates and growth that a refinement run keeps to."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """Limits of a run; each is checked before it is spent, so none is exceeded.

    Attributes:
        calls: Of all models: the prompt's, those of LLM judges, and the refiner's.
        model_calls: Calls of the model that criticises and proposes.
        usd: Cost in US dollars; None for no limit.
        cycles: Accepted or failed rounds of diagnose, propose and verify.
        candidates: Edits that are tested, over the whole run.
        failed_cycles: Failed cycles in a row that end the run.
        localise_calls: Of the calls, so many may tell which sentence carries which check.
        holdout_looks: How often the same held-out cases may decide, over all runs on a prompt.
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
    localise_calls: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptancePolicy:
    """The evidence that each step needs. Every p-value is of an exact test.

    A comment says what a value is for, and what moves when it changes. Values without another
    source were chosen on the tasks of `benchmarks/refine_tasks`.
    """

    # Of every train case, before anything is said: with one, a flaky failure looks like a fault.
    first_trials: int = 2
    # Of train cases in the mean once unclear ones are drawn again, and of every held-out case:
    # more find rarer faults and make the first look dearer, healthy prompts too.
    baseline_trials: int = 3
    # A check is drawn again while so many failures at `flaky_rate` are less likely than this;
    # lower saves calls and misses faults of few cases.
    unclear_p: float = 0.60
    # A check that fails no more often is flaky; lower works on noise, higher leaves rare faults.
    flaky_rate: float = 0.10
    # A cluster stays when so many failures at `flaky_rate` are less likely: the usual 5 %.
    flaky_p: float = 0.05
    # Or when cases that failed once fail again so often. Failures are over, without an edit of
    # their own, when so many passes are less likely. Strict, for every case is such a look.
    again_p: float = 0.01
    # Failing cases, and trials of them together, that a candidate is first tried on: more cost a
    # call for every candidate, fewer miss edits that help half of the time.
    screen_cases: int = 6
    # Candidates of one cluster that go on to the test, each for a share of `alpha`.
    screened: int = 2
    # The error rate of accepting edits over the whole run; the i-th tested edit gets 6/(pi i)^2
    # of it, which sums to 1. The usual 5 %; higher accepts more edits that do nothing.
    alpha: float = 0.05
    # How often the evidence for one edit is looked at; each look gets its share of the error.
    looks: int = 4
    # Trials per case and look, and of each case in doubt in the last verification.
    look_trials: int = 2
    # Passing cases that are drawn along from the second look on, to see harm.
    anchors: int = 4
    # Above this p-value an edit is refuted, once so many trials of the cases in question were
    # drawn; lower gives up edits that help a little, higher spends looks on those that do not.
    hopeless: float = 0.35
    hopeless_trials: int = 12
    # Up to this p-value, over `looks`, another check got worse; higher refutes harmless edits.
    harm_p: float = 0.05
    # An edit with a mean effect below minus this is refuted: about one case of thirty.
    margin: float = 0.03
    # The target must have improved on trials that chose nothing, up to this p-value.
    fresh_p: float = 0.05
    # The held-out trials must be so many times likelier if an edit helps there as on train cases
    # than if it does nothing; at the inverse it is overfit. It bounds the error at 1 in 20.
    generalises: float = 20.0
    # Flaky checks that are looked at again, those that fail most, and cases and trials of each;
    # their product bounds what a look at them costs.
    steady_checks: int = 3
    steady_cases: int = 6
    steady_trials: int = 4
    # Cases that fail no more often are steady enough, and worked on when so many failures are
    # less likely than `steady_p`; what steadies them is tested again, so that may be loose.
    steady_rate: float = 0.05
    steady_p: float = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardPolicy:
    """Limits of an edit of the text; comments state the purpose of each value."""

    # Changes of one edit, as a person counts them: more are no longer one idea to review.
    ops: int = 3
    # Words and marks it may add, as a share of the prompt when the run began, and on top of that:
    # short prompts need room for one rule.
    growth: float = 0.15
    growth_words: int = 40
    # Of all edits together: longer prompts are followed less.
    growth_hard: float = 0.35
    # What a replaced section may gain, unless its mark says `words`, and the share it may lose.
    section_growth: float = 0.5
    section_words: int = 20
    section_shrink: float = 0.5
    # Statements of the prompt as it was that one edit may take out: one that stood in the way.
    deletions: int = 1
    # What occurs in this share of all cases belongs to the subject, not to a case; lower lets
    # edits name fewer things of the subject.
    common: float = 0.30
    # A name that more than this share of all cases have is of the subject, too.
    rare: float = 0.10
    # Words that only a case has are a leak from so many characters and words on.
    overlap: int = 12
    phrase: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class RefinePolicy:
    """All of it."""

    limits: RunLimits = field(default_factory=RunLimits)
    test: AcceptancePolicy = field(default_factory=AcceptancePolicy)
    guard: GuardPolicy = field(default_factory=GuardPolicy)
