"""Trials, judgements, refiner calls and the gate, performed on a real prompt."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from regauge.digests import digest_of
from regauge.errors import (
    BudgetError,
    PromptError,
    ProviderError,
    RecordingError,
    RegaugeError,
    UnmeasuredError,
)
from regauge.gate import (
    CONTROL_FIRST,
    EVALS_FIRST,
    Gate,
    GateCase,
    GatePolicy,
    History,
    TrialFacts,
    tier_held,
)
from regauge.refine.analysis import CheckOutcome, Outcome
from regauge.refine.edits import EditError, apply
from regauge.refine.loop._state import (
    Critiqued,
    Draws,
    Interrupted,
    Looked,
    Proposed,
    Spent,
    SuiteSaid,
    TrialsDone,
)
from regauge.refine.proposers._calls import criticised, looked, proposed
from regauge.refine.proposers._context import hints_of, problem_of
from regauge.refine.subject import cases_of, deciding_judges, public_of
from regauge.runner import Draw, PlannedCase, Question

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Container, Mapping, Sequence

    from regauge.gate import Arm, CaseTier, GateOutcome
    from regauge.prompts import Prompt
    from regauge.providers import Completion, CompletionRequest
    from regauge.refine.analysis import Tally
    from regauge.refine.edits import Edit, PromptText
    from regauge.refine.feedback import Evidence
    from regauge.refine.loop._state import AskProposer, RunSuite, Setting, State
    from regauge.refine.proposers._protocol import Problem, Proposer
    from regauge.refine.subject import Subject
    from regauge.runner import EvalSession, Suite, Trial, Trials
    from regauge.targets import Target


async def outcomes_of(
    evals: EvalSession, planned: Sequence[PlannedCase], trials: int
) -> tuple[list[Outcome], list[UnmeasuredError]]:
    """So many trials of every planned case, and why some could not be measured."""
    async with evals.making() as made_by:
        draws = [Draw(case, number) for case in planned for number in range(trials)]
        made = await asyncio.gather(*(made_by.make(draw) for draw in draws))
    outcomes: list[Outcome] = []
    for draw, trial in zip(draws, made, strict=True):
        if trial.error is None:
            suite = draw.planned.suite
            case = f"{suite.dataset.name}/{draw.planned.case.id}"
            outcomes.append(outcome_of(suite.prompt.digest, case, draw.trial, trial))
    return outcomes, [trial.error for trial in made if trial.error is not None]


def outcome_of(text: str, case: str, number: int, trial: Trial) -> Outcome:
    """A measured trial as the loop counts it."""
    assert trial.answer is not None
    return Outcome(
        text=text,
        case=case,
        trial=number,
        answer=trial.answer.completion.text or "",
        checks=tuple(
            CheckOutcome(
                check=judged.judge,
                passed=judged.verdict.outcome == "pass",
                code="" if judged.verdict.outcome == "pass" else judged.verdict.code,
                reason="" if judged.verdict.outcome == "pass" else judged.verdict.reason,
            )
            for judged in trial.verdicts
            if judged.gates and judged.verdict.outcome != "abstain"
        ),
    )


def spent_on(trial: Trial) -> Spent:
    """The calls of a trial, and what they cost when they were made.

    Answers that the local store had cost, too: a run that was cut off and resumed has paid them.
    """
    judged = [verdict.calls for verdict in trial.verdicts if verdict.calls]
    usd = 0.0
    if trial.answer is not None and trial.answer.source != "recording":
        usd = trial.answer.completion.cost_usd or 0.0
        usd += sum(calls.cost_usd or 0.0 for calls in judged)
    return Spent(calls=1, judge_calls=sum(calls.calls for calls in judged), usd=usd)


def replayed_calls(trial: Trial) -> int:
    """The number of a trial's calls, with its judges', that were made before."""
    own = trial.answer is not None and trial.answer.source != "live"
    return own + sum(
        verdict.calls.calls - verdict.calls.live for verdict in trial.verdicts if verdict.calls
    )


_PROMPT = "revision"


async def verify_by_gate(
    setting: Setting,
    state: State,
    action: RunSuite,
    draw: Callable[[Sequence[Draws]], Awaitable[TrialsDone | Interrupted]],
    *,
    policy: GatePolicy | None = None,
    tiers: Mapping[str, CaseTier] | None = None,
) -> SuiteSaid | Interrupted:
    """Compare the revision with the base, on fresh trials of train and holdout alike.

    The base's trials chose what was to be repaired and not how, so they may serve as history.
    Fresh trials that are known from an earlier comparison are not drawn again.
    """
    cases = [
        GateCase(
            prompt=_PROMPT,
            case=case,
            checks=checks,
            history=_history(state.tally, setting.base, case, checks),
            tier=tier_held(
                (tiers or {}).get(case, "required"), state.tally.whole(setting.base.digest, case), 1
            ),
        )
        for case in (*setting.train, *setting.holdout)
        if (checks := state.tally.checks(setting.base.digest, [case]))
    ]
    gate = Gate(cases, _without_repairs(policy or GatePolicy()))
    spent = Spent()
    outcomes: list[Outcome] = []
    found = {(o.text, o.case, o.trial): o for known in state.fresh.seen.values() for o in known}
    texts: dict[Arm, PromptText] = {"candidate": state.text, "main": setting.base}
    while wanted := gate.wanted():
        trials: list[tuple[str, Arm, int]] = [
            (want.case, want.arm, number) for want in wanted for number in want.trials
        ]
        draws = [_unknown(arm, text, trials, found) for arm, text in texts.items()]
        missing = sum(len(one.trials) for one in draws)
        if spent.calls + missing > action.calls_max:
            return SuiteSaid(
                decision="undecided",
                reasons=(f"{action.calls_max} calls were left, and the gate wants more",),
                outcomes=tuple(outcomes),
                spent=spent,
                short=True,
            )
        if missing:
            done = await draw(draws)
            if isinstance(done, Interrupted):
                return done
            spent += done.spent
            outcomes += done.outcomes
            found |= {(o.text, o.case, o.trial): o for o in done.outcomes}
        for case, arm, number in trials:
            outcome = found.get((texts[arm].digest, case, _stored_number(arm, number)))
            gate.observe(_PROMPT, case, arm, number, _facts(outcome))
    said = gate.outcome()
    return SuiteSaid(
        decision=said.decision,
        reasons=_words(said),
        outcomes=tuple(outcomes),
        spent=spent,
    )


def _unknown(
    arm: Arm,
    text: PromptText,
    trials: Sequence[tuple[str, Arm, int]],
    found: Container[tuple[str, str, int]],
) -> Draws:
    """The trials of one arm that the gate requests and that do not exist yet."""
    wanted = [(case, _stored_number(asked, n)) for case, asked, n in trials if asked == arm]
    return Draws(
        text=text,
        trials=tuple((case, n) for case, n in wanted if (text.digest, case, n) not in found),
    )


def _stored_number(arm: Arm, number: int) -> int:
    """The number of the n-th trial of an arm.

    The revision's are those that evals replay once it is taken; the gate that it then has to
    pass makes trials of its own.
    """
    return number + (CONTROL_FIRST if arm == "main" else EVALS_FIRST)


def _without_repairs(policy: GatePolicy) -> GatePolicy:
    """The same policy for what is broken: fixes were tested before, and outweigh nothing here.

    The base's trials are of this very run, so there is no outage to look for.
    """
    first = 1 if policy.first_draws == "auto" else policy.first_draws
    suite = replace(policy.suite, control=0)
    return replace(policy, improved_at_most=-1.0, on_broken="block", first_draws=first, suite=suite)


def _history(tally: Tally, base: PromptText, case: str, checks: Sequence[str]) -> History:
    known = tally.since(base.digest, case, 0)
    return History(
        checks={check: tally.check(base.digest, case, check) for check in checks},
        whole=tally.whole(base.digest, case),
        distinct_answers=len({outcome.answer for outcome in known}),
    )


def _facts(outcome: Outcome | None) -> TrialFacts | None:
    if outcome is None or not outcome.checks:
        return None
    return TrialFacts(
        checks={said.check: said.passed for said in outcome.checks},
        answer=digest_of(outcome.answer),
    )


def _words(said: GateOutcome) -> tuple[str, ...]:
    named = [
        f"{case.case}: passed {case.candidate} new trials, {case.before} before ({case.verdict})"
        for case in said.cases
        if case.verdict in {"broken", "undecided", "drifted"}
    ]
    suites = [f"all cases together: {suite.verdict}" for suite in said.suites]
    return tuple(
        named
        + [text for text in suites if not text.endswith(("passed", "untested", "unconfirmed"))]
    )


# Up to this share of a batch may be unmeasured before a provider counts as down.
_UNMEASURED_MAX = 0.1


@dataclass(kw_only=True)
class SuiteBench:
    """Draws trials of a prompt's evals, whatever its text, and lets their judges judge."""

    subject: Subject
    setting: Setting
    show_goldens: bool
    trials: Trials
    proposers: Mapping[str, Proposer]
    policy: GatePolicy
    replayed: int = 0

    def __post_init__(self) -> None:
        self._planned: dict[tuple[str, str, str | None], PlannedCase] = {}
        self._targets: dict[tuple[str, int], Target] = {}
        self._directories = ExitStack()

    async def draw(self, draws: Sequence[Draws]) -> TrialsDone | Interrupted:
        """Draw and judge trials; what could not be measured is missing from the answer."""
        wanted = [
            (one.text, case, number, one.check) for one in draws for case, number in one.trials
        ]
        try:
            made = await asyncio.gather(*(self._make(*want) for want in wanted))
        except PromptError as error:
            return Interrupted(reason="interrupted", text=str(error))
        failed = [trial.error for trial in made if trial.error is not None]
        for cause in (each.__cause__ for each in failed):
            if isinstance(cause, RecordingError):  # no further completion can be kept
                raise cause
        if failed and len(failed) > max(1, _UNMEASURED_MAX * len(made)):
            text = f"{len(failed)} of {len(made)} trials could not be measured: {failed[0]}"
            return _interrupted(failed[0], text)
        outcomes = [
            outcome_of(text.digest, case, number, trial)
            for (text, case, number, _), trial in zip(wanted, made, strict=True)
            if trial.error is None
        ]
        await self._check_targets(wanted, made)
        self.replayed += sum(map(replayed_calls, made))
        return TrialsDone(outcomes=tuple(outcomes), spent=sum(map(spent_on, made), Spent()))

    def close(self) -> None:
        """Remove the texts that were written for targets."""
        self._directories.close()

    async def _check_targets(
        self, wanted: Sequence[tuple[PromptText, str, int, str | None]], made: Sequence[Trial]
    ) -> None:
        """See that targets loaded the texts, and end their processes: each text has its own.

        Raises:
            UsageError: A target did not load a text.
        """
        called = {
            target
            for (text, case, _, check), trial in zip(wanted, made, strict=True)
            if trial.answer is not None
            and trial.answer.source == "live"
            and (target := self._planned[text.digest, case, check].suite.target) is not None
        }
        for target in called:
            await self.trials.end_target(target)
        for target in called:
            target.check_candidate_loaded()

    async def ask(
        self, state: State, action: AskProposer
    ) -> Looked | Critiqued | Proposed | Interrupted:
        """Ask a proposer; edits that would break the prompt's file are refused here."""
        proposer = self.proposers[action.proposer]
        made = (self._ask, self._forget)
        try:
            match action.what:
                case "look":
                    return await looked(proposer, self.setting.policy.limits.model_calls, *made)
                case "critique":
                    return await criticised(proposer, self._problem(state, action), *made)
                case "edits":
                    said = await proposed(proposer, self._problem(state, action), *made)
                    return self._readable(state.text, said)
        except UnmeasuredError as error:
            return _interrupted(error, str(error))
        except Exception as error:  # noqa: BLE001 - proposers may be anybody's
            text = f"{action.proposer} broke: {type(error).__name__}: {error}"
            if action.what == "edits":
                return Proposed(edits=(), spent=Spent(), refused=(text,))
            return Interrupted(reason="interrupted", text=text)

    async def verify(self, state: State, action: RunSuite) -> SuiteSaid | Interrupted:
        """Let the gate compare the revision with the base."""
        tiers: dict[str, CaseTier] = {
            name: member.case.tier for name, member in self.subject.members.items()
        }
        return await verify_by_gate(
            self.setting, state, action, self.draw, policy=self.policy, tiers=tiers
        )

    async def _make(self, text: PromptText, case: str, number: int, check: str | None) -> Trial:
        planned = self._planned.get((text.digest, case, check))
        if planned is None:
            planned = self._plan(text, case, check)
        return await self.trials.make(Draw(planned, number))

    def _plan(self, text: PromptText, wanted: str, check: str | None) -> PlannedCase:
        """The cases under a text; its file is spliced and read back once.

        Judges that are advisory, or LLM judges of other checks, would call models for nothing.
        """
        prompt = self.subject.prompt
        if text.digest != self.setting.base.digest:
            prompt = self.subject.prompt_with(text)
        suites = {
            id(member.suite): replace(
                self._suite(member.suite, prompt, text),
                judges=deciding_judges(member.suite, check),
            )
            for member in self.subject.members.values()
        }
        for name, member in self.subject.members.items():
            planned = PlannedCase(suites[id(member.suite)], member.case)
            self._planned[text.digest, name, check] = planned
        return self._planned[text.digest, wanted, check]

    def _suite(self, suite: Suite, prompt: Prompt, text: PromptText) -> Suite:
        """A suite under a text: its prompt has it, or its target loads it."""
        if suite.target is None:
            return replace(suite, prompt=prompt)
        key = (text.digest, id(suite))
        target = self._targets.get(key)
        if target is None:
            made = TemporaryDirectory(prefix="regauge-candidate-")
            directory = Path(self._directories.enter_context(made))
            target = self._targets[key] = suite.target.with_candidate(prompt, directory)
        subject = target.subject(suite.prompt.name, path=suite.prompt.path)
        return replace(suite, prompt=subject, target=target)

    def _problem(self, state: State, action: AskProposer) -> Problem:
        return problem_of(
            self.setting,
            state,
            {name: member.case for name, member in self.subject.members.items()},
            released=self.subject.released,
            examples=self.subject.examples,
            people=self._hints if action.proposer in self.setting.critics else (),
            show_goldens=self.show_goldens,
            schema=json.dumps(self.subject.prompt.response_format, ensure_ascii=False),
            draw=self.draw,
        )

    @cached_property
    def _hints(self) -> tuple[Evidence, ...]:
        """The remarks of users; a run without models does not use them."""
        subject, setting = self.subject, self.setting
        return hints_of(
            subject.feedback.said,
            cases_of(subject.members, "train"),
            cases_of(subject.members, "holdout"),
            public=(setting.base.whole, *public_of(subject, setting.checks.values())),
            policy=setting.policy.guard,
            show_goldens=self.show_goldens,
        )

    async def _ask(self, request: CompletionRequest) -> Completion:
        answer = await self.trials.answer(self._question(request))
        self.replayed += answer.source != "live"
        return answer.completion

    def _forget(self, request: CompletionRequest) -> None:
        self.trials.forget(self._question(request))

    def _question(self, request: CompletionRequest) -> Question:
        return Question.of_refiner(request, prompt=self.subject.prompt, command="refine")

    def _readable(self, text: PromptText, proposed: Proposed) -> Proposed:
        """Without edits whose text the prompt's file cannot hold."""
        kept: list[Edit] = []
        refused = list(proposed.refused)
        for edit in proposed.edits:
            try:
                self.subject.prompt_with(apply(text, edit.ops))
            except EditError:
                kept.append(edit)  # the loop says so itself
            except RegaugeError as error:
                refused.append(f"{edit.strategy}: the file could not hold it: {error}")
            else:
                kept.append(edit)
        return replace(proposed, edits=tuple(kept), refused=tuple(refused))


def _interrupted(error: Exception, text: str) -> Interrupted:
    if isinstance(error, BudgetError):
        return Interrupted(reason="calls" if error.limit == "calls" else "usd", text=text)
    if isinstance(error, ProviderError) and error.kind == "authentication":
        return Interrupted(reason="no-key", text=text)
    return Interrupted(reason="provider-outage", text=text)
