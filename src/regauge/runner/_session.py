"""One run in one process: binds evals, plans draws, gets answers, judges them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from regauge.errors import RegaugeError, UnmeasuredError
from regauge.providers import parse_model_id
from regauge.runner._answers import Answers, Embeddings, WrittenRecordings
from regauge.runner._conversation import calls_of
from regauge.runner._drawing import Batches, Budget, Drawing, DrawProgress
from regauge.runner._expected import ExpectedJudging, ExpectedUsage
from regauge.runner._judging import Measurements
from regauge.runner._lookahead import Lookahead
from regauge.runner._missing import Misses, missing_answers
from regauge.runner._plan import Draw, PartFiles, Plan, plan_cases
from regauge.runner._result import EvalResult, SourcedCompletion
from regauge.runner._suite import bind, bind_prompt_file
from regauge.runner._trials import AskedTrial, Trials, unmeasured_trial
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
    from regauge.errors import Fault
    from regauge.project import Project
    from regauge.recordings import RecordingKey, RecordingsFile
    from regauge.runner._answers import IndependentTrials
    from regauge.runner._judging import Used
    from regauge.runner._missing import MissingAnswers, MissingJudgements
    from regauge.runner._plan import CaseRequest, PlannedCase
    from regauge.runner._result import Trial
    from regauge.runner._spec import EvalSpec, RunOptions
    from regauge.runner._suite import Eval

Done = TypeVar("Done")


class OneLoop:
    """Runs coroutines, one after the other; for one thread."""

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None

    @contextmanager
    def shared(self) -> Generator[None]:
        """Within the block, all coroutines run on the same event loop."""
        try:
            # It is not the one of the thread, which tests make and close as they need it.
            with asyncio.Runner(loop_factory=asyncio.new_event_loop) as self._runner:
                yield
        finally:
            self._runner = None

    def run(self, work: Coroutine[Any, Any, Done]) -> Done:
        """Run a coroutine to its end."""
        if self._runner is None:
            return run_stoppable(work)
        return run_stoppable(work, self._runner)


def needed_keys(file: RecordingsFile, cases: Collection[PlannedCase]) -> set[RecordingKey]:
    """The recordings of a file that some eval can replay.

    A recording of any trial is needed while its request is one that an eval makes, with the
    model that the recording names: answers of `--trials 5` and of `--model` stay.

    Args:
        file: The recordings of one prompt.
        cases: The planned cases of the evals of that prompt.
    """
    models = {recording.model for recording in file}
    conversed = {question.key for _, _, made in _conversations(file, cases) for question in made}
    digests = {
        digest for planned in cases for model in models if (digest := _digest(planned, model))
    }
    # What a case that cannot be rendered just now will ask for is not known.
    unclear = {planned.case.id for planned in cases if planned.error is not None}
    return {
        recording.key
        for recording in file
        if recording.key.digest in digests
        or recording.key in conversed
        or recording.case in unclear
    }


def recorded_draws(
    file: RecordingsFile, cases: Collection[PlannedCase]
) -> list[tuple[Draw, SourcedCompletion]]:
    """Every recorded answer that a planned case can have, with the draw it is of."""
    models = {recording.model for recording in file}
    asked: dict[str, list[PlannedCase]] = {}
    for planned in cases:
        for model in models:
            if digest := _digest(planned, model):
                asked.setdefault(digest, []).append(planned)
    single = [
        (
            Draw(planned, recording.key.trial),
            SourcedCompletion(completion=recording.completion, source="recording"),
        )
        for recording in file
        for planned in asked.get(recording.key.digest, ())
    ]
    conversations = [
        (draw, answer) for draw, answer, _ in _conversations(file, cases) if answer is not None
    ]
    return single + conversations


def _conversations(
    file: RecordingsFile, cases: Collection[PlannedCase]
) -> Iterator[tuple[Draw, SourcedCompletion | None, list[CaseRequest]]]:
    """Every recorded conversation with its calls; None in its place where some are missing."""
    conversing = [planned for planned in cases if planned.converses and planned.error is None]
    if not conversing:
        return
    trials = sorted({recording.key.trial for recording in file})
    models = {recording.model for recording in file}

    def find(question: CaseRequest) -> SourcedCompletion | None:
        recording = file.get(question.key)
        if recording is None:
            return None
        return SourcedCompletion(completion=recording.completion, source="recording")

    for planned in conversing:
        for model in models:
            try:
                suite = replace(planned.suite, model=parse_model_id(model))
            except RegaugeError:
                continue
            for trial in trials:
                draw = Draw(replace(planned, suite=suite), trial)
                answer, made = calls_of(draw, find)
                if made:
                    yield draw, answer, made


def _digest(planned: PlannedCase, model: str) -> str | None:
    if planned.error is not None:
        return None
    try:
        asked = parse_model_id(model)
        request = planned.request(0)
    except RegaugeError:
        return None
    return replace(request, provider=asked.provider, model=asked.model).digest


# CI systems show lines one by one; a shorter interval fills their logs.
_PROGRESS_EVERY_S = 10.0


class EvalSession:
    """Turns evals into judged trials.

    Args:
        project: Where prompts, golden cases and recordings are.
        options: How to run.
        environ: Where API keys are.
        workers: How many processes share the run.
        run_owner: The process the run belongs to, where processes share it.
        run_started: When the run began, as recordings write times.
        independent: The trials that committed recordings do not stand in for; None for a run
            without such trials.
        part_dir: Where a shard leaves what it recorded.

    Attributes:
        batches: Where completions come from instead of live calls; None for live calls.
        left_out: The cases that settings of pytest or a conftest.py keep from a command.
        uncollected: The evals that they keep from it.
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
            part = PartFiles(
                shard=options.shard, recordings_dir=project.recordings_dir, directory=part_dir
            )
        self._part = part
        self.answers = Answers(
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
            redact=self.answers.redact,
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
        self.progress = DrawProgress()
        self._cluster: Cluster | None = None
        if options.cluster is not None:
            from regauge.cluster import Cluster

            self._cluster = Cluster(
                options.cluster, root=project.root, note=self.progress.notes.append
            )
        self.batches: Batches | None = None
        self.plan = Plan(cases=())
        self.left_out: Sequence[PlannedCase] = ()
        self.uncollected: Sequence[Fault] = ()
        self._environ = environ
        self._workers = workers
        self._suites: dict[int, tuple[EvalSpec, tuple[Eval, ...]]] = {}
        self._lookahead: Lookahead[AskedTrial] | None = None
        self._loop = OneLoop()
        self._closed = False
        self._trials = self._made_by(None)

    def bind(self, spec: EvalSpec, function: Callable[..., Any]) -> tuple[Eval, ...]:
        """Load what an eval names, once per eval: a suite per model of the run."""
        bound = self._suites.get(id(spec))
        if bound is None:
            suites = bind(spec, function, project=self.project, options=self.options)
            if self._part is not None:
                self._part.add(suites[0].dataset)
            bound = self._suites[id(spec)] = (spec, self._with_vectors(suites))
        return bound[1]

    def bind_prompt_file(self, path: Path) -> tuple[Eval, ...]:
        """Suites of a prompt file that brings its own `testData` and `evaluators`."""
        return self._with_vectors(
            bind_prompt_file(path, project=self.project, options=self.options)
        )

    def _with_vectors(self, suites: tuple[Eval, ...]) -> tuple[Eval, ...]:
        first = suites[0]
        judges = self.embeddings.give(first.judges, prompt=first.prompt.name)
        return tuple(replace(suite, judges=judges) for suite in suites)

    def prepare(self, cases: Sequence[PlannedCase]) -> Plan:
        """Plan the cases that were selected, in the order they will be judged."""
        self.plan = plan_cases(cases, answered=self.answers.has)
        if self.plan.asks and self.options.record == "all":
            try:
                self.answers.begin(self.plan.digest)
            except RegaugeError as error:
                for draw in self.plan.missing:
                    draw.planned.error = error
            # A run that was cut off left answers that count.
            self.plan = plan_cases(cases, answered=self.answers.has)
        return self.plan

    @contextmanager
    def running(self, *, meanwhile: Callable[[], object] = lambda: None) -> Generator[None]:
        """Ask models ahead of the cases that are judged, while the block runs.

        Args:
            meanwhile: Called once while the first answers are awaited, where any have to be.
        """
        draws = self.plan.asks
        if not draws or self.options.record == "none":
            asking = any(planned.suite.standings for planned in self.plan.cases)
            with self._loop.shared() if asking else nullcontext():
                yield
            return
        drawing = self._drawing()
        self._trials = self._made_by(drawing)
        self.progress.start(len(self.plan.missing))
        with Lookahead(
            draws,
            perform=self._trials.ask,
            width=drawing.ahead,
            fixed=self.options.ahead is not None,
            close=drawing.aclose,
        ) as self._lookahead:
            # On this thread, and before a test begins: packages such as requests set filters of
            # warnings while they are imported, and each test restores those that it began with.
            self._trials.prepare(self.plan.missing)
            meanwhile()
            yield
        # Its lists of all draws make room for the recordings that are written next.
        self._lookahead = None

    @asynccontextmanager
    async def making(self) -> AsyncGenerator[Trials]:
        """The maker of trials, planned or not, on the event loop of the caller.

        Models are asked where the record mode allows it. Not to be used inside `running`.
        """
        if self.options.record == "none":
            yield self._made_by(None)
            return
        drawing = self._drawing()
        try:
            yield self._made_by(drawing)
        finally:
            await drawing.aclose()

    def result(
        self, planned: PlannedCase, *, where: str, waiting: Callable[[DrawProgress], None]
    ) -> EvalResult:
        """The judged trials of one case; what goes wrong makes a trial unmeasured.

        Args:
            planned: One of the planned cases.
            where: The pytest item.
            waiting: Called now and then while the answer is awaited.
        """
        trials: list[Trial] = []
        for number in range(planned.suite.trials):
            draw = Draw(planned, number)
            try:
                asked = self.take(draw, waiting=waiting)
            except RegaugeError as error:
                trials.append(unmeasured_trial(draw, error))
            else:
                trials.append(self._trials.conclude(draw, asked))
        return EvalResult(suite=planned.suite, case=planned.case, trials=tuple(trials), where=where)

    def finish(self, *, complete: bool) -> WrittenRecordings:
        """Write what was drawn and measured to the committed recordings.

        Args:
            complete: Whether the run reached its end; a run that did not can be resumed.

        After `close` this writes nothing.
        """
        if self._cluster is not None:
            self._cluster.stop()
        if self._closed:
            return WrittenRecordings()
        try:
            published = self.answers.finish(complete=complete)
        finally:
            try:
                vectors = self.embeddings.finish()
            finally:
                measured = self.measurements.finish()
        return replace(published, written={**published.written, **vectors, **measured})

    def note_stored(self) -> None:
        """Have `finish` write what only the local store has of the plan; call no model."""
        for draw in self.plan.draws():
            if draw.planned.error is None:
                with suppress(UnmeasuredError):  # its case says so
                    self.answers.note_stored(draw)

    @cached_property
    def _usage(self) -> ExpectedUsage:
        return ExpectedUsage(self.answers)

    def missing_answers(self, draws: Iterable[Draw]) -> list[MissingAnswers]:
        """The usage of missing completions, per prompt."""
        return missing_answers(
            draws, self._usage, self.answers, self.project.settings, options=self.options
        )

    def missing_judgements(
        self, draws: Iterable[Draw], *, misses: Misses | None = None
    ) -> list[MissingJudgements]:
        """The usage of missing judgements, per LLM judge.

        Args:
            draws: Those without a completion, so without any judgement.
            misses: Judgements of completions that cannot be replayed; none by default.
        """
        misses = misses or Misses()
        for draw in draws:
            for judge in draw.planned.suite.model_judges:
                misses.note(judge, draw)
        settings = self.project.settings
        judging = ExpectedJudging(self.answers, settings, self._usage)
        return misses.summary(judging, self.answers, settings, options=self.options)

    def close(self) -> None:
        """End the run and leave the committed recordings alone; the local store has the answers."""
        self._closed = True
        if self._cluster is not None:
            self._cluster.stop()
        self.answers.finish(complete=True, publish=False)

    def embed(self, draw: Draw) -> None:
        """Record the vectors that judges of a draw will ask for; no answer, no vectors.

        Raises:
            UnmeasuredError: The embedding model could not be asked.
            RegaugeError: The case has nothing to compare with, or recordings cannot be read.
        """
        planned = draw.planned
        judges = self.embeddings.served(planned.suite.judges, planned.case)
        answer = self.answers.find_draw(draw) if judges else None
        if answer is not None:
            for judge in judges:
                run_stoppable(judge.prepare(answer.completion, planned.case))

    def used_by_judges(self, prompt: str, cases: Sequence[PlannedCase]) -> Used:
        """The recordings that judges use for every recorded completion of a prompt.

        Args:
            prompt: The prompt.
            cases: Those that can ask it; answers of any trial and of any model count.
        """
        trials = self._made_by(None)
        draws = recorded_draws(self.answers.file(prompt), cases)

        async def judge_all() -> None:
            for draw, answer in draws:
                await trials.judged(draw, answer)

        run_stoppable(judge_all())
        return trials.used(prompt)

    def reading(self) -> EvalSession:
        """Another session of the same project that reads what is committed and calls no model."""
        options = replace(self.options, record="none")
        return EvalSession(self.project, options, environ=self._environ)

    def replay(self, draws: Sequence[Draw]) -> list[Trial]:
        """The judged trials of recorded draws; no model is called."""
        trials = self._made_by(None)
        return [self._loop.run(trials.make(draw)) for draw in draws]

    def take(self, draw: Draw, *, waiting: Callable[[DrawProgress], None]) -> AskedTrial:
        """The answer of one draw, and what the judges that ask a model say of it.

        Raises:
            UnmeasuredError: There is no answer.
            RegaugeError: The case cannot be asked.
        """
        if draw.planned.error is not None:
            raise draw.planned.error
        if self._lookahead is not None and draw in self._lookahead:
            return self._lookahead.take(
                draw, waiting=lambda: waiting(self.progress), every_s=_PROGRESS_EVERY_S
            )
        if draw.planned.suite.model_judges:
            return self._loop.run(self._trials.ask(draw))
        return AskedTrial(answer=self._trials.find(draw), opinions={})

    def _drawing(self) -> Drawing:
        return Drawing(
            self.project,
            self.options,
            answers=self.answers,
            budget=self.budget,
            environ=self._environ,
            workers=self._workers,
            note=self.progress.notes.append,
            batches=self.batches,
            cluster=self._cluster,
        )

    def _made_by(self, drawing: Drawing | None) -> Trials:
        return Trials(
            answers=self.answers,
            measurements=self.measurements,
            misses=self.misses,
            progress=self.progress,
            rejudge=self.options.rejudge,
            offline=self.options.record == "none",
            drawing=drawing,
        )
