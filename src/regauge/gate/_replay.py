"""Failures of recorded trials that committed evidence explains, so that they do not fail a run."""

from __future__ import annotations

from collections import defaultdict
from math import log
from typing import TYPE_CHECKING

from regauge.errors import GitError, InvalidFileError
from regauge.evidence import NO_TRIALS, Count
from regauge.gate._commit import base_branch
from regauge.gate._engine import is_flaky
from regauge.gate._trials import CANDIDATE_FIRST, facts_of_trial
from regauge.gate.baselines import baseline_of, key_of, load_baseline, parse_baseline
from regauge.prompts import Repository
from regauge.recordings import RecordingKey
from regauge.runner import PlannedCase, PlannedTrial
from regauge.stats import CasePolicy, log_e_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from regauge.gate._types import BaseTrials
    from regauge.gate.baselines import Baseline, StoredBaseline
    from regauge.runner import Eval, EvalResult, EvalSession, Trial


class ReplayEvidence:
    """Explains failures of recorded trials by the gate's evidence on the same case.

    Otherwise a gate that accepts a flaky case would contradict a replay of its recordings.

    Args:
        session: Session of the run, whose recordings are read.
        environ: Environment that names the base branch of a pull request.
    """

    def __init__(self, session: EvalSession, *, environ: Mapping[str, str]) -> None:
        self._session = session
        self._base_branch = base_branch(environ)
        self._stored_baselines: dict[int, Sequence[StoredBaseline]] = {}
        self._gate_trials: dict[str, dict[str, list[int]]] = {}

    def reason(self, result: EvalResult) -> str:
        """The reason why a failed case does not fail the run; empty if it does.

        The first of these: the committed baseline is flaky; the changelog of this version accepts
        the case; the gate's recorded trials of the request do not break it. A failed live trial
        always counts.
        """
        if any(
            trial.sourced_completion is None or trial.sourced_completion.source == "live"
            for trial in result.trials
        ):
            return ""
        baselines = self._baselines(result)
        for baseline in baselines:
            if is_flaky(baseline.total.passed, baseline.total.trials):
                return f"flaky: the base passes {baseline.total} trials"
        return _accepted_reason(result) or self._not_broken(result, next(iter(baselines), None))

    def _not_broken(self, result: EvalResult, baseline: BaseTrials | None) -> str:
        trials = self._recorded_by_gate(result)
        if not trials:
            return ""
        eval_ = result.eval
        checks = {judge.name for judge in eval_.judges if eval_.status_of(judge).blocking}
        facts = [
            trial_facts
            for trial in trials
            if (trial_facts := facts_of_trial(trial, checks, graded=())) is not None
        ]
        counts = Count.of(trial_facts.passed for trial_facts in facts)
        if not counts.trials:
            return ""
        if baseline is None:
            return f"the gate's trials: passed {counts}" if counts.passed else ""
        evidence = max(
            _log_evidence(
                baseline.checks.get(check, NO_TRIALS),
                [trial_facts.checks.get(check) for trial_facts in facts],
            )
            for check in checks
        )
        bound = log(max(eval_.dataset.size, 1) / CasePolicy().alpha)
        # An e-value below 1 favours the candidate; up to the bound a pass is needed as well, or too
        # few trials would hide a case that always fails.
        if evidence < 0 or (counts.passed and evidence < bound):
            return f"the gate's trials: passed {counts}, on the base {baseline.total}"
        return ""

    def _recorded_by_gate(self, result: EvalResult) -> Sequence[Trial]:
        prompt = result.eval.prompt.name
        numbers = self._gate_trials.get(prompt)
        if numbers is None:
            numbers = self._gate_trials[prompt] = defaultdict(list)
            for key in self._session.completions.file(prompt).keys():  # noqa: SIM118 - no mapping
                if key.trial >= CANDIDATE_FIRST:
                    numbers[key.digest].append(key.trial)
        digest = result.trials[0].request_digest
        planned_case = PlannedCase(result.eval, result.case)
        recorded = set(numbers.get(digest, ()))
        if planned_case.converses:  # each of its calls has a digest
            completions = self._session.completions
            gate_numbers = {number for case_numbers in numbers.values() for number in case_numbers}
            recorded = {
                n for n in gate_numbers if completions.has(planned_case, RecordingKey(digest, n))
            }
        return self._session.replay(
            [PlannedTrial(planned_case, number) for number in sorted(recorded)]
        )

    def _baselines(self, result: EvalResult) -> Sequence[BaseTrials]:
        """The case under this version and, until its baseline is complete, the one before."""
        eval_, case = result.eval, result.case
        if id(eval_) not in self._stored_baselines:
            baseline, key = self._baseline(eval_), key_of(eval_)
            stored_baselines = (
                (baseline.find(key), baseline.find_previous(key)) if baseline is not None else ()
            )
            self._stored_baselines[id(eval_)] = [
                stored_baseline
                for stored_baseline in stored_baselines
                if stored_baseline is not None
            ]
        baselines = [
            stored_baseline.find_trials(case.id, case.digest)
            for stored_baseline in self._stored_baselines[id(eval_)]
        ]
        return [stored_baseline for stored_baseline in baselines if stored_baseline is not None]

    def _baseline(self, eval_: Eval) -> Baseline | None:
        """The committed baseline; in a pull request the base's, as the author could edit it."""
        try:
            return baseline_of(self._session.project, eval_, read=self._committed)[0]
        except InvalidFileError:
            return None  # reported by `lint` and the gate

    def _committed(self, path: Path) -> Baseline | None:
        project = self._session.project
        place = project.relative(path)
        repository = Repository.find(project.root)
        if repository is None or not repository.has_commits():
            return load_baseline(path, place=place)
        commit = "HEAD"
        if self._base_branch:
            try:
                commit = repository.merge_base(f"origin/{self._base_branch}")
            except GitError:
                return None
        data = repository.read(commit, repository.inside(path))
        return parse_baseline(data, place=place) if data is not None else None


def _accepted_reason(result: EvalResult) -> str:
    version = result.eval.version
    reasons = [
        accepted.reason
        for entry in result.eval.prompt.changelog
        if entry.version == version
        for accepted in entry.accepted
        if accepted.case == result.case.id
    ]
    return f"accepted in {version}: {reasons[0]}" if reasons else ""


def _log_evidence(base: Count, outcomes: Sequence[bool | None]) -> float:
    count = Count.of(outcomes)
    return float(log_e_value(base.passed, base.trials, count.passed, count.trials).item())
