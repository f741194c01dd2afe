"""What a refinement run holds itself to: limits, error rates, and how text may grow."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["GuardPolicy", "Limits", "RefinePolicy", "TestPolicy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a run may spend; each is looked at before it is spent, so none is ever passed.

    Attributes:
        calls: Of all models: the prompt's, those of LLM judges, and the refiner's.
        model_calls: Calls of the model that criticises and proposes.
        usd: Cost of all of them, in US dollars.
        seconds: Of wall clock.
        cycles: Accepted or failed rounds of diagnose, propose and verify.
        candidates: Edits that are tested, over the whole run.
        patience: Cycles in a row that accept nothing.
        localise_calls: Of the calls, so many may tell which sentence carries which check.
        holdout_looks: How often the same held-out cases may decide, over all runs on a prompt.
    """

    calls: int = 600
    model_calls: int = 40
    usd: float | None = None
    seconds: float | None = None
    cycles: int = 5
    candidates: int = 24
    patience: int = 2
    holdout_looks: int = 10
    localise_calls: int = 0

    def __post_init__(self) -> None:
        for name in ("calls", "cycles", "candidates", "patience", "holdout_looks"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.model_calls < 0:
            raise ValueError(f"model_calls must be 0 or more, not {self.model_calls}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TestPolicy:
    """How much evidence a step needs.

    Attributes:
        first_trials: Of every train case, before anything is said about the prompt.
        baseline_trials: Of train cases in the mean, once those are drawn again on which too
            little is known; and of every holdout case.
        unclear_p: A check is drawn again while so many failures at `flaky_rate` are less likely
            than this.
        flaky_rate: A check that fails no more often than this is flaky and left alone.
        flaky_p: A cluster stays when so many failures at `flaky_rate` are less likely than this.
        again_p: A cluster stays, too, when cases that failed once fail again so often that a
            flaky check does it no likelier than this: few broken cases among many sound ones.
        cured_p: Failures are over, without an edit of their own, when so many passes in a row are
            less likely than this.
        screen_cases: Failing cases that a candidate is first tried on.
        screen_trials: Of these cases together; where they are few, each is drawn more often.
        screened: Candidates of one cluster that go on to the test.
        alpha: The error rate of accepting edits over the whole run; the i-th edit that is tested
            gets 6/(pi i)^2 of it, which sums to 1.
        looks: How often the evidence for one edit is looked at; each look gets its share.
        look_trials: Trials per case and look.
        anchors: Cases the check passes that are drawn along from the second look on.
        hopeless: Above this p-value an edit is refuted, once `hopeless_trials` were drawn.
        hopeless_trials: Of the cases in question; fewer do not refute an edit.
        harm_p: Up to this p-value another check got worse, divided by `looks`.
        margin: An edit whose mean effect is below minus this is refuted.
        fresh_p: The target must have improved on trials that chose nothing, up to this p-value.
        generalises: The holdout's trials must be so many times likelier if an edit helps there as
            it does on train cases than if it does nothing there; it is overfit at the inverse. An
            edit that does nothing there passes at most once in so many times.
        suite_trials: Fresh trials per case in the last verification.
        steady_checks: Flaky checks that are looked at again, those that fail most, once nothing
            else fails; and `steady_cases` of each.
        steady_trials: Of each such case, and under either text at each look at an edit.
        steady_rate: Cases that fail no more often than this are steady enough.
        steady_p: They are worked on when so many failures at `steady_rate` are less likely than
            this; what makes them steady is tested anew.
    """

    __test__ = False  # pytest would take the name for a test class

    first_trials: int = 2
    baseline_trials: int = 3
    unclear_p: float = 0.60
    flaky_rate: float = 0.10
    flaky_p: float = 0.05
    again_p: float = 0.01
    cured_p: float = 0.01
    screen_cases: int = 6
    screen_trials: int = 6
    screened: int = 2
    alpha: float = 0.05
    looks: int = 4
    look_trials: int = 2
    anchors: int = 4
    hopeless: float = 0.35
    hopeless_trials: int = 12
    harm_p: float = 0.05
    margin: float = 0.03
    fresh_p: float = 0.05
    generalises: float = 20.0
    suite_trials: int = 2
    steady_checks: int = 3
    steady_cases: int = 6
    steady_trials: int = 4
    steady_rate: float = 0.05
    steady_p: float = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardPolicy:
    """What an edit may do to the text.

    Attributes:
        ops: Operations of one edit.
        growth: Words and marks it may add, as a share of the prompt as it was when the run began.
        growth_words: And so many more on top.
        growth_hard: Of all edits together, as a share.
        section_growth: Words and marks that a section which is replaced as a whole may gain on what
            it had when the run began, as a share of that, unless its mark says `words`.
        section_words: And so many more on top.
        section_shrink: The share of its words that it may lose in one edit.
        deletions: Lines of the prompt as it was that one edit may delete.
        common: What occurs in this share of all cases belongs to the subject, not to a case.
        rare: A name that more than this share of all cases have is of the subject, too.
        overlap: A run of words that only a case has is a leak from so many characters on,
        phrase: and from so many words on, whatever words they are.
    """

    ops: int = 3
    growth: float = 0.15
    growth_words: int = 40
    growth_hard: float = 0.35
    section_growth: float = 0.5
    section_words: int = 20
    section_shrink: float = 0.5
    deletions: int = 1
    common: float = 0.30
    rare: float = 0.10
    overlap: int = 12
    phrase: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class RefinePolicy:
    """All of it."""

    limits: Limits = field(default_factory=Limits)
    test: TestPolicy = field(default_factory=TestPolicy)
    guard: GuardPolicy = field(default_factory=GuardPolicy)
