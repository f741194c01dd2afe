"""One run in one process: binds evals, plans trials, gets completions, judges them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from regauge.errors import RegaugeError, UnmeasuredError
from regauge.providers import parse_model_id
from regauge.runner._budget import Budget
from regauge.runner._calls import Batches, LiveCalls, RunProgress
from regauge.runner._completions import Completions, Embeddings, WrittenRecordings
from regauge.runner._conversation import calls_of
from regauge.runner._eval import bind, bind_prompt_file
from regauge.runner._expected import ExpectedJudging, ExpectedUsage
from regauge.runner._judging import Measurements
from regauge.runner._lookahead import Lookahead
from regauge.runner._missing import Misses, missing_completions
from regauge.runner._plan import Plan, PlannedTrial, ShardFiles, plan_cases
from regauge.runner._result import EvalResult, SourcedCompletion
from regauge.runner._trials import PartialTrial, TrialRunner, unmeasured_trial
from regauge.stop_signals import run_stoppable

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        Callable,
        Collection,
        Coroutine,
        Generator,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )
    from pathlib import Path
    from typing import Any

    from regauge.cluster import Cluster
    from regauge.errors import Diagnostic
    from regauge.project import Project
    from regauge.recordings import RecordingKey, RecordingsFile
    from regauge.runner._completions import IndependentTrials
    from regauge.runner._eval import Eval
    from regauge.runner._judging import UsedRecordings
    from regauge.runner._missing import MissingCompletions, MissingJudgements
    from regauge.runner._plan import CaseRequest, PlannedCase
    from regauge.runner._result import Trial
    from regauge.runner._spec import EvalSpec, RunOptions

ResultT = TypeVar("ResultT")


class OneLoop:
    """Runs coroutines one after the other; for one thread."""

    _runner: asyncio.Runner | None = None

    @contextmanager
    def shared(self) -> Generator[None]:
        """Run all coroutines of the block on the same event loop."""
        try:
            # Not the thread's own event loop, which tests may replace or close.
            with asyncio.Runner(loop_factory=asyncio.new_event_loop) as self._runner:
                yield
        finally:
            self._runner = None

    def run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Run a coroutine to its end."""
        if self._runner is None:
            return run_stoppable(work)
        return run_stoppable(work, self._runner)


def needed_keys(file: RecordingsFile, cases: Collection[PlannedCase]) -> set[RecordingKey]:
    """The recordings of a file that an eval can replay.

    Trials with any number and any recorded model count, such as those of `--trials 5`.

    Args:
        file: The recordings of one prompt.
        cases: The planned cases of the prompt's evals.
    """
    models = {recording.model for recording in file}
    conversed = {call.key for _, _, calls in _conversations(file, cases) for call in calls}
    digests = {digest for case in cases for model in models if (digest := _digest(case, model))}
    # The requests of a case that cannot be rendered are unknown.
    unclear = {case.case.id for case in cases if case.error is not None}
    return {
        recording.key
        for recording in file
        if recording.key.digest in digests
        or recording.key in conversed
        or recording.case in unclear
    }


def recorded_trials(
    file: RecordingsFile, cases: Collection[PlannedCase]
) -> list[tuple[PlannedTrial, SourcedCompletion]]:
    """Every recorded completion of planned cases, with its trial."""
    models = {recording.model for recording in file}
    cases_by_digest: dict[str, list[PlannedCase]] = {}
    for planned_case in cases:
        for model in models:
            if digest := _digest(planned_case, model):
                cases_by_digest.setdefault(digest, []).append(planned_case)
    single = [
        (
            PlannedTrial(planned_case, recording.key.trial),
            SourcedCompletion(completion=recording.completion, source="recording"),
        )
        for recording in file
        for planned_case in cases_by_digest.get(recording.key.digest, ())
    ]
    conversations = [
        (planned_trial, sourced)
        for planned_trial, sourced, _ in _conversations(file, cases)
        if sourced is not None
    ]
    return single + conversations


