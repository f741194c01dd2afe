"""Sessions of a baseline: missing trials of the base, their results, and re-checks."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from math import exp, log
from typing import TYPE_CHECKING

import numpy as np

from regauge.errors import BudgetError, MissingRecordingError, UsageError
from regauge.evidence import NO_TRIALS, Count, RoundReport
from regauge.gate._anchor import CheckChange
from regauge.gate._cases import CaseTrials, tallies_of
from regauge.gate._suites import graded_checks, scores_p_value
from regauge.gate._trials import BASELINE_FIRST, CONTROL_FIRST, facts_of_trial, stored_number
from regauge.gate._types import CRITICAL_TRIALS, GateCase
from regauge.gate.baselines import (
    CASE_DIGITS,
    Baseline,
    Session,
    StoredBaseline,
    StoredTrials,
)
from regauge.runner import PlannedTrial
from regauge.stats import e_bh, expected_failures, log_e_value, suite_p_value
from regauge.stop_signals import run_stoppable

if TYPE_CHECKING:
    from collections.abc import (
        Collection,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    from regauge.gate._types import GatePolicy, TrialFacts
    from regauge.gate.baselines import BaselineKey
    from regauge.runner import EvalSession, PlannedCase, Trial, TrialRunner
    from regauge.stats import Direction


SESSIONS = 3
"""Sessions that a complete baseline comes from at least."""

_ID = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopUpPolicy:
    """Limits for the sessions of a baseline.

    Attributes:
        complete_trials: Trials of a complete baseline.
        sessions: Minimum number of sessions: trials of one session share the provider's state.
        per_session: Trials of each case in one session.
        apart_h: Hours between the starts of two sessions.
        any_time: Whether a session counts however recent the last one was.
    """

    complete_trials: int
    sessions: int = SESSIONS
    per_session: int
    apart_h: float
    any_time: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopUp:
    """The trials of one session for one eval.

    Attributes:
        baseline: Stored trials, without removed or changed cases.
        digests: Digest of each current case, by id.
        critical: Cases that need more trials.
        first: First trial number of the session.
        trials_by_case: Trials of each case; complete cases are left out.
        waits_h: Hours until the next session may begin, if that is why there are no trials.
        sessions: Number of sessions that complete the baseline, this one included.
        sessions_others: Number of sessions that complete the cases that are not critical.
    """

    baseline: StoredBaseline
    digests: Mapping[str, str]
    critical: frozenset[str] = frozenset()
    first: int
    trials_by_case: Mapping[str, int] = field(default_factory=dict[str, int])
    waits_h: float = 0.0
    sessions: int = 0
    sessions_others: int = 0

    @property
    def complete(self) -> bool:
        """Return whether the baseline needs no more trials."""
        return not self.trials_by_case and not self.waits_h

    def numbers(self, case_id: str) -> range:
        """The trial numbers of a case in this session."""
        return range(self.first, self.first + self.trials_by_case.get(case_id, 0))


def top_up(
    baseline: Baseline,
    key: BaselineKey,
    *,
    version: str,
    cases: Mapping[str, str],
    now: datetime,
    policy: TopUpPolicy,
    critical: Collection[str] = (),
    deselected: Collection[str] = (),
    restart: bool = False,
) -> TopUp:
    """Select the missing trials of the baseline under a key.

    Args:
        version: Version of the prompt; empty if it has none.
        cases: Digest of each current case, by id.
        critical: Cases that need `CRITICAL_TRIALS`.
        now: Start of this session.
        deselected: Cases that this session cannot run; their stored trials stay.
        restart: Whether stored trials are dropped; their numbers stay used.

    Raises:
        UsageError: The numbers for trials of the base are used up.
    """
    stored_baseline = baseline.find(key) or StoredBaseline(key=key)
    baselines = {
        case_id: case
        for case_id, case in stored_baseline.cases.items()
        if not restart and cases.get(case_id, "")[:CASE_DIGITS] == case.digest
    }
    stored_baseline = replace(stored_baseline, version=version, cases=baselines)
    first = stored_baseline.sessions[-1].last + 1 if stored_baseline.sessions else BASELINE_FIRST
    if restart:
        stored_baseline = replace(stored_baseline, sessions=())
    critical_policy = replace(policy, complete_trials=max(policy.complete_trials, CRITICAL_TRIALS))
    policies = {
        case_id: critical_policy if case_id in critical else policy
        for case_id in cases
        if case_id not in deselected
    }
    missing = {
        case_id: trials
        for case_id, case_policy in policies.items()
        if (trials := _missing_trials(stored_baseline, baselines.get(case_id), case_policy))
    }
    sessions = {
        case_id: _sessions(stored_baseline, baselines.get(case_id), case_policy)
        for case_id, case_policy in policies.items()
    }
    other_sessions = [count for case_id, count in sessions.items() if case_id not in critical]
    waits_h = 0.0 if policy.any_time or not missing else _waits_h(stored_baseline, now, policy)
    if waits_h:
        missing = {}
    if first + max(missing.values(), default=0) > CONTROL_FIRST:
        raise UsageError(
            f"the trial numbers {BASELINE_FIRST} to {CONTROL_FIRST - 1} of dataset"
            f" {key.dataset!r} are used up\n  fix: delete the baseline file and start again"
        )
    return TopUp(
        baseline=stored_baseline,
        digests=dict(cases),
        critical=frozenset(critical),
        first=first,
        trials_by_case=missing,
        waits_h=waits_h,
        sessions=max(sessions.values(), default=0),
        sessions_others=max(other_sessions or sessions.values(), default=0),
    )


def add_session(
    top_up: TopUp,
    facts: Mapping[str, Mapping[int, TrialFacts]],
    *,
    now: datetime,
    models: Collection[str],
) -> StoredBaseline:
    """The baseline with the measured trials of a session.

    If no model of this session ever served the baseline, the provider serves another one under the
    old name: stored trials are dropped.

    Args:
        facts: Measured trials, by case and trial number.
        now: Start of the session.
        models: Models and fingerprints of the session.
    """
    baseline = top_up.baseline
    if not any(facts.values()):
        return baseline
    if baseline.models and models and baseline.models.isdisjoint(models):
        baseline = replace(baseline, sessions=(), cases={})
    cases = dict(baseline.cases)
    for case_id, trials in facts.items():
        digest = top_up.digests[case_id][:CASE_DIGITS]
        case = cases.get(case_id, StoredTrials(digest=digest))
        for number in sorted(trials):
            case = case.add(number, trials[number])
        cases[case_id] = case
    session = Session(
        id=now.astimezone(UTC).strftime(_ID),
        first=top_up.first,
        last=max(number for trials in facts.values() for number in trials),
        models=tuple(sorted(models)),
    )
    return replace(baseline, sessions=(*baseline.sessions, session), cases=cases)


def merge_baselines(
    baseline: Baseline,
    updated: Sequence[tuple[StoredBaseline, bool]],
    *,
    anchors: Sequence[StoredBaseline] = (),
    anchor_versions: Collection[str] = (),
    is_partial: bool = False,
) -> Baseline:
    """The baseline with the baselines of all evals of a prompt.

    An incomplete baseline keeps the previous version.

    Baselines of other models stay as long as the prompt does.

    Args:
        baseline: The old baseline.
        updated: Baseline of each eval, and whether it is complete.
        anchors: Trials of the anchor version, for each eval.
        anchor_versions: Anchor versions whose stored trials stay if `anchors` has none.
        is_partial: Whether `updated` may be without evals of the prompt, so that baselines of other
            datasets and judges stay.
    """
    current = tuple(stored_baseline for stored_baseline, _ in updated if stored_baseline.cases)
    keys = [stored_baseline.key for stored_baseline in current]
    prompts, models = {key.prompt for key in keys}, {key.model for key in keys}
    evals = {_eval_of(stored_baseline) for stored_baseline, _ in updated}

    def is_missing(stored_baseline: StoredBaseline) -> bool:
        return is_partial and _eval_of(stored_baseline) not in evals

    elsewhere = tuple(
        stored_baseline
        for stored_baseline in baseline.baselines
        if is_missing(stored_baseline)
        or (stored_baseline.key.prompt in prompts and stored_baseline.key.model not in models)
    )
    previous = [x for x in baseline.previous if is_missing(x)]
    for stored_baseline, complete in updated:
        before = None if complete else baseline.find_previous(stored_baseline.key)
        if before is not None and before not in previous:
            previous.append(before)
    if not current:  # every trial is unmeasured, so the old baseline stays
        return baseline
    anchored_keys = {(anchor.key.dataset, anchor.key.model) for anchor in anchors}
    baselines = tuple(
        anchor
        for anchor in baseline.anchors
        if anchor.version in anchor_versions
        and (anchor.key.dataset, anchor.key.model) not in anchored_keys
    )
    return replace(
        baseline,
        baselines=(*current, *elsewhere),
        previous=tuple(previous),
        anchors=(*anchors, *baselines),
    )


def _eval_of(stored_baseline: StoredBaseline) -> tuple[str, frozenset[str]]:
    """The dataset and the names of the judges, which differ between evals of a prompt."""
    return stored_baseline.key.dataset, frozenset(stored_baseline.key.judges)


def _missing_trials(
    baseline: StoredBaseline, case: StoredTrials | None, policy: TopUpPolicy
) -> int:
    """The number of trials of a case in this session."""
    if case is None:
        return min(policy.per_session, policy.complete_trials)
    trials = min(policy.per_session, max(0, policy.complete_trials - len(case.numbers)))
    sessions = len(baseline.sessions_of(case))
    return max(trials, 1 if sessions < policy.sessions else 0)


def _sessions(baseline: StoredBaseline, case: StoredTrials | None, policy: TopUpPolicy) -> int:
    """The number of sessions that a case still needs."""
    trials, session_count = (
        (len(case.numbers), len(baseline.sessions_of(case))) if case is not None else (0, 0)
    )
    missing_trials = max(0, policy.complete_trials - trials)
    return max(-(-missing_trials // policy.per_session), policy.sessions - session_count, 0)


def _waits_h(baseline: StoredBaseline, now: datetime, policy: TopUpPolicy) -> float:
    if not baseline.sessions:
        return 0.0
    last = datetime.strptime(baseline.sessions[-1].id, _ID).replace(tzinfo=UTC)
    next_at = last + timedelta(hours=policy.apart_h)
    return max(0.0, (next_at - now) / timedelta(hours=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopUpEval:
    """One eval and its trials of this session."""

    top_up: TopUp
    cases: tuple[PlannedCase, ...]

    @property
    def checks(self) -> Mapping[str, str]:
        """The digests of the blocking judges, by name."""
        return self.top_up.baseline.key.judges

    def rounds(self) -> Iterator[list[PlannedTrial]]:
        """All trials in one round."""
        yield draws_of(self)

    def add(self, planned_trial: PlannedTrial, facts: TrialFacts | None) -> None:
        """Add nothing: no further trial depends on the facts of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecheckEval:
    """One eval with a complete baseline, and its new trials."""

    recheck: Recheck
    checks: Mapping[str, str]
    cases: tuple[PlannedCase, ...]

    def rounds(self) -> Iterator[list[PlannedTrial]]:
        """The trials of each round, which depend on the facts of those before."""
        planned_cases = {case.case.id: case for case in self.cases}
        for requests in self.recheck.rounds():
            yield [
                PlannedTrial(planned_cases[case], stored_number("base", nth))
                for case, nth in requests
            ]

    def add(self, planned_trial: PlannedTrial, facts: TrialFacts | None) -> None:
        """Add the facts of a trial; None if it is unmeasured."""
        self.recheck.add(
            planned_trial.planned_case.case.id, planned_trial.trial - CONTROL_FIRST, facts
        )


