"""Trials, verdicts, refiner calls and the gate, on a real prompt."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from regauge.digests import digest_of
from regauge.errors import (
    BudgetError,
    JudgeError,
    PromptError,
    ProviderError,
    RecordingError,
    RegaugeError,
    UnmeasuredError,
)
from regauge.gate import (
    CONTROL_FIRST,
    EVALS_FIRST,
    BaseTrials,
    Gate,
    GateCase,
    GatePolicy,
    TrialFacts,
    tier_held,
)
from regauge.providers import limit_reached
from regauge.refine.analysis import CheckOutcome, Outcome
from regauge.refine.edits import EditError, apply
from regauge.refine.loop._plan import model_calls_left
from regauge.refine.loop._state import (
    CritiqueResult,
    Interrupted,
    ProposalResult,
    RevisionDecision,
    Spending,
    TrialPlan,
    TrialResults,
)
from regauge.refine.problem import problem_of, redact_feedback
from regauge.refine.proposers.model import ProposerCalls, request_critique, request_edits
from regauge.refine.subject import CandidateTargets, cases_of, deciding_judges, public_texts
from regauge.runner import PlannedCase, PlannedTrial

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from regauge.gate import CaseTier, GateOutcome, Side
    from regauge.prompts import Prompt
    from regauge.refine.analysis import Tally
    from regauge.refine.edits import Edit, PromptText
    from regauge.refine.feedback import FeedbackRemark
    from regauge.refine.loop._state import CallProposer, LoopConfig, LoopState, RunGate
    from regauge.refine.proposers._protocol import Problem, Proposer
    from regauge.refine.subject import Subject
    from regauge.runner import EvalSession, Trial, TrialRunner


async def outcomes_of(
    evals: EvalSession, planned_cases: Sequence[PlannedCase], trials: int
) -> tuple[list[Outcome], list[UnmeasuredError]]:
    """Trials of every planned case, and the errors of unmeasured ones."""
    async with evals.open_trials() as trials_run:
        draws = [PlannedTrial(case, number) for case in planned_cases for number in range(trials)]
        results = await trials_run.run_all(draws)
    outcomes: list[Outcome] = []
    for draw, trial in zip(draws, results, strict=True):
        if trial.error is None:
            eval_ = draw.planned_case.eval
            case = f"{eval_.dataset.name}/{draw.planned_case.case.id}"
            outcomes.append(outcome_of(eval_.prompt, eval_.prompt.digest, case, draw.trial, trial))
    return outcomes, [trial.error for trial in results if trial.error is not None]


def outcome_of(prompt: Prompt, text: str, case: str, number: int, trial: Trial) -> Outcome:
    """A measured trial as an outcome of the loop."""
    assert trial.sourced_completion is not None
    completion = trial.sourced_completion.completion
    return Outcome(
        text=text,
        case=case,
        trial=number,
        output=completion.text or "",
        is_cut_off=completion.is_cut_off,
        limit=limit_reached(completion, prompt.parameters),
        checks=tuple(
            CheckOutcome(
                check=verdict.judge,
                passed=verdict.verdict.outcome == "pass",
                code="" if verdict.verdict.outcome == "pass" else verdict.verdict.code,
                reason="" if verdict.verdict.outcome == "pass" else verdict.verdict.reason,
            )
            for verdict in trial.verdicts
            if verdict.blocking and verdict.verdict.outcome != "abstain"
        ),
    )


def trial_spending(trial: Trial) -> Spending:
    """The calls of a trial, and their first cost.

    Completions from the local store count, too: a resumed run has paid for them.
    """
    judge_calls = [verdict.calls for verdict in trial.verdicts if verdict.calls]
    usd = 0.0
    if trial.sourced_completion is not None and trial.sourced_completion.source != "recording":
        usd = trial.sourced_completion.completion.cost_usd or 0.0
        usd += sum(calls.cost_usd or 0.0 for calls in judge_calls)
    return Spending(calls=1, judge_calls=sum(calls.calls for calls in judge_calls), usd=usd)


def count_replayed(trial: Trial) -> int:
    """The number of replayed calls of a trial and its judges."""
    is_replayed = trial.sourced_completion is not None and trial.sourced_completion.source != "live"
    return is_replayed + sum(
        verdict.calls.calls - verdict.calls.live for verdict in trial.verdicts if verdict.calls
    )


_PROMPT = "revision"


async def verify_by_gate(
    state: LoopState,
    action: RunGate,
    run_trials: Callable[[Sequence[TrialPlan]], Awaitable[TrialResults | Interrupted]],
    *,
    policy: GatePolicy | None = None,
    tiers: Mapping[str, CaseTier] | None = None,
) -> RevisionDecision | Interrupted:
    """Compare the revision with the base, on independent trials of train and held-out cases.

    The base's trials selected the failures and not the edits, so they may serve as a baseline.
    Trials from an earlier comparison are not run again.
    """
    cases = [
        GateCase(
            prompt=_PROMPT,
            case=case,
            checks=checks,
            baseline=_baseline(state.tally, state.config.base, case, checks),
            tier=tier_held(
                (tiers or {}).get(case, "required"),
                state.tally.case_count(state.config.base.digest, case),
                1,
            ),
        )
        for case in state.config.cases
        if (checks := state.tally.checks(state.config.base.digest, [case]))
    ]
    gate = Gate(cases, _without_repairs(policy or GatePolicy()))
    spending = Spending()
    outcomes: list[Outcome] = []
    by_trial = {
        (o.text, o.case, o.trial): o
        for outcomes in state.fresh.counted_outcomes.values()
        for o in outcomes
    }
    texts: dict[Side, PromptText] = {"candidate": state.text, "base": state.config.base}
    while requests := gate.pending_trials():
        trials: list[tuple[str, Side, int]] = [
            (want.case, want.side, number) for want in requests for number in want.trials
        ]
        draws: list[TrialPlan] = []
        for side, text in texts.items():
            pairs = [(case, _stored_number(side, n)) for case, its, n in trials if its == side]
            new_pairs = tuple(pair for pair in pairs if (text.digest, *pair) not in by_trial)
            draws.append(TrialPlan(text=text, trials=new_pairs))
        missing = sum(len(run_trials.trials) for run_trials in draws)
        if spending.calls + missing > action.calls_max:
            return RevisionDecision(
                decision="undecided",
                reasons=(f"{action.calls_max} calls were left, and the gate wants more",),
                outcomes=tuple(outcomes),
                spending=spending,
                short=True,
            )
        if missing:
            done = await run_trials(draws)
            if isinstance(done, Interrupted):
                return done
            spending += done.spending
            outcomes += done.outcomes
            by_trial |= {(o.text, o.case, o.trial): o for o in done.outcomes}
        for case, side, number in trials:
            outcome = by_trial.get((texts[side].digest, case, _stored_number(side, number)))
            gate.observe(_PROMPT, case, side, number, _facts(outcome))
    gate_outcome = gate.outcome()
    return RevisionDecision(
        decision=gate_outcome.decision,
        reasons=_words(gate_outcome),
        outcomes=tuple(outcomes),
        spending=spending,
    )


def _stored_number(side: Side, number: int) -> int:
    """The number of the n-th trial of a side.

    Later evals of the revision replay these trials; its later gate runs trials of its own.
    """
    return number + (CONTROL_FIRST if side == "base" else EVALS_FIRST)


def _without_repairs(policy: GatePolicy) -> GatePolicy:
    """The gate's policy for broken cases: fixes outweigh none of them.

    The base's trials are of this run, so there is no outage to detect.
    """
    first = 1 if policy.first_trials == "auto" else policy.first_trials
    suite = replace(policy.suite, control=0)
    return replace(
        policy, improved_at_most=-1.0, on_broken="block", first_trials=first, suite=suite
    )


def _baseline(tally: Tally, base: PromptText, case: str, checks: Sequence[str]) -> BaseTrials:
    outcomes = tally.outcomes(base.digest, case)
    return BaseTrials(
        checks={check: tally.count(base.digest, case, check) for check in checks},
        total=tally.case_count(base.digest, case),
        distinct_outputs=len({outcome.output for outcome in outcomes}),
    )


def _facts(outcome: Outcome | None) -> TrialFacts | None:
    if outcome is None or not outcome.checks:
        return None
    return TrialFacts(
        checks={check.check: check.passed for check in outcome.checks},
        output_digest=digest_of(outcome.output),
    )


def _words(outcome: GateOutcome) -> tuple[str, ...]:
    changes = [
        f"{case.case}: passed {case.candidate} new trials, {case.before} before ({case.status})"
        for case in outcome.cases
        if case.status in {"broken", "undecided", "drifted", "unmeasured"}
    ]
    suites = [f"all cases together: {suite.status}" for suite in outcome.suites]
    return tuple(
        changes
        + [text for text in suites if not text.endswith(("passed", "untested", "unconfirmed"))]
    )


# Up to this share of a batch may be unmeasured before a provider counts as down.
_UNMEASURED_MAX = 0.1


@dataclass(kw_only=True)
class EvalWorkbench:
    """Runs and judges trials of a prompt's evals, with any text."""

    subject: Subject
    config: LoopConfig
    show_expected: bool
    trials: TrialRunner
    proposers: Mapping[str, Proposer]
    policy: GatePolicy
    replayed_calls: int = 0

    def __post_init__(self) -> None:
        self._planned_cases: dict[tuple[str, str, str | None], PlannedCase] = {}
        self._targets = CandidateTargets()

    async def run_trials(self, plans: Sequence[TrialPlan]) -> TrialResults | Interrupted:
        """Run and judge trials; unmeasured ones are left out."""
        requests = [
            (plan.text, case, number, plan.check) for plan in plans for case, number in plan.trials
        ]
        try:
            results = await asyncio.gather(*(self._run_trial(*want) for want in requests))
        except PromptError as error:
            return Interrupted(reason="interrupted", text=str(error))
        failed = [trial.error for trial in results if trial.error is not None]
        for cause in (error.__cause__ for error in failed):
            if isinstance(cause, RecordingError):  # no further completion can be kept
                raise cause
        if failed and len(failed) > max(1, _UNMEASURED_MAX * len(results)):
            share = f"{len(failed)} of {len(results)}"
            text = f"{share} trials could not be measured: {_describe_error(failed[0])}"
            return _interrupted(failed[0], text)
        outcomes = [
            outcome_of(self.subject.prompt, text.digest, case, number, trial)
            for (text, case, number, _), trial in zip(requests, results, strict=True)
            if trial.error is None
        ]
        await self._check_targets(requests, results)
        self.replayed_calls += sum(map(count_replayed, results))
        return TrialResults(
            outcomes=tuple(outcomes),
            spending=sum(map(trial_spending, results), Spending()),
            problem=_describe_error(failed[0]) if failed else "",
        )

    def close(self) -> None:
        """Remove the texts that were written for targets."""
        self._targets.close()

    async def _check_targets(
        self, requests: Sequence[tuple[PromptText, str, int, str | None]], results: Sequence[Trial]
    ) -> None:
        """Check that targets loaded the texts, and end their processes: each text has its own.

        Raises:
            UsageError: A target did not load a text.
        """
        targets = {
            target
            for (text, case, _, check), trial in zip(requests, results, strict=True)
            if trial.sourced_completion is not None
            and trial.sourced_completion.source == "live"
            and (target := self._planned_cases[text.digest, case, check].eval.target) is not None
        }
        for target in targets:
            await self.trials.end_target(target)
        for target in targets:
            target.check_candidate_loaded()

    async def call_proposer(
        self, state: LoopState, action: CallProposer
    ) -> CritiqueResult | ProposalResult | Interrupted:
        """Call a proposer; edits that would break the prompt's file are rejected here."""
        proposer = self.proposers[action.proposer]
        calls = ProposerCalls.of_trials(
            self.trials, self.subject.prompt, command="refine", calls_max=model_calls_left(state)
        )
        try:
            match action.kind:
                case "critique":
                    return await request_critique(proposer, self._problem(state, action), calls)
                case "edits":
                    proposal = await request_edits(proposer, self._problem(state, action), calls)
                    return self._readable(state.text, proposal)
        except UnmeasuredError as error:
            return _interrupted(error, str(error))
        except Exception as error:  # noqa: BLE001 - proposers may be anybody's
            text = f"{action.proposer} broke: {type(error).__name__}: {error}"
            if action.kind == "edits":
                return ProposalResult(edits=(), spending=Spending(), refused=(text,))
            return Interrupted(reason="interrupted", text=text)
        finally:
            self.replayed_calls += calls.replayed_calls

    async def verify(self, state: LoopState, action: RunGate) -> RevisionDecision | Interrupted:
        """Compare the revision with the base by the gate."""
        tiers: dict[str, CaseTier] = {
            name: member.case.tier for name, member in self.subject.members.items()
        }
        return await verify_by_gate(state, action, self.run_trials, policy=self.policy, tiers=tiers)

    async def _run_trial(
        self, text: PromptText, case: str, number: int, check: str | None
    ) -> Trial:
        if (text.digest, case, check) not in self._planned_cases:
            self._plan(text, check)
        return await self.trials.run(
            PlannedTrial(self._planned_cases[text.digest, case, check], number)
        )

    def _plan(self, text: PromptText, check: str | None) -> None:
        """Plan the cases with a text; its file is spliced and read back once.

        Advisory judges, and LLM judges of other checks, would call models for nothing.
        """
        prompt = self.subject.prompt
        if text.digest != self.config.base.digest:
            prompt = self.subject.prompt_with(text)
        evals = {id(member.eval): member.eval for member in self.subject.members.values()}
        candidates = {
            key: replace(
                self._targets.with_prompt(eval_, prompt), judges=deciding_judges(eval_, check)
            )
            for key, eval_ in evals.items()
        }
        for name, member in self.subject.members.items():
            planned_case = PlannedCase(candidates[id(member.eval)], member.case)
            self._planned_cases[text.digest, name, check] = planned_case

    def _problem(self, state: LoopState, action: CallProposer) -> Problem:
        return problem_of(
            state,
            {name: member.case for name, member in self.subject.members.items()},
            released=self.subject.released_texts,
            examples=self.subject.examples,
            feedback=self._hints if action.proposer in self.config.critics else (),
            show_expected=self.show_expected,
            schema=json.dumps(self.subject.prompt.response_format, ensure_ascii=False),
            run_trials=self.run_trials,
        )

    @cached_property
    def _hints(self) -> tuple[FeedbackRemark, ...]:
        """The remarks of users; a run without models does not use them."""
        subject, config = self.subject, self.config
        return redact_feedback(
            subject.feedback.evidence,
            cases_of(subject.members, "train"),
            cases_of(subject.members, "holdout"),
            public=(config.base.full_text, *public_texts(subject, config.checks.values())),
            policy=config.policy.guard,
            show_expected=self.show_expected,
        )

    def _readable(self, text: PromptText, proposal: ProposalResult) -> ProposalResult:
        """The proposals without edits whose text the prompt's file cannot hold."""
        readable: list[Edit] = []
        refused = list(proposal.refused)
        for edit in proposal.edits:
            try:
                self.subject.prompt_with(apply(text, edit.ops))
            except EditError:
                readable.append(edit)  # the loop reports it
            except RegaugeError as error:
                refused.append(f"{edit.strategy}: the file could not hold it: {error}")
            else:
                readable.append(edit)
        return replace(proposal, edits=tuple(readable), refused=tuple(refused))


def _describe_error(error: Exception) -> str:
    """An error of a trial, with the fix if the code of a judge raised it."""
    if isinstance(error, JudgeError) and error.traceback:
        return f"{error}\n  fix: correct judge {error.judge!r}"
    return str(error)


def _interrupted(error: Exception, text: str) -> Interrupted:
    if isinstance(error, BudgetError):
        return Interrupted(reason=error.limit, text=text)
    # A judge's error has that of its provider as its cause.
    cause = error if isinstance(error, ProviderError) else error.__cause__
    if not isinstance(cause, ProviderError):
        return Interrupted(reason="unmeasured", text=text)
    is_key = cause.kind == "authentication"
    return Interrupted(reason="no-key" if is_key else "provider-outage", text=text)
