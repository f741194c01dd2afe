"""What a run works with on a real prompt: its evals' trials, its proposers, the gate."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from regauge.errors import (
    BudgetError,
    PromptError,
    ProviderError,
    RecordingError,
    RegaugeError,
    UnmeasuredError,
)
from regauge.recordings import RecordingKey
from regauge.refine.edits import EditError, apply
from regauge.refine.loop import Critiqued, Interrupted, Looked, Proposed, Spent, TrialsDone
from regauge.refine.proposers import Looks, criticised, looked, problem_of, proposed
from regauge.refine.proposers._asking import NoCallsLeftError, ProposerCalls
from regauge.refine.workbench._outcomes import (
    deciding_judges,
    judge_calls_of,
    outcome_of,
    replayed_calls,
    usd_of,
)
from regauge.refine.workbench._people import hints_for
from regauge.refine.workbench._suite import verify_by_gate
from regauge.runner import Draw, PlannedCase, Question

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.gate import CaseTier, GatePolicy
    from regauge.providers import Completion, CompletionRequest
    from regauge.refine.edits import Edit, PromptText
    from regauge.refine.feedback import Evidence
    from regauge.refine.loop import (
        AskCritique,
        AskProposals,
        Draws,
        Look,
        RunSuite,
        Setting,
        State,
        SuiteSaid,
    )
    from regauge.refine.proposers import Problem, Proposer
    from regauge.refine.workbench._setting import RunOptions
    from regauge.refine.workbench._subject import Subject
    from regauge.runner import Trial, Trials

__all__ = ["SuiteBench"]

# Up to this share of a batch may be unmeasured before a provider counts as down.
_UNMEASURED_MAX = 0.1


class _CannotGoOnError(Exception):
    """Nothing more can be drawn."""

    def __init__(self, told: Interrupted) -> None:
        super().__init__(told.text)
        self.told = told


class SuiteBench:
    """Draws trials of a prompt's evals, whatever its text, and lets their judges judge.

    Args:
        subject: The prompt and its cases.
        setting: What the run is about.
        options: Who proposes.
        trials: Makes trials; every answer is in the local store the moment it lands.
        proposers: By name.
        policy: What the project holds its gate to.

    Attributes:
        replayed: How many of the calls of this sitting had been made before.
    """

    def __init__(
        self,
        subject: Subject,
        setting: Setting,
        options: RunOptions,
        *,
        trials: Trials,
        proposers: Mapping[str, Proposer],
        policy: GatePolicy,
    ) -> None:
        self._subject = subject
        self._proposers = proposers
        self._setting = setting
        self._options = options
        self._trials = trials
        self._policy = policy
        self._planned: dict[tuple[str, str, str | None], PlannedCase] = {}
        self.replayed = 0

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
        self.replayed += sum(map(replayed_calls, made))
        spent = Spent(
            calls=len(made),
            judge_calls=sum(map(judge_calls_of, made)),
            usd=sum(map(usd_of, made)),
        )
        return TrialsDone(outcomes=tuple(outcomes), spent=spent)

    async def look(self, action: Look) -> Looked | Interrupted:
        """See whether the model that proposes can be read."""
        proposer = self._proposers[action.proposer]
        assert isinstance(proposer, Looks)
        calls = ProposerCalls(self._ask, self._options.model_calls, self._forget)
        try:
            return await looked(proposer, calls)
        except NoCallsLeftError:
            return Looked(proposer=proposer.name, fault="", spent=calls.spent)
        except UnmeasuredError as error:
            return _interrupted(error, str(error))

    async def criticise(self, state: State, action: AskCritique) -> Critiqued | Interrupted:
        """Ask why a cluster fails."""
        try:
            return await criticised(
                self._proposers[action.proposer],
                self._problem(state, action),
                self._ask,
                self._forget,
            )
        except UnmeasuredError as error:
            return _interrupted(error, str(error))
        except Exception as error:  # noqa: BLE001 - proposers may be anybody's
            text = f"{action.proposer} broke: {type(error).__name__}: {error}"
            return Interrupted(reason="interrupted", text=text)

    async def propose(self, state: State, action: AskProposals) -> Proposed | Interrupted:
        """Ask for edits; those that would break the prompt's file are refused here."""
        try:
            said = await proposed(
                self._proposers[action.proposer],
                self._problem(state, action),
                self._ask,
                self._forget,
            )
        except NoCallsLeftError:
            said = Proposed(edits=(), spent=Spent(), refused=("no calls of the model are left",))
        except UnmeasuredError as error:
            return _interrupted(error, str(error))
        except Exception as error:  # noqa: BLE001 - proposers may be anybody's
            text = f"{action.proposer} broke: {type(error).__name__}: {error}"
            said = Proposed(edits=(), spent=Spent(), refused=(text,))
        return self._readable(state.text, said)

    async def verify(self, state: State, action: RunSuite) -> SuiteSaid | Interrupted:
        """Let the gate compare the revision with the base."""
        tiers: dict[str, CaseTier] = {
            name: member.case.tier for name, member in self._subject.members.items()
        }
        try:
            return await verify_by_gate(
                self._setting, state, action, _Drawer(self), policy=self._policy, tiers=tiers
            )
        except _CannotGoOnError as error:
            return error.told

    async def _make(self, text: PromptText, case: str, number: int, check: str | None) -> Trial:
        planned = self._planned.get((text.digest, case, check))
        if planned is None:
            planned = self._plan(text, case, check)
        return await self._trials.make(Draw(planned, number))

    def _plan(self, text: PromptText, wanted: str, check: str | None) -> PlannedCase:
        """The cases under a text; its file is spliced and read back once.

        Judges that are advisory, or LLM judges of other checks, would call models for nothing.
        """
        prompt = self._subject.prompt
        if text.digest != self._setting.base.digest:
            prompt = self._subject.prompt_with(text)
        suites = {
            id(member.suite): replace(
                member.suite, prompt=prompt, judges=deciding_judges(member.suite, check)
            )
            for member in self._subject.members.values()
        }
        for name, member in self._subject.members.items():
            planned = PlannedCase(suites[id(member.suite)], member.case)
            self._planned[text.digest, name, check] = planned
        return self._planned[text.digest, wanted, check]

    def _problem(self, state: State, action: AskCritique | AskProposals) -> Problem:
        return problem_of(
            self._setting,
            state,
            action,
            {name: member.case for name, member in self._subject.members.items()},
            released=self._subject.released,
            examples=self._subject.examples,
            people=self._hints if action.proposer in self._setting.critics else (),
            show_goldens=self._options.show_goldens,
            schema=json.dumps(self._subject.prompt.response_format, ensure_ascii=False),
            draw=self.draw,
        )

    @cached_property
    def _hints(self) -> tuple[Evidence, ...]:
        """What people said; a run that asks no model does without it."""
        return hints_for(self._subject, self._setting, show_goldens=self._options.show_goldens)

    async def _ask(self, request: CompletionRequest) -> Completion:
        """The reply of the model that criticises and proposes; the local store keeps it."""
        answer = await self._trials.answer(self._question(request))
        self.replayed += answer.source != "live"
        return answer.completion

    def _forget(self, request: CompletionRequest) -> None:
        self._trials.forget(self._question(request))

    def _question(self, request: CompletionRequest) -> Question:
        prompt = self._subject.prompt
        return Question(
            request=request,
            key=RecordingKey.of(request),
            file=f"refine/{prompt.name}",
            prompt=prompt.name,
            version=str(prompt.version) if prompt.version else None,
            asker_digest=prompt.digest,
            case="refine",
        )

    def _readable(self, text: PromptText, proposed: Proposed) -> Proposed:
        """Without edits whose text the prompt's file cannot hold."""
        kept: list[Edit] = []
        refused = list(proposed.refused)
        for edit in proposed.edits:
            if self._options.strategies and edit.strategy not in self._options.strategies:
                refused.append(f"{edit.strategy}: not one of the strategies that were asked for")
                continue
            try:
                self._subject.prompt_with(apply(text, edit.ops))
            except EditError:
                kept.append(edit)  # the loop says so itself
            except RegaugeError as error:
                refused.append(f"{edit.strategy}: the file could not hold it: {error}")
            else:
                kept.append(edit)
        return replace(proposed, edits=tuple(kept), refused=tuple(refused))


class _Drawer:
    """Draws for the gate, which knows no outages."""

    def __init__(self, bench: SuiteBench) -> None:
        self._bench = bench

    async def draw(self, draws: Sequence[Draws]) -> TrialsDone:
        """Draw and judge.

        Raises:
            _CannotGoOnError: A provider is down, or the budget is used.
        """
        done = await self._bench.draw(draws)
        if isinstance(done, Interrupted):
            raise _CannotGoOnError(done)
        return done


def _interrupted(error: Exception, text: str) -> Interrupted:
    if isinstance(error, BudgetError):
        return Interrupted(reason="calls" if error.limit == "calls" else "usd", text=text)
    if isinstance(error, ProviderError) and error.kind == "authentication":
        return Interrupted(reason="no-key", text=text)
    return Interrupted(reason="provider-outage", text=text)