@dataclass(slots=True, kw_only=True)
class EvalTrials:
    """The results of the trials of one eval.

    Attributes:
        facts: Measured trials, by case and trial number.
        models: Models and fingerprints of the completions.
        unmeasured: Number of unmeasured trials, by cause.
        unmeasured_cases: Cases with unmeasured trials.
    """

    facts: dict[str, dict[int, TrialFacts]] = field(
        default_factory=lambda: defaultdict[str, dict[int, "TrialFacts"]](dict)
    )
    models: set[str] = field(default_factory=set[str])
    unmeasured: Counter[str] = field(default_factory=Counter[str])
    unmeasured_cases: set[str] = field(default_factory=set[str])

    def add(
        self, planned_trial: PlannedTrial, trial: Trial, checks: Mapping[str, str]
    ) -> TrialFacts | None:
        """Add one trial; return its facts, or None if it is unmeasured."""
        case_id = planned_trial.planned_case.case.id
        facts = facts_of_trial(trial, checks, graded=checks)
        if facts is None or trial.sourced_completion is None:
            self.unmeasured[_unmeasured_cause(trial)] += 1
            self.unmeasured_cases.add(case_id)
            return None
        self.facts[case_id][planned_trial.trial] = facts
        completion = trial.sourced_completion.completion
        self.models.add(f"{completion.model} {completion.fingerprint or ''}".strip())
        return facts


