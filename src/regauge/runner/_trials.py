"""Runs trials: a recorded, stored or live completion, and the verdicts on it."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from regauge.errors import MissingOutputError, MissingRecordingError, RegaugeError, UnmeasuredError
from regauge.judges import MemoisedJudge, Rule
from regauge.project import RecordedTarget
from regauge.recordings import RecordingKey
from regauge.runner._completions import PURPOSE_TRIALS
from regauge.runner._conversation import converse, replay
from regauge.runner._judging import ModelJudging, judge_trial
from regauge.runner._plan import CaseRequest, PlannedTrial
from regauge.runner._result import MissingVerdict, Trial

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from regauge.judges import ModelJudge
    from regauge.runner._calls import LiveCalls, RunProgress
    from regauge.runner._completions import Completions
    from regauge.runner._judging import Measurements, ModelVerdicts, UsedRecordings
    from regauge.runner._missing import Misses
    from regauge.runner._plan import CompletionKey
    from regauge.runner._result import SourcedCompletion
    from regauge.targets import Target


# Trials at once, at 2 kB each: twice as many as the calls of two providers. More take more memory;
# with fewer, calls wait for trials that are only judged.
_AT_ONCE: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialTrial:
    """A trial after all calls of models, before its rules.

    Attributes:
        sourced_completion: The completion, with its source.
        model_verdicts: The verdicts of LLM judges, by name.
    """

    sourced_completion: SourcedCompletion
    model_verdicts: ModelVerdicts

    @property
    def failure(self) -> UnmeasuredError | None:
        """The first error of an LLM judge; None without one."""
        return next(
            (x.error for x in self.model_verdicts.values() if isinstance(x, MissingVerdict)), None
        )


class TrialRunner:
    """Runs trials of any case and number, planned or not.

    For one event loop at a time, which may run many trials at once.

    Args:
        completions: The recorded and stored completions.
        measurements: The recorded measurements.
        misses: The collection of judgements that cannot be replayed.
        progress: The counts of completions and judge calls.
        rejudge: Whether to compute measurements again from recorded calls.
        offline: Whether functions of users have no network.
        live_calls: The calls of models; None for a replay.
    """

    def __init__(
        self,
        *,
        completions: Completions,
        measurements: Measurements,
        misses: Misses,
        progress: RunProgress,
        rejudge: bool,
        offline: bool = False,
        live_calls: LiveCalls | None = None,
    ) -> None:
        self._completions = completions
        self._misses = misses
        self._progress = progress
        self._live_calls = live_calls
        self._offline = offline
        # The calls of judges and conversations that this runner paid for.
        self._paid_keys: set[RecordingKey] = set()
        self._judging = ModelJudging(
            get_response=self._get_response,
            measurements=measurements,
            rejudge=lambda planned_trial: rejudge or completions.independent(planned_trial.trial),
        )

    async def run(self, planned_trial: PlannedTrial) -> Trial:
        """Run and judge one trial; an error makes it unmeasured."""
        try:
            partial = await self.call_models(planned_trial)
        except RegaugeError as error:
            return unmeasured_trial(planned_trial, error)
        return await judge_trial(
            planned_trial,
            partial.sourced_completion,
            model_verdicts=partial.model_verdicts,
            offline=self._offline,
        )

    async def run_all(
        self, planned_trials: Sequence[PlannedTrial], *, on_trial: Callable[[], None] = lambda: None
    ) -> list[Trial]:
        """Run and judge many trials concurrently; returns them in order.

        Args:
            planned_trials: The trials to run.
            on_trial: Called after each trial.
        """
        trials: dict[int, Trial] = {}
        waiting = iter(enumerate(planned_trials))

        async def run_some() -> None:
            for place, planned_trial in waiting:
                trials[place] = await self.run(planned_trial)
                on_trial()
                await asyncio.sleep(0)  # replayed trials have no other pause

        await asyncio.gather(*(run_some() for _ in range(min(len(planned_trials), _AT_ONCE))))
        return [trials[place] for place in range(len(planned_trials))]

    async def call_models(self, planned_trial: PlannedTrial) -> PartialTrial:
        """Get the completion of a trial, and the verdicts of LLM judges.

        Raises:
            UnmeasuredError: There is no completion.
            RegaugeError: The case cannot be rendered, or recordings cannot be read.
        """
        with (
            nullcontext()
            if self._live_calls is None
            else self._live_calls.cases.trial(planned_trial)
        ):
            planned_trial.planned_case.plan()
            sourced = self._completions.find_trial(planned_trial)
            if sourced is None:
                sourced = await self._request_completion(planned_trial)
            return PartialTrial(
                sourced_completion=sourced,
                model_verdicts=await self.call_judges(planned_trial, sourced),
            )

    async def call_judges(
        self, planned_trial: PlannedTrial, sourced: SourcedCompletion
    ) -> ModelVerdicts:
        """Call the LLM judges of a completion concurrently; returns verdicts or errors by name."""
        judges = planned_trial.planned_case.eval.model_judges
        if not judges:
            return {}
        verdicts = await asyncio.gather(
            *[self._judging.verdict(judge, planned_trial, sourced.completion) for judge in judges]
        )
        return {judge.name: verdict for judge, verdict in zip(judges, verdicts, strict=True)}

    async def end_target(self, target: Target) -> None:
        """End the process of a target."""
        if self._live_calls is not None:
            await self._live_calls.end_target(target)

    async def copy(self, planned_trials: Mapping[PlannedTrial, int]) -> None:
        """Store judged trials under further numbers, unless recorded there.

        The calls of judges are copied to the numbers that follow from the new ones.
        """
        copies: list[tuple[PlannedTrial, PlannedTrial, SourcedCompletion]] = []
        with self._completions.together(next(iter(planned_trials.values()), 0)):
            for planned_trial, number in planned_trials.items():
                target = PlannedTrial(planned_trial.planned_case, number)
                sourced = self._copy(planned_trial, target)
                if sourced is not None:
                    copies.append((planned_trial, target, sourced))
        await asyncio.gather(*[self._judge_copy(*copy) for copy in copies])

    def _copy(self, planned_trial: PlannedTrial, target: PlannedTrial) -> SourcedCompletion | None:
        """Store a completion, or the calls of a conversation, under another number, too."""

        def copy(sourced: CompletionKey) -> SourcedCompletion | None:
            key = replace(sourced.key, trial=target.trial)
            return self._completions.copy(sourced, sourced._replace(key=key, trial=target.trial))

        if not planned_trial.planned_case.converses:
            return copy(planned_trial.completion_key)
        copies: list[SourcedCompletion] = []

        def find(case_request: CaseRequest) -> SourcedCompletion | None:
            copied_completion = copy(case_request.completion_key)
            if copied_completion is not None:
                copies.append(copied_completion)
            return self._completions.find_call(case_request)

        sourced = replay(planned_trial, find)
        return sourced if copies else None

    async def _judge_copy(
        self, planned_trial: PlannedTrial, target: PlannedTrial, sourced: SourcedCompletion
    ) -> None:
        judges = planned_trial.planned_case.eval.model_judges
        if not judges:
            return
        recorded_keys = self._judging.used_recordings(
            planned_trial.planned_case.eval.prompt.name
        ).calls

        async def copy_response(
            case_request: CaseRequest, judge: ModelJudge, _: PlannedTrial
        ) -> SourcedCompletion:
            digest, trial = case_request.key.digest, case_request.key.trial
            # A judge numbers its calls from a multiple of the trial's number.
            for factor in {
                key.trial // planned_trial.trial for key in recorded_keys if key.digest == digest
            }:
                key = RecordingKey(digest, trial + factor * (planned_trial.trial - target.trial))
                sourced = case_request.completion_key._replace(key=key, trial=planned_trial.trial)
                self._completions.copy(sourced, case_request.completion_key)
            return await self._get_response(case_request, judge, target)

        judging = self._judging.with_responses(copy_response)
        for judge in judges:
            await judging.verdict(judge, target, sourced.completion)

    def prepare(self, planned_trials: Sequence[PlannedTrial]) -> None:
        """Load the libraries and models of judges that measure."""
        for eval_ in {
            id(planned_trial.planned_case.eval): planned_trial.planned_case.eval
            for planned_trial in planned_trials
        }.values():
            for judge in eval_.model_judges:
                if isinstance(judge, MemoisedJudge):
                    self._judging.prepare(judge, in_this_thread=True)

    def find(self, planned_trial: PlannedTrial) -> SourcedCompletion:
        """The recorded or stored completion of a trial.

        Raises:
            MissingRecordingError: There is none.
            RegaugeError: The case cannot be rendered, or recordings cannot be read.
        """
        planned_trial.planned_case.plan()
        sourced = self._completions.find_trial(planned_trial)
        if sourced is None:
            raise self._missing(planned_trial)
        return sourced

    def apply_rules(self, planned_trial: PlannedTrial, partial: PartialTrial) -> Trial:
        """Judge a trial by its rules, too; for a thread without an event loop."""
        judging = judge_trial(
            planned_trial,
            partial.sourced_completion,
            model_verdicts=partial.model_verdicts,
            offline=self._offline,
        )
        judges = planned_trial.planned_case.eval.judges
        if not all(
            isinstance(judge, Rule) or judge.name in partial.model_verdicts for judge in judges
        ):
            return asyncio.run(judging)
        try:
            judging.send(None)
        except StopIteration as done:  # rules never suspend
            trial: Trial = done.value
            return trial
        raise AssertionError("a rule waited")

    async def complete(self, case_request: CaseRequest) -> SourcedCompletion:
        """The completion of a request of no case: recorded, from the local store, or live.

        Raises:
            UnmeasuredError: There is none.
        """
        recorded = self._completions.find_call(case_request)
        if recorded is not None:
            return recorded
        if self._live_calls is None:
            raise MissingRecordingError(
                prompt=case_request.prompt,
                case=case_request.case,
                trial=case_request.key.trial,
                stale=False,
            )
        return await self._live_calls.complete(case_request)

    def forget(self, case_request: CaseRequest) -> None:
        """Remove a completion from the local store, so that the next one is live."""
        self._completions.forget(case_request)

    def used_recordings(self, prompt: str) -> UsedRecordings:
        """The recordings that judgements of a prompt's completions have used so far."""
        return self._judging.used_recordings(prompt)

    async def _call(self, case_request: CaseRequest) -> SourcedCompletion:
        """The completion of a call: recorded, from the local store, or live."""
        recorded = self._completions.find_call(case_request)
        if recorded is None:
            assert self._live_calls is not None
            sourced = await self._live_calls.complete(case_request)
            if sourced.source == "live":
                self._paid_keys.add(case_request.key)
            return sourced
        paid_here = case_request.key in self._paid_keys
        return replace(recorded, source="live") if paid_here else recorded

    async def _request_completion(self, planned_trial: PlannedTrial) -> SourcedCompletion:
        target = planned_trial.planned_case.eval.target
        if self._live_calls is None or (target is not None and target.outputs is not None):
            raise self._missing(planned_trial)
        try:
            if planned_trial.planned_case.converses:
                sourced = await converse(planned_trial, self._call)
            else:
                sourced = await self._live_calls.complete(CaseRequest.of_trial(planned_trial))
        except Exception:
            self._progress.count(failed=True)
            raise
        self._progress.count()
        return sourced

    def _missing(self, planned_trial: PlannedTrial) -> MissingRecordingError:
        planned_case = planned_trial.planned_case
        settings = None if planned_case.eval.target is None else planned_case.eval.target.settings
        if isinstance(settings, RecordedTarget):
            return MissingOutputError(
                prompt=planned_case.eval.prompt.name,
                case=planned_case.case.id,
                trial=planned_trial.trial % PURPOSE_TRIALS,
                file=settings.path,
            )
        return MissingRecordingError(
            prompt=planned_case.eval.prompt.name,
            case=planned_case.case.id,
            trial=planned_trial.trial,
            stale=self._completions.has_older(planned_case),
            evals=planned_case.eval.evals,
        )

    async def _get_response(
        self, case_request: CaseRequest, judge: ModelJudge, planned_trial: PlannedTrial
    ) -> SourcedCompletion:
        """The response to a judge: recorded, from the local store, or live."""
        recorded = self._completions.find_call(case_request)
        if recorded is None and self._live_calls is None:
            self._misses.note(judge, planned_trial)
            raise MissingRecordingError(
                prompt=case_request.prompt,
                case=case_request.case,
                trial=planned_trial.trial,
                stale=False,
                judge=judge.name,
                evals=planned_trial.planned_case.eval.evals,
            )
        response = await self._call(case_request)
        if recorded is None:
            self._progress.count_judge_call()
        return response


def unmeasured_trial(planned_trial: PlannedTrial, error: RegaugeError) -> Trial:
    """The trial of a planned trial without a completion."""
    if not isinstance(error, UnmeasuredError):
        unmeasured = UnmeasuredError(str(error))
        unmeasured.__cause__ = error
        error = unmeasured
    return Trial(
        number=planned_trial.trial,
        request_digest=planned_trial.planned_case.digest,
        sourced_completion=None,
        error=error,
    )