def _conversations(
    file: RecordingsFile, cases: Collection[PlannedCase]
) -> Iterator[tuple[PlannedTrial, SourcedCompletion | None, list[CaseRequest]]]:
    """The recorded calls of every conversation; its completion is None if calls are missing."""
    conversing = [case for case in cases if case.converses and case.error is None]
    if not conversing:
        return
    trials = sorted({recording.key.trial for recording in file})
    models = {recording.model for recording in file}

    def find(case_request: CaseRequest) -> SourcedCompletion | None:
        recording = file.get(case_request.key)
        if recording is None:
            return None
        return SourcedCompletion(completion=recording.completion, source="recording")

    for planned_case in conversing:
        for model in models:
            try:
                eval_ = replace(planned_case.eval, model=parse_model_id(model))
            except RegaugeError:
                continue
            for trial in trials:
                planned_trial = PlannedTrial(replace(planned_case, eval=eval_), trial)
                sourced, recorded_calls = calls_of(planned_trial, find)
                if recorded_calls:
                    yield planned_trial, sourced, recorded_calls


def _digest(planned_case: PlannedCase, model: str) -> str | None:
    if planned_case.error is not None:
        return None
    try:
        model_id = parse_model_id(model)
        request = planned_case.request(0)
    except RegaugeError:
        return None
    return replace(request, provider=model_id.provider, model=model_id.model).digest


# CI systems show lines one by one; a shorter interval fills their logs.
_PROGRESS_EVERY_S = 10.0