def _unmeasured_cause(trial: Trial) -> str:
    """The cause of an unmeasured trial, in a text that trials of one cause share."""
    match trial.error:
        case MissingRecordingError():
            return "no completion is recorded, and --record=none makes no calls"
        case BudgetError():
            return "the budget was reached; a later session makes them"
        case None:
            return "no verdict"
        case error:
            return str(error)


def draws_of(eval_: TopUpEval) -> list[PlannedTrial]:
    """The trials of one eval in this session, round by round."""
    numbers = {
        planned_case.case.id: eval_.top_up.numbers(planned_case.case.id)
        for planned_case in eval_.cases
    }
    rounds = max((len(case_numbers) for case_numbers in numbers.values()), default=0)
    return [
        PlannedTrial(planned_case, numbers[planned_case.case.id][index])
        for index in range(rounds)
        for planned_case in eval_.cases
        if index < len(numbers[planned_case.case.id])
    ]


def run_baseline_trials(
    evals: Sequence[TopUpEval | RecheckEval], *, session: EvalSession
) -> list[EvalTrials]:
    """Run the trials of evals, round by round; unmeasured ones are listed and do not count.

    Trials of a re-check have the numbers of a gate, so no baseline contains them.

    Args:
        evals: Evals with the trials of a session, or with a complete baseline to re-check.
        session: Runs and records the trials.
    """

    async def run_all_evals() -> list[EvalTrials]:
        progress = session.progress
        progress.start(progress.completed + progress.failed)
        async with session.open_trials() as trials:
            return [await _run_eval(eval_, session, trials) for eval_ in evals]

    return run_stoppable(run_all_evals())


