"""Runs a judge on labelled outputs and measures its agreement with them and with itself."""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, cast, runtime_checkable

from regauge.datasets import GoldenCase
from regauge.errors import (
    BudgetError,
    DatasetError,
    Diagnostic,
    JudgeError,
    RegaugeError,
    UnmeasuredError,
    UsageError,
)
from regauge.judges.calibration._record import Agreement, Confusion, Flips, IntervalEstimate
from regauge.providers import Completion, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from regauge.judges._types import JudgeCalls, ModelJudge
    from regauge.judges.calibration._record import Label, LabelKind, Labels
    from regauge.providers import CompletionRequest
    from regauge.stats._agreement import Sampled


Opinion: TypeAlias = Literal["pass", "fail", "a", "b", "tie", "abstain", "unreadable"]

# More levels are a continuous score, which quarters describe.
_LEVELS_MAX = 10
_QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)
# Records are rounded so that they are equal on all machines; the seed makes intervals repeatable.
_DIGITS = 4
_SEED = 2026
_NO_VERDICT = frozenset({"abstain", "unreadable"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The judgement of one labelled output or pair.

    Attributes:
        opinions: One outcome; for a pair two winners, in the original and the exchanged order.
        score: From 0 to 1; 0 for a pair.
        reason: The judge's reason, or the error without a verdict.
    """

    opinions: tuple[Opinion, ...]
    score: float = 0.0
    reason: str = ""

    @property
    def readable(self) -> bool:
        """Return whether it is a verdict."""
        return not _NO_VERDICT.intersection(self.opinions)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledVerdict:
    """A label with the judgements of the same output.

    Attributes:
        judgements: At least one. The first is compared with the label; the others measure
            self-consistency.
    """

    label: Label
    judgements: tuple[Judgement, ...]

    @property
    def first(self) -> Judgement:
        """The judgement that is compared with the label."""
        return self.judgements[0]


def find_levels(scores: Sequence[float]) -> tuple[float, ...]:
    """The levels of human scores: all distinct scores, or quarters if there are many."""
    levels = tuple(sorted(set(scores)))
    return levels if len(levels) <= _LEVELS_MAX else _QUARTERS


def measure_agreement(kind: LabelKind, verdicts: Sequence[LabelledVerdict]) -> Agreement:
    """Measure the agreement of verdicts with their labels.

    Args:
        kind: The kind of the labels.
        verdicts: The verdicts, in the order of the labels.
    """
    first = [judgement.first.opinions for judgement in verdicts]
    readable = [judgement for judgement in verdicts if judgement.first.readable]
    words = _RaterLabels(kind, verdicts)
    rows = [_Row(words, judgement) for judgement in readable]
    return Agreement(
        verdicts=len(readable),
        abstained=sum("abstain" in opinions for opinions in first),
        unreadable=sum("unreadable" in opinions for opinions in first),
        base_rate=_base_rate(readable),
        majority_accuracy=_majority_accuracy(rows),
        confusion=_confusion(words, rows),
        self_consistency=_self_consistency(words, verdicts),
        position_flips=_flips(rows) if kind == "pairs" else None,
        disagreements=tuple(
            judgement.label.id for judgement in readable if _differs(words, judgement)
        ),
        **_estimates(kind, words, rows),
    )


def find_disagreements(
    kind: LabelKind, verdicts: Sequence[LabelledVerdict]
) -> list[LabelledVerdict]:
    """Find the verdicts that contradict their label, in order."""
    words = _RaterLabels(kind, verdicts)
    return [
        judgement
        for judgement in verdicts
        if judgement.first.readable and _differs(words, judgement)
    ]


class _RaterLabels:
    """The common labels of user and judge: pass and fail, levels of a scale, or winners."""

    def __init__(self, kind: LabelKind, verdicts: Sequence[LabelledVerdict]) -> None:
        self.kind = kind
        levels = (
            find_levels([float(judgement.label.value) for judgement in verdicts])
            if kind == "scores"
            else ()
        )
        # Scores with the same text are one level.
        self._levels = tuple(dict.fromkeys(float(f"{level:g}") for level in levels))
        self.names: tuple[str, ...] = {
            "outcomes": ("pass", "fail"),
            "pairs": ("a", "b", "tie"),
            "scores": tuple(f"{level:g}" for level in self._levels),
        }[kind]

    def of_label(self, label: Label) -> str:
        """The label of a user."""
        return self._level(float(label.value)) if self.kind == "scores" else str(label.value)

    def of_judgement(self, judgement: Judgement) -> tuple[str, ...]:
        """The labels of the judge: one, or for a pair two."""
        if self.kind == "scores" and judgement.readable:
            return (self._level(judgement.score),)
        return judgement.opinions

    def _level(self, score: float) -> str:
        return f"{min(self._levels, key=lambda level: abs(level - score)):g}"


class _Row:
    """A label and its first judgement, as common labels; a pair counts in both orders."""

    __slots__ = ("human", "judge", "label_score", "score")

    def __init__(self, words: _RaterLabels, verdict: LabelledVerdict) -> None:
        self.human = words.of_label(verdict.label)
        self.judge = words.of_judgement(verdict.first)
        self.score = verdict.first.score
        value = verdict.label.value
        self.label_score = value if isinstance(value, float) else float(value == "pass")


def _differs(words: _RaterLabels, verdict: LabelledVerdict) -> bool:
    return any(name != words.of_label(verdict.label) for name in words.of_judgement(verdict.first))


def _base_rate(verdicts: Sequence[LabelledVerdict]) -> float | None:
    if not verdicts:
        return None
    values = [judgement.label.value for judgement in verdicts]
    shares = [
        share if isinstance(share, float) else float(share in {"pass", "a"}) for share in values
    ]
    return round(sum(shares) / len(shares), _DIGITS)


def _majority_accuracy(rows: Sequence[_Row]) -> float | None:
    if not rows:
        return None
    return round(max(Counter(row.human for row in rows).values()) / len(rows), _DIGITS)


def _flatten(rows: Sequence[_Row]) -> tuple[list[str], list[str]]:
    """The labels of both raters, one for each judgement."""
    pairs = [(row.human, judge) for row in rows for judge in row.judge]
    return [human for human, _ in pairs], [judge for _, judge in pairs]


def _confusion(words: _RaterLabels, rows: Sequence[_Row]) -> Confusion:
    from regauge.stats import confusion_matrix

    human, judge = _flatten(rows)
    labels = [word for word in words.names if word != "tie" or "tie" in {*human, *judge}]
    counts = confusion_matrix(human, judge, labels=labels).counts
    return Confusion(labels=tuple(labels), counts=counts)


def _flips(rows: Sequence[_Row]) -> Flips:
    from regauge.stats import position_flips

    # In the exchanged order, output `a` is shown second.
    first_order: list[_Side] = [_SHOWN[row.judge[0]] for row in rows]
    exchanged: list[_Side] = [_EXCHANGED[row.judge[1]] for row in rows]
    return Flips(**asdict(position_flips(first_order, exchanged)))


_Side: TypeAlias = Literal["first", "second", "tie"]
_SHOWN: dict[str, _Side] = {"a": "first", "b": "second", "tie": "tie"}
_EXCHANGED: dict[str, _Side] = {"a": "second", "b": "first", "tie": "tie"}


def _self_consistency(words: _RaterLabels, verdicts: Sequence[LabelledVerdict]) -> float | None:
    """The mean share of equal pairs among the judgements of one output; None without repeats."""
    shares: list[float] = []
    for labelled in verdicts:
        opinions = [words.of_judgement(judgement) for judgement in labelled.judgements]
        pairs = list(combinations(opinions, 2))
        if pairs:
            shares.append(sum(first == second for first, second in pairs) / len(pairs))
    return round(sum(shares) / len(shares), _DIGITS) if shares else None


def _estimates(
    kind: LabelKind, words: _RaterLabels, rows: Sequence[_Row]
) -> dict[str, IntervalEstimate | None]:
    import numpy as np

    from regauge.stats import accuracy, cohen_kappa, kendall_tau_b, spearman

    human, judge = _flatten(rows)
    row_of = np.array([n for n, row in enumerate(rows) for _ in row.judge], dtype=np.int64)

    def of_words(statistic: Sampled) -> Sampled:
        return lambda samples: statistic(samples[:, row_of])

    measures = {
        "accuracy": _estimate(of_words(accuracy(human, judge)), rows, is_accuracy=True),
        "kappa": _estimate(of_words(cohen_kappa(human, judge)), rows),
    }
    if kind != "pairs":
        scores = [row.label_score for row in rows], [row.score for row in rows]
        measures["spearman"] = _estimate(spearman(*scores), rows)
        measures["kendall"] = _estimate(kendall_tau_b(*scores), rows)
    if kind == "scores":
        weighted = cohen_kappa(human, judge, weights="quadratic", labels=words.names)
        measures["weighted_kappa"] = _estimate(of_words(weighted), rows)
    return measures


def _estimate(
    statistic: Sampled, rows: Sequence[_Row], *, is_accuracy: bool = False
) -> IntervalEstimate | None:
    """A statistic with its bootstrap interval; labels are resampled with both orders of a pair."""
    from regauge.stats import Interval, bootstrap_interval, of_all

    value = of_all(statistic, len(rows))
    if value is None:
        return None
    interval = bootstrap_interval(statistic, len(rows), seed=_SEED)
    if interval is not None and interval.low == interval.high and abs(value) == 1:
        # Resampling of perfect labels always yields perfect agreement.
        margin = _margin_of_perfect(rows, accuracy=is_accuracy)
        interval = Interval(low=min(value, 1 - margin), high=max(value, margin - 1))
    return IntervalEstimate(
        value=round(value, _DIGITS),
        low=None if interval is None else round(interval.low, _DIGITS),
        high=None if interval is None else round(interval.high, _DIGITS),
    )


def _margin_of_perfect(rows: Sequence[_Row], *, accuracy: bool) -> float:
    """The margin of a statistic whose resamples are all 1, by Wilson's interval.

    For kappa and correlations it is corrected for agreement by chance.
    """
    from regauge.stats import wilson

    margin = 1 - wilson(len(rows), len(rows)).low
    if accuracy:
        return margin
    counts = Counter(row.human for row in rows).values()
    by_chance: float = sum((count / len(rows)) ** 2 for count in counts)
    return min(1.0, margin / (1 - by_chance)) if by_chance < 1 else 1.0


# Bounds tasks in memory; the provider limits concurrent calls itself.
_CALLS_MAX = 64


class PairComparison(Protocol):
    """The result of comparing two outputs in both orders."""

    @property
    def winners(self) -> tuple[Literal["a", "b", "tie"], Literal["a", "b", "tie"]]:
        """The winner with `a` shown first, and with `b` shown first."""
        ...

    @property
    def reason(self) -> str:
        """The judge's reason."""
        ...


@runtime_checkable
class ComparingJudge(Protocol):
    """A judge that selects the better one of two outputs."""

    async def compare(self, a: str, b: str, case: GoldenCase, calls: JudgeCalls) -> PairComparison:
        """Compare two outputs of one case, in both orders.

        Raises:
            JudgeError: The judge reached no verdict.
            UnmeasuredError: The model could not be called.
        """
        ...


def cases_of_labels(
    labels: Labels, dataset_cases: Mapping[str, GoldenCase]
) -> dict[str, GoldenCase]:
    """The golden case of every label, by the label's id.

    Args:
        labels: The labels; each names a case or has its own inputs.
        dataset_cases: The cases of the datasets, by id.

    Raises:
        DatasetError: Labels name unknown cases; lists all of them.
    """
    cases: dict[str, GoldenCase] = {}
    diagnostics: list[Diagnostic] = []
    for label in labels.labels:
        if label.inputs is not None:
            cases[label.id] = GoldenCase(
                id=label.case or label.id,
                inputs=label.inputs,
                expected=label.expected,
                split="train",
                location=label.location,
            )
        elif label.case in dataset_cases:
            cases[label.id] = dataset_cases[label.case]
        else:
            place, _, line = label.location.rpartition(":")
            diagnostics.append(
                Diagnostic(
                    path=Path(place),
                    line=int(line),
                    message=f"there is no golden case {label.case!r}",
                    fix="name its dataset (--dataset NAME), or give the label its own `inputs`",
                )
            )
    if diagnostics:
        raise DatasetError(diagnostics)
    return cases


async def judge_labels(
    judge: ModelJudge,
    labels: Sequence[Label],
    cases: Mapping[str, GoldenCase],
    *,
    calls: Callable[[Label, int], JudgeCalls],
    repeats: int,
) -> list[LabelledVerdict]:
    """Judge every label, `repeats` times; an unreadable response is no verdict.

    Args:
        judge: The judge; it must compare pairs if the labels are pairs.
        labels: The labels of one file.
        cases: The golden cases, by the label's id.
        calls: Called with a label and the number of the repeat, from 0; returns the model calls of
            that judgement.
        repeats: Judgements of each label, at least 1.

    Raises:
        UnmeasuredError: The model could not be called for some labels; finished judgements are
            recorded.
        UsageError: The labels are pairs, and the judge does not compare pairs.
    """
    room = asyncio.Semaphore(_CALLS_MAX)
    failures = _Failures()

    async def judge_label(label: Label, repeat: int) -> Judgement | None:
        tracked_calls = _TrackedCalls(calls(label, repeat))
        async with room:
            try:
                return await _judge_label(judge, label, cases[label.id], tracked_calls)
            except Exception as error:  # noqa: BLE001 - a judge may break in any way
                if tracked_calls.failure is None and isinstance(error, JudgeError):
                    return Judgement(opinions=("unreadable",), reason=str(error))
                failures.add(tracked_calls.failure or error, judge.name)
                return None

    if any(len(label.outputs) > 1 for label in labels) and not isinstance(judge, ComparingJudge):
        raise UsageError(
            f"the labels of {judge.name!r} are pairs, and this judge compares no pairs\n"
            "  fix: label single outputs, or calibrate a judge that compares: pairwise(...)"
        )
    numbered = [(label, repeat) for label in labels for repeat in range(repeats)]
    judgements = await asyncio.gather(*(judge_label(label, repeat) for label, repeat in numbered))
    failures.raise_any()
    judgements_in_turn = iter(cast("list[Judgement]", judgements))
    return [
        LabelledVerdict(
            label=label, judgements=tuple(next(judgements_in_turn) for _ in range(repeats))
        )
        for label in labels
    ]


class _TrackedCalls:
    """The calls of one judgement; stores the first error, even if the judge hides it."""

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
    """The errors of missing judgements, counted by message."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._budget: str | None = None

    def add(self, error: Exception, judge: str) -> None:
        words = str(error)
        if isinstance(error, BudgetError):  # the sums in its message differ between calls
            self._budget = words = self._budget or words
        elif not isinstance(error, RegaugeError):
            frame = traceback.extract_tb(error.__traceback__)[-1]
            words = (
                f"judge {judge} broke: {type(error).__name__}: {error}\n"
                f"  at {frame.filename}:{frame.lineno}"
            )
        self._counts[words] += 1

    def raise_any(self) -> None:
        """Raise an error for all failures, if there are any.

        Raises:
            UnmeasuredError: Judgements are missing.
        """
        if self._counts:
            lines = [
                f"{n} judgement{'' if n == 1 else 's'} missing: {words}"
                for words, n in self._counts.most_common()
            ]
            raise UnmeasuredError("\n".join(lines))


async def _judge_label(
    judge: ModelJudge, label: Label, case: GoldenCase, calls: JudgeCalls
) -> Judgement:
    output, *other_outputs = label.outputs
    if other_outputs and isinstance(judge, ComparingJudge):
        comparison = await judge.compare(output, other_outputs[0], case, calls)
        return Judgement(opinions=comparison.winners, reason=comparison.reason)
    completion = Completion(
        text=output,
        finish_reason="stop",
        usage=Usage(),
        model="labelled",
        provider="labels",
        latency_s=0.0,
    )
    verdict = await judge.judge_with(completion, case, calls)
    return Judgement(opinions=(verdict.outcome,), score=verdict.score, reason=verdict.reason)
