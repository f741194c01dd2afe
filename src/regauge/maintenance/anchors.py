"""The anchor of an eval: trials of an old version, compared with the current one."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from regauge.errors import GitError, InvalidFileError, RegaugeError
from regauge.gate import (
    EvalTrials,
    TopUpEval,
    accepted_since,
    add_session,
    anchor_eval,
    anchor_version,
    compare_baselines,
    stored_anchor,
    top_up,
)
from regauge.gate.baselines import Baseline, key_of
from regauge.prompts import lock_of
from regauge.runner import PlannedCase
from regauge.stats import AnchorPolicy
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from regauge.gate import AnchorComparison, TopUp, TopUpPolicy
    from regauge.gate.baselines import StoredBaseline
    from regauge.runner import Eval


@dataclass(slots=True, kw_only=True, eq=False)
class AnchorUpdate:
    """The anchor's trials in this session, and the comparison with them.

    Attributes:
        version: The anchor's version.
        head: The current eval.
        eval: The eval with the anchor's prompt; None if the prompt cannot be read.
        stored_trials: The anchor's trials so far; None without any.
        cases: The cases that the anchor's prompt can render.
        trouble: The reason why trials of all or some cases are impossible; else empty.
        request: The trials to run before the comparison; None without any.
        session_trials: The trials of this session, with those of a recheck.
        has_new_trials: Whether any of them count.
        comparison: The comparison of both; None without trials to compare.
    """

    version: str
    head: Eval
    eval: Eval | None = None
    stored_trials: StoredBaseline | None = None
    cases: tuple[PlannedCase, ...] = ()
    trouble: str = ""
    request: TopUpEval | None = None
    session_trials: list[EvalTrials] = field(default_factory=list[EvalTrials])
    has_new_trials: bool = False
    comparison: AnchorComparison | None = None

    @classmethod
    def plan(
        cls,
        eval_: Eval,
        cases: Sequence[PlannedCase],
        baseline: Baseline,
        current: TopUp,
        *,
        setting: str,
        policy: TopUpPolicy,
        now: datetime,
    ) -> Self | None:
        """The anchor of an eval; None without one in the settings or the prompt's versions.

        Its trials run only next to a version whose own baseline fills.

        Args:
            cases: The current cases.
            baseline: The prompt's baseline.
            current: The trials of the current version.
            setting: The setting `anchor`.
            policy: The plan for filling a baseline of this number of cases.
        """
        head = eval_.prompt
        released = [entry.version for entry in lock_of(head.path).entries_of(head.name)]
        version = anchor_version(setting, released, current=head.version)
        if version is None:
            return None
        anchor = cls(version=str(version), head=eval_)
        try:
            anchor.eval = anchor_eval(eval_, version)
        except (InvalidFileError, GitError) as error:
            anchor.trouble = str(error).splitlines()[0].replace(str(head.path), head.path.name)
            anchor.stored_trials = stored_anchor([baseline], anchor.version, key_of(eval_))
            return anchor
        key = key_of(anchor.eval)
        matching = (x for x in baseline.anchors if not x.key.differences(key))
        anchor.stored_trials = next(matching, None)
        if anchor.stored_trials is None and (stored_baseline := baseline.find(key)) is not None:
            anchor.stored_trials = replace(stored_baseline, audit_digest="")
        anchor_cases = (PlannedCase(anchor.eval, case.case) for case in cases)
        anchor.cases = tuple(case for case in anchor_cases if _can_render(case))
        if left_out := len(cases) - len(anchor.cases):
            of = plural(len(cases), "case")
            anchor.trouble = f"the prompt of {version} cannot be rendered for {left_out} of {of}"
        if current.trials_by_case and anchor.cases:
            full = policy.complete_trials
            trials_max = AnchorPolicy().trials_of(len(eval_.dataset), baseline_trials=full)
            share = max(policy.per_session, -(-trials_max // policy.sessions))
            anchor_policy = replace(
                policy, complete_trials=trials_max, per_session=share, sessions=1, any_time=True
            )
            anchor.request = anchor._top_up(anchor.eval, now=now, policy=anchor_policy)
        return anchor

    @property
    def has_loss(self) -> bool:
        """Return whether this session confirmed a loss against the anchor."""
        return self.has_new_trials and self.comparison is not None and self.comparison.is_confirmed

    def add_trials(self, request: TopUpEval, trials: EvalTrials, *, now: datetime) -> None:
        """Add trials of this session to the stored ones."""
        self.session_trials.append(trials)
        before = self.stored_trials.drawn_for if self.stored_trials is not None else ""
        baseline = add_session(request.top_up, trials.facts, now=now, models=trials.models)
        if baseline.cases:
            self.has_new_trials = self.has_new_trials or any(trials.facts.values())
            self.stored_trials = replace(baseline, drawn_for=before)

    def compare(self, baseline: StoredBaseline, *, complete: bool) -> None:
        """Compare the current version with the anchor; only a complete one is suspected."""
        if self.stored_trials is None:
            return
        accepted = accepted_since(self.head.prompt, self.version)
        comparison = compare_baselines(self.stored_trials, baseline, accepted=accepted)
        if comparison is not None and not complete:
            comparison = replace(comparison, is_suspected=False)
        self.comparison = comparison

    def plan_rerun(self, now: datetime, policy: TopUpPolicy) -> TopUpEval | None:
        """The trials for a re-run of both; None unless stored trials suspect a loss."""
        suspected = self.comparison is not None and self.comparison.is_suspected
        if not suspected or self.eval is None or not self.cases:
            return None
        full_policy = replace(policy, per_session=policy.complete_trials, sessions=1, any_time=True)
        return self._top_up(self.eval, now=now, policy=full_policy, restart=True)

    def _top_up(
        self, eval_: Eval, *, now: datetime, policy: TopUpPolicy, restart: bool = False
    ) -> TopUpEval:
        """The trials of the anchor by a policy."""
        baselines = (self.stored_trials,) if self.stored_trials is not None else ()
        plan = top_up(
            Baseline(prompt=eval_.prompt.name, baselines=baselines),
            key_of(eval_),
            version=str(eval_.prompt.version or ""),
            cases={case.case.id: case.case.digest for case in self.cases},
            now=now,
            policy=policy,
            restart=restart,
        )
        return TopUpEval(top_up=plan, cases=self.cases)

    def replace_trials(
        self, request: TopUpEval, trials: EvalTrials, baseline: StoredBaseline, *, now: datetime
    ) -> None:
        """Replace the stored trials by a re-run that measured every case; compare again."""
        self.session_trials.append(trials)
        measured = {case for case, case_trials in trials.facts.items() if case_trials}
        if measured != {*request.top_up.trials_by_case}:
            return
        baseline_of_day = add_session(request.top_up, trials.facts, now=now, models=trials.models)
        self.stored_trials = replace(baseline_of_day, drawn_for=baseline.key.prompt)
        self.has_new_trials = True
        self.compare(baseline, complete=True)

    def line(self) -> str:
        """The difference since the anchor, or the reason why it is not measured."""
        comparison = self.comparison
        if comparison is None:
            reason = self.trouble or "its trials run with those of the next version"
            return f"since {self.version}: not measured: {reason}"
        words = str(comparison)
        if comparison.is_confirmed:
            words += f"; a loss, confirmed with fresh trials of both (p = {comparison.p_value:.2g})"
        elif comparison.is_suspected:
            reason = f": {self.trouble}" if self.trouble else ""
            words += f"; {self.version} was not measured again, so this is not confirmed{reason}"
        elif comparison.is_rerun:
            words += f"; not confirmed with fresh trials of both (p = {comparison.p_value:.2g})"
        return words

    def to_json(self) -> dict[str, Any]:
        """For programs, and for the issue."""
        comparison = self.comparison
        return {
            "version": self.version,
            "message": self.line(),
            "cases": comparison.cases if comparison is not None else 0,
            "difference": asdict(comparison.difference) if comparison is not None else None,
            "p_value": comparison.p_value if comparison is not None else None,
            "rerun": comparison is not None and comparison.is_rerun,
            "confirmed": comparison is not None and comparison.is_confirmed,
            "trouble": self.trouble,
        }


def _can_render(case: PlannedCase) -> bool:
    try:
        case.eval.request(case.case, 0)
    except RegaugeError:
        return False
    return True