async def _run_eval(
    eval_: TopUpEval | RecheckEval, session: EvalSession, trials: TrialRunner
) -> EvalTrials:
    eval_trials = EvalTrials()
    for planned_trials in eval_.rounds():
        session.progress.expect(len(planned_trials))
        new_trials = await trials.run_all(planned_trials)
        for planned_trial, trial in zip(planned_trials, new_trials, strict=True):
            eval_.add(planned_trial, eval_trials.add(planned_trial, trial, eval_.checks))
    return eval_trials


# The error rate of the suite test in one night: one false alarm in 200 nights, shared by the
# prompts and their scores.
_SUITE_ALPHA = 0.005
_SINCE = "when the baseline was made"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """The comparison of new trials of the base with its baseline.

    Attributes:
        changes: Checks whose pass rate changed with certainty since their baseline.
        before: All trials of the baseline, together.
        now: First new trials of every case, together.
        suite: Test of all cases together; None without new trials.
        new_models: Models of the new trials, if none of them served the baseline; empty else.
    """

    changes: tuple[CheckChange, ...]
    before: Count
    now: Count
    suite: RoundReport | None
    new_models: tuple[str, ...] = ()

    @property
    def worse(self) -> bool:
        """Return whether the base passes less often than its baseline, in a case or in all."""
        return self.suite_worse or any(change.direction == "worse" for change in self.changes)

    @property
    def suite_worse(self) -> bool:
        """Return whether all cases together, or their scores, pass less often with certainty."""
        if self.suite is None:
            return False
        by_scores = any(p <= self.suite.bound for p in self.suite.scores.values())
        return self.suite.p_value <= self.suite.bound or by_scores

    @property
    def stale(self) -> bool:
        """Return whether the baseline no longer describes the base."""
        return self.worse or bool(self.changes) or bool(self.new_models)


