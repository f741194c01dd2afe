"""Has a judge asked about labelled answers: recorded, replayed and budgeted as in a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from regauge.digests import digest_of
from regauge.errors import UnmeasuredError
from regauge.judges.calibration import file_stem, judge_labels
from regauge.recordings import RecordingKey
from regauge.runner._answers import Answers
from regauge.runner._drawing import Budget, Drawing, DrawProgress
from regauge.runner._plan import CaseRequest
from regauge.runner._result import CallTotals
from regauge.stop_signals import run_stoppable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.datasets import GoldenCase
    from regauge.judges import ModelJudge
    from regauge.judges.calibration import Label, LabelledVerdict
    from regauge.project import Project
    from regauge.providers import Completion, CompletionRequest
    from regauge.runner._spec import RunOptions


def calibration_recordings(judge: str) -> str:
    """The recordings file of a judge's calibration, as `Answers.file` takes it."""
    return f"judges/calibration/{file_stem(judge)}"


class LabelRun:
    """One judge, asked about the labelled answers of a project.

    Attributes:
        totals: What its model calls used.
        progress: Of the judgements of all labels, each counted at its first reply.
        budget: What it may spend, and did.

    Args:
        project: Whose recordings, endpoints and prices.
        options: The record mode, the concurrency and the budget.
        judge: Who is asked.
        environ: Where API keys are.
    """

    def __init__(
        self,
        project: Project,
        options: RunOptions,
        judge: ModelJudge,
        *,
        environ: Mapping[str, str],
    ) -> None:
        self.totals = CallTotals()
        self.progress = DrawProgress()
        self.budget = Budget(options.budget_usd)
        self._project = project
        self._options = options
        self._judge = judge
        self._environ = environ
        self._file = calibration_recordings(judge.name)
        self._answers = Answers(project, options.record, environ=environ)
        self._drawing: Drawing | None = None
        self._asked: dict[RecordingKey, None] = {}
        self._begun: set[tuple[str, int]] = set()

    def judge_all(
        self, labels: Sequence[Label], cases: Mapping[str, GoldenCase], *, repeats: int
    ) -> list[LabelledVerdict]:
        """Judge every label; each reply is kept as soon as it arrives.

        Args:
            labels: Of one file.
            cases: The golden case of each, by the label's id.
            repeats: How often it is asked about each, at least once.

        Raises:
            UnmeasuredError: It could not be asked about some.
            RegaugeError: Recordings cannot be read or written.
        """
        self.progress.start(len(labels) * repeats)
        if self._options.record == "all":
            rows = {label.id: label.to_json() for label in labels}
            self._answers.begin(digest_of([self._judge.digest, rows, repeats]))
        complete = False
        try:
            judged = run_stoppable(self._judge_all(labels, cases, repeats))
            complete = True
        finally:
            self._answers.finish(complete=complete)
        return judged

    def prune(self) -> tuple[int, int]:
        """Remove the recordings of this judge that it did not ask for; how many, and of how many.

        Raises:
            RecordingError: The file cannot be read or written.
        """
        file = self._answers.file(self._file)
        before = len(file)
        removed = file.prune(self._asked)
        file.save()
        return removed, before

    async def _judge_all(
        self, labels: Sequence[Label], cases: Mapping[str, GoldenCase], repeats: int
    ) -> list[LabelledVerdict]:
        if self._options.record != "none":
            self._drawing = Drawing(
                self._project,
                self._options,
                answers=self._answers,
                budget=self.budget,
                environ=self._environ,
                workers=1,
            )
        try:
            return await judge_labels(
                self._judge,
                labels,
                cases,
                calls=lambda label, repeat: _LabelCalls(run=self, label=label, trial=repeat),
                repeats=repeats,
            )
        finally:
            if self._drawing is not None:
                await self._drawing.aclose()

    async def ask(self, request: CompletionRequest, label: Label, repeat: int) -> Completion:
        """The model's reply: recorded, from the local store, or live.

        Raises:
            UnmeasuredError: There is none.
        """
        question = CaseRequest(
            request=request,
            key=RecordingKey.from_request(request),
            file=self._file,
            prompt=self._judge.name,
            version=None,
            asker_digest=self._judge.digest,
            case=label.id,
            judge=self._judge.name,
        )
        answer = self._answers.find(question.answer_key)
        if answer is None:
            if self._drawing is None:
                raise UnmeasuredError(
                    f"no recorded reply of {question.model} for judge {self._judge.name!r}\n"
                    f"  record it: regauge judges calibrate {file_stem(self._judge.name)}"
                    " --record=missing"
                )
            answer = await self._drawing.ask(question)
        if question.key not in self._asked:
            self._asked[question.key] = None
            self.totals = self.totals.plus(answer.completion, live=answer.source == "live")
        self._begun.add((label.id, repeat))
        self.progress.landed = len(self._begun)
        return answer.completion


@dataclass(frozen=True, slots=True, kw_only=True)
class _LabelCalls:
    """The model calls of one judgement of a labelled answer: the protocol `JudgeCalls`."""

    run: LabelRun
    label: Label
    trial: int

    async def complete(self, request: CompletionRequest) -> Completion:
        """The model's reply.

        Raises:
            UnmeasuredError: There is none.
        """
        return await self.run.ask(request, self.label, self.trial)