class EvalSession:
    """Turns evals into judged trials.

    Args:
        project: The project with prompts, golden cases and recordings.
        options: The options of the run.
        environ: The environment with the API keys.
        workers: The number of processes that share the run.
        run_owner: The process that owns the run; None if no other process shares the run.
        run_started: The start of the run, in the format of recordings.
        independent: The trials that recordings cannot replace; None for a run without any.
        part_dir: The directory for the recordings of a shard.

    Attributes:
        batches: The batches to use instead of live calls; None for live calls.
        left_out: The cases that pytest's settings or a conftest.py deselect for a command.
        uncollected: The evals that they exclude from collection.
    """

    def __init__(
        self,
        project: Project,
        options: RunOptions,
        *,
        environ: Mapping[str, str],
        workers: int = 1,
        run_owner: str | None = None,
        run_started: str = "",
        independent: IndependentTrials | None = None,
        part_dir: Path | None = None,
    ) -> None:
        self.project = project
        self.options = options
        part = None
        if options.shard is not None and part_dir is not None:
            part = ShardFiles(
                shard=options.shard, recordings_dir=project.recordings_dir, directory=part_dir
            )
        self._part = part
        self.completions = Completions(
            project,
            options.record,
            environ=environ,
            run_owner=run_owner,
            run_started=run_started,
            independent=independent,
            part=part,
        )
        self.measurements = Measurements(
            project,
            options.record,
            redact=self.completions.redact,
            unpublished=independent.unpublished if independent is not None else (),
            part=part,
        )
        self.misses = Misses()
        self.embeddings = Embeddings(project, options.record, environ=environ, part=part)
        self.budget = Budget(
            options.budget_usd,
            processes=workers,
            limit_tokens=options.budget_tokens,
            limit_calls=options.budget_calls,
        )
        self.progress = RunProgress()
        self._cluster: Cluster | None = None
        if options.cluster is not None:
            from regauge.cluster import Cluster

            self._cluster = Cluster(
                options.cluster, root=project.root, note=self.progress.notes.append
            )
        self.batches: Batches | None = None
        self.plan = Plan(cases=())
        self.left_out: Sequence[PlannedCase] = ()
        self.uncollected: Sequence[Diagnostic] = ()
        self._environ = environ
        self._workers = workers
        self._evals: dict[int, tuple[EvalSpec, tuple[Eval, ...]]] = {}
        self._lookahead: Lookahead[PartialTrial] | None = None
        self._loop = OneLoop()
        self._closed = False
        self._trials = self._trial_runner(None)

    def bind(self, spec: EvalSpec, function: Callable[..., Any]) -> tuple[Eval, ...]:
        """Load the prompt, dataset and judges of an eval, once: an `Eval` per model of the run."""
        bound = self._evals.get(id(spec))
        if bound is None:
            evals = bind(spec, function, project=self.project, options=self.options)
            if self._part is not None:
                self._part.add(evals[0].dataset)
            bound = self._evals[id(spec)] = (spec, self.embeddings.bind(evals))
        return bound[1]

    def bind_prompt_file(self, path: Path) -> tuple[Eval, ...]:
        """The evals of a prompt file with its own `testData` and `evaluators`, one per model."""
        return self.embeddings.bind(
            bind_prompt_file(path, project=self.project, options=self.options)
        )

    def prepare(self, cases: Sequence[PlannedCase]) -> Plan:
        """Plan the selected cases, in the order of judging."""
        self.plan = plan_cases(cases, has_completion=self.completions.has)
        if self.plan.model_trials and self.options.record == "all":
            try:
                self.completions.begin(self.plan.digest)
            except RegaugeError as error:
                incomplete = {planned_trial.planned_case for planned_trial in self.plan.missing}
                cases = [
                    replace(case, error=error) if case in incomplete else case
                    for case in self.plan.cases
                ]
            # Completions of an interrupted run count.
            self.plan = plan_cases(cases, has_completion=self.completions.has)
        return self.plan

    def serve_command(
        self,
        *,
        left_out: Sequence[PlannedCase],
        uncollected: Sequence[Diagnostic],
        prefetch: bool,
    ) -> None:
        """Note the omissions of a command, which plans its own trials without `prefetch`."""
        self.left_out, self.uncollected = left_out, uncollected
        if not prefetch:
            self.plan = Plan(cases=self.plan.cases, ahead=False)

    @contextmanager
    def serving(self, batches: Batches) -> Generator[None]:
        """Use batches in the block, not live calls."""
        self.batches = batches
        try:
            yield
        finally:
            self.batches = None

    @contextmanager
    def running(self, *, meanwhile: Callable[[], object] = lambda: None) -> Generator[None]:
        """Call models ahead of the judged cases while the block runs.

        Args:
            meanwhile: Called once during the first calls, if there are any.
        """
        planned_trials = self.plan.model_trials
        if not planned_trials or self.options.record == "none":
            calls_judges = any(case.eval.judge_statuses for case in self.plan.cases)
            with self._loop.shared() if calls_judges else nullcontext():
                yield
            return
        live_calls = self._live_calls()
        self._trials = self._trial_runner(live_calls)
        self.progress.start(len(self.plan.missing))
        with Lookahead(
            planned_trials,
            perform=self._trials.call_models,
            width=live_calls.ahead,
            fixed=self.options.ahead is not None,
            close=live_calls.aclose,
        ) as self._lookahead:
            # On this thread, and before the first test: packages such as requests set warning
            # filters on import, and each test restores the filters of its start.
            self._trials.prepare(self.plan.missing)
            meanwhile()
            yield
        # Frees its lists of trials before recordings are written.
        self._lookahead = None

    @asynccontextmanager
    async def open_trials(self) -> AsyncGenerator[TrialRunner]:
        """Open a runner of trials, planned or not, on the event loop of the caller.

        It calls models if the record mode allows it. Do not use it inside `running`.
        """
        if self.options.record == "none":
            yield self._trial_runner(None)
            return
        live_calls = self._live_calls()
        try:
            yield self._trial_runner(live_calls)
        finally:
            await live_calls.aclose()

    def result(
        self, planned_case: PlannedCase, *, node_id: str, waiting: Callable[[RunProgress], None]
    ) -> EvalResult:
        """The judged trials of one case; an error makes a trial unmeasured.

        Args:
            planned_case: The case.
            node_id: The id of the pytest item.
            waiting: Called with the progress every 10 seconds of waiting for a completion.
        """
        trials: list[Trial] = []
        for number in range(planned_case.eval.trials):
            planned_trial = PlannedTrial(planned_case, number)
            try:
                partial = self.take(planned_trial, waiting=waiting)
            except RegaugeError as error:
                trials.append(unmeasured_trial(planned_trial, error))
            else:
                trials.append(self._trials.apply_rules(planned_trial, partial))
        return EvalResult(
            eval=planned_case.eval, case=planned_case.case, trials=tuple(trials), node_id=node_id
        )

    def finish(self, *, complete: bool) -> WrittenRecordings:
        """Write completions, embeddings and measurements to the committed recordings.

        After `close` it writes nothing.

        Args:
            complete: Whether the run reached its end; an incomplete one can be resumed.
        """
        if self._cluster is not None:
            self._cluster.stop()
        if self._closed:
            return WrittenRecordings()
        try:
            recordings = self.completions.finish(complete=complete)
        finally:
            try:
                vectors = self.embeddings.finish()
            finally:
                measured = self.measurements.finish()
        return replace(
            recordings, changed_lines={**recordings.changed_lines, **vectors, **measured}
        )

    def note_stored(self) -> None:
        """Have `finish` record the plan's completions that only the local store has."""
        for planned_trial in self.plan.planned_trials():
            if planned_trial.planned_case.error is None:
                with suppress(UnmeasuredError):  # the case reports it
                    self.completions.note_stored(planned_trial)

    @cached_property
    def _usage(self) -> ExpectedUsage:
        return ExpectedUsage(self.completions)

    def missing_completions(
        self, planned_trials: Iterable[PlannedTrial]
    ) -> list[MissingCompletions]:
        """The missing completions of each prompt, with their expected cost."""
        return missing_completions(
            planned_trials,
            self._usage,
            self.completions,
            self.project.settings,
            options=self.options,
        )

    def missing_judgements(
        self, planned_trials: Iterable[PlannedTrial], *, misses: Misses | None = None
    ) -> list[MissingJudgements]:
        """The missing judgements of each LLM judge, with their expected cost.

        Args:
            planned_trials: The trials without a completion, so without a judgement.
            misses: Further judgements that cannot be replayed; None for none.
        """
        misses = misses or Misses()
        for planned_trial in planned_trials:
            for judge in planned_trial.planned_case.eval.model_judges:
                misses.note(judge, planned_trial)
        settings = self.project.settings
        judging = ExpectedJudging(self.completions, settings, self._usage)
        return misses.summary(judging, self.completions, settings, options=self.options)

    def close(self) -> None:
        """End the run without writing recordings; the local store has the completions."""
        self._closed = True
        if self._cluster is not None:
            self._cluster.stop()
        self.completions.finish(complete=True, publish=False)

    def embed(self, planned_trial: PlannedTrial) -> None:
        """Record the embeddings for the judges of a trial that has a completion.

        Raises:
            UnmeasuredError: A call of the embedding model failed.
            RegaugeError: The case has no reference, or recordings cannot be read.
        """
        planned_case = planned_trial.planned_case
        judges = self.embeddings.judges_with_vectors(planned_case.eval.judges, planned_case.case)
        sourced = self.completions.find_trial(planned_trial) if judges else None
        if sourced is not None:
            for judge in judges:
                run_stoppable(judge.prepare(sourced.completion, planned_case.case))

    def recordings_used_by_judges(
        self, prompt: str, cases: Sequence[PlannedCase]
    ) -> UsedRecordings:
        """The recordings that judges use for the recorded completions of a prompt.

        Args:
            prompt: The prompt.
            cases: Its cases; completions of any trial and model count.
        """
        trials = self._trial_runner(None)
        planned_trials = recorded_trials(self.completions.file(prompt), cases)

        async def judge_all() -> None:
            for planned_trial, sourced in planned_trials:
                await trials.call_judges(planned_trial, sourced)

        run_stoppable(judge_all())
        return trials.used_recordings(prompt)

    def replay_session(self) -> EvalSession:
        """A session of the same project and options with `--record=none`."""
        options = replace(self.options, record="none")
        return EvalSession(self.project, options, environ=self._environ)

    def replay(self, planned_trials: Sequence[PlannedTrial]) -> list[Trial]:
        """Judge recorded trials, without calls of models."""
        trials = self._trial_runner(None)
        return [self._loop.run(trials.run(planned_trial)) for planned_trial in planned_trials]

    def take(
        self, planned_trial: PlannedTrial, *, waiting: Callable[[RunProgress], None]
    ) -> PartialTrial:
        """The completion of one trial, with the verdicts of LLM judges.

        Raises:
            UnmeasuredError: There is no completion.
            RegaugeError: The case cannot be rendered.
        """
        if planned_trial.planned_case.error is not None:
            raise planned_trial.planned_case.error
        if self._lookahead is not None and planned_trial in self._lookahead:
            return self._lookahead.take(
                planned_trial, waiting=lambda: waiting(self.progress), every_s=_PROGRESS_EVERY_S
            )
        if planned_trial.planned_case.eval.model_judges:
            return self._loop.run(self._trials.call_models(planned_trial))
        return PartialTrial(sourced_completion=self._trials.find(planned_trial), model_verdicts={})

    def _live_calls(self) -> LiveCalls:
        return LiveCalls(
            self.project,
            self.options,
            completions=self.completions,
            budget=self.budget,
            environ=self._environ,
            workers=self._workers,
            note=self.progress.notes.append,
            batches=self.batches,
            cluster=self._cluster,
        )

    def _trial_runner(self, live_calls: LiveCalls | None) -> TrialRunner:
        return TrialRunner(
            completions=self.completions,
            measurements=self.measurements,
            misses=self.misses,
            progress=self.progress,
            rejudge=self.options.rejudge,
            offline=self.options.record == "none",
            live_calls=live_calls,
        )