class Recheck:
    """The new trials for one baseline, round by round, and their comparison with it.

    Args:
        baseline: A complete baseline.
        digests: Digest of each current case, by id.
        policy: Acceptance policy of the prompt.
        prompt: Name of the prompt.
        trials: First trials of each case; suspects get further ones.
        prompts: Number of prompts tested together; they share the error rate of the suite.
    """

    def __init__(
        self,
        baseline: StoredBaseline,
        digests: Mapping[str, str],
        policy: GatePolicy,
        *,
        prompt: str,
        trials: int,
        prompts: int = 1,
    ) -> None:
        self._models_before = baseline.models
        self._policy = policy
        self._prompt = prompt
        self._first = trials
        self._prompts = prompts
        self._checks = tuple(sorted(baseline.key.judges))
        baselines = {
            case: baseline.find_trials(case, digest) for case, digest in sorted(digests.items())
        }
        self._cases = {
            case: CaseTrials(
                GateCase(prompt=prompt, case=case, checks=self._checks, baseline=trials_before),
                first=trials,
                seeds=0,
            )
            for case, trials_before in baselines.items()
            if trials_before is not None
        }
        self._changes: tuple[CheckChange, ...] = ()

    def rounds(self) -> Iterator[list[tuple[str, int]]]:
        """Cases and trial numbers, from 0; add all results of a round before the next."""
        yield self._request(self._cases, self._first)
        suspects = self._suspects()
        least = self._policy.case.suspect
        for step in self._policy.case.steps:
            self._changes, suspects = self._test(suspects, least=least)
            least = self._policy.case.clear
            if not suspects:
                return
            yield self._request(dict.fromkeys(case for case, _, _ in suspects), step)
        self._changes, _ = self._test(suspects, least=least)

    def add(self, case: str, number: int, facts: TrialFacts | None) -> None:
        """Add a trial; None if it is unmeasured."""
        self._cases[case].add("candidate", number, facts)

    def drift(self, *, models: Collection[str]) -> Drift:
        """The drift over all trials.

        Args:
            models: Models and fingerprints of the new trials.
        """
        before = self._models_before
        is_other_model = bool(before and models) and before.isdisjoint(models)
        now = sum((case.candidate(stop=self._first) for case in self._cases.values()), NO_TRIALS)
        return Drift(
            changes=self._changes,
            before=sum((case.count_baseline() for case in self._cases.values()), NO_TRIALS),
            now=now,
            suite=self._suite() if now.trials else None,
            new_models=tuple(sorted(models)) if is_other_model else (),
        )

    def _request(self, cases: Iterable[str], trials: int) -> list[tuple[str, int]]:
        requests: list[tuple[str, int]] = []
        for case in cases:
            case_trials = self._cases[case]
            numbers = case_trials.request(
                "candidate", case_trials.requested_count("candidate") + trials
            )
            requests += [(case, number) for number in numbers]
        return requests

    def _suspects(self) -> list[tuple[str, str, Direction]]:
        suspects: list[tuple[str, str, Direction]] = []
        for case, case_trials in self._cases.items():
            for check in self._checks:
                before, now = case_trials.count_baseline(check), case_trials.candidate(check)
                is_rare = before.trials > 0 and before.rate <= self._policy.improved_at_most
                if now.failed and before.passed:
                    suspects.append((case, check, "worse"))
                elif now.trials and not now.failed and is_rare:
                    suspects.append((case, check, "better"))
        return suspects

    def _test(
        self, suspects: Sequence[tuple[str, str, Direction]], *, least: float
    ) -> tuple[tuple[CheckChange, ...], list[tuple[str, str, Direction]]]:
        """The certain changes so far, and the suspects that need further trials."""
        changes = list(self._changes)
        open_tests: list[tuple[str, str, Direction]] = []
        family = max(1, len(self._cases) * len(self._checks))
        directions: tuple[Direction, ...] = ("worse", "better")
        for direction in directions:
            tested = [suspect for suspect in suspects if suspect[2] == direction]
            if not tested:
                continue
            before = [self._cases[case].count_baseline(check) for case, check, _ in tested]
            now = [self._cases[case].candidate(check) for case, check, _ in tested]
            evidence = log_e_value(*tallies_of(before), *tallies_of(now), direction=direction)
            named_log_e = [log(c.e_value) for c in changes if c.direction == direction]
            all_log_e = np.concatenate([named_log_e, evidence])
            bound = float(
                e_bh(all_log_e, alpha=self._policy.case.alpha, checks=family).log_bound.item()
            )
            for test, old, new, log_e in zip(tested, before, now, evidence.tolist(), strict=True):
                case, check, _ = test
                if log_e >= bound:
                    changes.append(
                        CheckChange(
                            case=case,
                            check=check,
                            direction=direction,
                            before=old,
                            now=new,
                            e_value=exp(min(log_e, 700.0)),
                            bound=round(exp(bound), 6),
                            since=_SINCE,
                        )
                    )
                elif log_e >= log(least) and not any(self._cases[case].gaps()):
                    open_tests.append(test)
        return tuple(changes), open_tests

    def _suite(self) -> RoundReport:
        cases = list(self._cases.values())
        base = tallies_of([case.count_baseline() for case in cases])
        candidate = tallies_of([case.candidate(stop=self._first) for case in cases])
        graded = graded_checks(cases)
        return RoundReport(
            trials=self._first,
            total_trials=int(candidate[1].sum()),
            fails=int((candidate[1] - candidate[0]).sum()),
            expected=float(expected_failures(*base, candidate[1])),
            p_value=float(suite_p_value(*base, *candidate)),
            bound=_SUITE_ALPHA / self._prompts / (1 + len(graded)),
            scores={
                check: scores_p_value(
                    (self._prompt, check),
                    [case.baseline_scores(check) for case in cases],
                    [case.scores("candidate", check, [range(self._first)]) for case in cases],
                    min_effect=self._policy.min_effect,
                )
                for check in graded
            },
        )
