"""Has a judge say what it thinks of every labelled answer."""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

from regauge.datasets import GoldenCase
from regauge.errors import (
    BudgetError,
    DatasetError,
    Fault,
    JudgeError,
    RegaugeError,
    UnmeasuredError,
    UsageError,
)
from regauge.judges.calibration._agreement import Judged, Judgement
from regauge.providers import Completion, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Literal

    from regauge.judges._asking import JudgeCalls, ModelJudge
    from regauge.judges.calibration._labels import Label, Labels
    from regauge.providers import CompletionRequest

__all__ = ["ComparingJudge", "cases_of_labels", "judge_labels"]

_CALLS_MAX = 64


class Compared(Protocol):
    """What came of comparing two answers in both orders."""

    @property
    def winners(self) -> tuple[Literal["a", "b", "tie"], Literal["a", "b", "tie"]]:
        """Who won with `a` shown first, and with `b` shown first."""
        ...

    @property
    def reason(self) -> str:
        """Why, in the judge's words."""
        ...


@runtime_checkable
class ComparingJudge(Protocol):
    """A judge that says which of two answers is the better one."""

    async def compare(self, a: str, b: str, case: GoldenCase, calls: JudgeCalls) -> Compared:
        """Compare two answers to one case, in both orders.

        Raises:
            JudgeError: No verdict could be reached.
            UnmeasuredError: The model could not be asked.
        """
        ...


def cases_of_labels(labels: Labels, known: Mapping[str, GoldenCase]) -> dict[str, GoldenCase]:
    """The golden case of every label, by the label's id.

    Args:
        labels: Each names a case or brings its own.
        known: The cases of the datasets, by id.

    Raises:
        DatasetError: Labels name cases that are not there; all of them at once.
    """
    cases: dict[str, GoldenCase] = {}
    faults: list[Fault] = []
    for label in labels.labels:
        if label.inputs is not None:
            cases[label.id] = GoldenCase(
                id=label.case or label.id,
                inputs=label.inputs,
                expected=label.expected,
                split="train",
                at=label.at,
            )
        elif label.case in known:
            cases[label.id] = known[label.case]
        else:
            place, _, line = label.at.rpartition(":")
            faults.append(
                Fault(
                    path=Path(place),
                    line=int(line),
                    message=f"there is no golden case {label.case!r}",
                    fix="say which dataset has it (--dataset NAME), or give the label its own"
                    " `inputs`",
                )
            )
    if faults:
        raise DatasetError(faults)
    return cases


async def judge_labels(
    judge: ModelJudge,
    labels: Sequence[Label],
    cases: Mapping[str, GoldenCase],
    *,
    calls: Callable[[Label, int], JudgeCalls],
    repeats: int,
) -> list[Judged]:
    """Ask a judge about every label, `repeats` times; an unreadable reply is no verdict.

    Args:
        judge: Compares pairs if the labels are pairs.
        labels: Of one file.
        cases: By the id of the label.
        calls: The model calls of one judgement: of a label, and which repeat it is, from 0.
        repeats: At least 1.

    Raises:
        UnmeasuredError: The model could not be asked about some; what was answered is kept.
        UsageError: The labels are pairs, and the judge compares none.
    """
    room = asyncio.Semaphore(_CALLS_MAX)
    failures = _Failures()

    async def ask(label: Label, repeat: int) -> Judgement | None:
        watched = _Watched(calls(label, repeat))
        async with room:
            try:
                return await _judgement(judge, label, cases[label.id], watched)
            except Exception as error:  # noqa: BLE001 - a judge may break in any way
                if watched.failure is None and isinstance(error, JudgeError):
                    return Judgement(said=("unreadable",), reason=str(error))
                failures.add(watched.failure or error, judge.name)
                return None

    if any(len(label.answers) > 1 for label in labels) and not isinstance(judge, ComparingJudge):
        raise UsageError(
            f"the labels of {judge.name!r} are pairs, and this judge compares no answers\n"
            "  fix: label single answers, or calibrate a judge that compares: pairwise(...)"
        )
    numbered = [(label, repeat) for label in labels for repeat in range(repeats)]
    said = await asyncio.gather(*(ask(label, repeat) for label, repeat in numbered))
    failures.raise_any()
    found = iter(cast("list[Judgement]", said))
    return [
        Judged(label=label, judgements=tuple(next(found) for _ in range(repeats)))
        for label in labels
    ]


class _Watched:
    """The calls of one judgement, and why the first that failed did, whatever the judge says."""

    def __init__(self, calls: JudgeCalls) -> None:
        self._calls = calls
        self.failure: UnmeasuredError | None = None

    @property
    def trial(self) -> int:
        return self._calls.trial

    async def complete(self, request: CompletionRequest) -> Completion:
        try:
            return await self._calls.complete(request)
        except UnmeasuredError as error:
            self.failure = self.failure or error
            raise


class _Failures:
    """What kept judgements from being made, each kind once."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._budget: str | None = None

    def add(self, error: Exception, judge: str) -> None:
        words = str(error)
        if isinstance(error, BudgetError):  # the sums it names differ from call to call
            self._budget = words = self._budget or words
        elif not isinstance(error, RegaugeError):
            frame = traceback.extract_tb(error.__traceback__)[-1]
            words = (
                f"judge {judge} broke: {type(error).__name__}: {error}\n"
                f"  at {frame.filename}:{frame.lineno}"
            )
        self._counts[words] += 1

    def raise_any(self) -> None:
        """Say what is missing, if anything is.

        Raises:
            UnmeasuredError: Judgements are missing.
        """
        if self._counts:
            lines = [
                f"{n} judgement{'' if n == 1 else 's'} missing: {words}"
                for words, n in self._counts.most_common()
            ]
            raise UnmeasuredError("\n".join(lines))


async def _judgement(
    judge: ModelJudge, label: Label, case: GoldenCase, calls: JudgeCalls
) -> Judgement:
    answer, *others = label.answers
    if others and isinstance(judge, ComparingJudge):
        compared = await judge.compare(answer, others[0], case, calls)
        return Judgement(said=compared.winners, reason=compared.reason)
    verdict = await judge.judge_with(_completion(answer), case, calls)
    return Judgement(said=(verdict.outcome,), score=verdict.score, reason=verdict.reason)


def _completion(answer: str) -> Completion:
    return Completion(
        text=answer,
        finish_reason="stop",
        usage=Usage(),
        model="labelled",
        provider="labels",
        latency_s=0.0,
    )
