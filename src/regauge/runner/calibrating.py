"""Runs a judge on labelled outputs, with recordings and a budget as in a run of evals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from regauge.digests import digest_of
from regauge.errors import UnmeasuredError
from regauge.judges.calibration import file_stem, judge_labels
from regauge.recordings import RecordingKey
from regauge.runner._budget import Budget
from regauge.runner._calls import LiveCalls, RunProgress
from regauge.runner._completions import Completions
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
    """The name of a judge's calibration recordings, for `Completions.file`."""
    return f"judges/calibration/{file_stem(judge)}"


class LabelRun:
    """A run of one judge on the labelled outputs of a project.

    Attributes:
        totals: The usage of its model calls.
        progress: The progress of all judgements, each counted at its first response.
        budget: The limits and the spending.

    Args:
        project: The project with recordings, endpoints and prices.
        options: The record mode, the concurrency and the budget.
        judge: The judge.
        environ: The environment with the API keys.
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
        self.progress = RunProgress()
        self.budget = Budget(
            options.budget_usd,
            limit_tokens=options.budget_tokens,
            limit_calls=options.budget_calls,
        )
        self._project = project
        self._options = options
        self._judge = judge
        self._environ = environ
        self._file = calibration_recordings(judge.name)
        self._completions = Completions(project, options.record, environ=environ)
        self._live_calls: LiveCalls | None = None
        self._requests: dict[RecordingKey, None] = {}
        self._started_judgements: set[tuple[str, int]] = set()

    def judge_all(
        self, labels: Sequence[Label], cases: Mapping[str, GoldenCase], *, repeats: int
    ) -> list[LabelledVerdict]:
        """Judge every labelled output; each response is stored on arrival.

        Args:
            labels: The labels of one file.
            cases: The golden cases, by label id.
            repeats: The number of judgements of each label, at least 1.

        Raises:
            UnmeasuredError: A judgement has no response.
            RegaugeError: Recordings cannot be read or written.
        """
        self.progress.start(len(labels) * repeats)
        if self._options.record == "all":
            rows = {label.id: label.to_json() for label in labels}
            self._completions.begin(digest_of([self._judge.digest, rows, repeats]))
        complete = False
        try:
            verdicts = run_stoppable(self._judge_all(labels, cases, repeats))
            complete = True
        finally:
            self._completions.finish(complete=complete)
        return verdicts

    def prune(self) -> tuple[int, int]:
        """Remove recordings that this run did not use; returns the number removed, and of how many.

        Raises:
            RecordingError: The file cannot be read or written.
        """
        file = self._completions.file(self._file)
        before = len(file)
        removed = file.prune(self._requests)
        file.save()
        return removed, before

    async def _judge_all(
        self, labels: Sequence[Label], cases: Mapping[str, GoldenCase], repeats: int
    ) -> list[LabelledVerdict]:
        if self._options.record != "none":
            self._live_calls = LiveCalls(
                self._project,
                self._options,
                completions=self._completions,
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
            if self._live_calls is not None:
                await self._live_calls.aclose()

    async def get_response(
        self, request: CompletionRequest, label: Label, repeat: int
    ) -> Completion:
        """The model's response: recorded, from the local store, or live.

        Raises:
            UnmeasuredError: There is none.
        """
        case_request = CaseRequest(
            request=request,
            key=RecordingKey.from_request(request),
            file=self._file,
            prompt=self._judge.name,
            version=None,
            caller_digest=self._judge.digest,
            case=label.id,
            judge=self._judge.name,
        )
        sourced = self._completions.find(case_request.completion_key)
        if sourced is None:
            if self._live_calls is None:
                raise UnmeasuredError(
                    f"no recorded response of {case_request.model} for judge {self._judge.name!r}\n"
                    f"  record it: regauge judges calibrate {file_stem(self._judge.name)}"
                    " --record=missing"
                )
            sourced = await self._live_calls.complete(case_request)
        if case_request.key not in self._requests:
            self._requests[case_request.key] = None
            self.totals = self.totals.plus(sourced.completion, live=sourced.source == "live")
        if (label.id, repeat) not in self._started_judgements:
            self._started_judgements.add((label.id, repeat))
            self.progress.count()
        return sourced.completion


@dataclass(frozen=True, slots=True, kw_only=True)
class _LabelCalls:
    """The model calls of one judgement of a labelled output: the protocol `JudgeCalls`."""

    run: LabelRun
    label: Label
    trial: int

    async def complete(self, request: CompletionRequest) -> Completion:
        """The model's response.

        Raises:
            UnmeasuredError: There is none.
        """
        return await self.run.get_response(request, self.label, self.trial)
