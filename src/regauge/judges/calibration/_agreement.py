"""Runs a judge on labels, and measures how far it agrees with them and with itself."""

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
    Fault,
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
# Records are rounded, so that they do not differ between machines; the seed makes intervals
# repeatable.
_DIGITS = 4
_SEED = 2026
_NO_VERDICT = frozenset({"abstain", "unreadable"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The judgement of one labelled answer or pair.

    Attributes:
        opinions: One word; for a pair two, the winner as the pair stands and with its answers
            exchanged.
        score: From 0 to 1; 0 for a pair.
        reason: In the judge's words, or why there is no verdict.
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
    """A label, and what the judge said of the same: the first judgement counts.

    Attributes:
        judgements: At least one; the others show how far the judge agrees with itself.
    """

    label: Label
    judgements: tuple[Judgement, ...]

    @property
    def first(self) -> Judgement:
        """The judgement that is compared with the label."""
        return self.judgements[0]


def levels_of(scores: Sequence[float]) -> tuple[float, ...]:
    """The scale that people used: every score that occurs, or quarters where many do."""
    levels = tuple(sorted(set(scores)))
    return levels if len(levels) <= _LEVELS_MAX else _QUARTERS


def agreement_of(kind: LabelKind, judged: Sequence[LabelledVerdict]) -> Agreement:
    """The numbers of a calibration.

    Args:
        kind: Of what kind the labels are.
        judged: In the order of the labels.
    """
    first = [judgement.first.opinions for judgement in judged]
    readable = [judgement for judgement in judged if judgement.first.readable]
    words = _RaterLabels(kind, judged)
    rows = [_Row(words, judgement) for judgement in readable]
    return Agreement(
        judged=len(readable),
        abstained=sum("abstain" in says for says in first),
        unreadable=sum("unreadable" in says for says in first),
        base_rate=_base_rate(readable),
        commonest=_commonest(rows),
        confusion=_confusion(words, rows),
        self_consistency=_self_consistency(words, judged),
        position_flips=_flips(rows) if kind == "pairs" else None,
        disagreements=tuple(
            judgement.label.id for judgement in readable if _differs(words, judgement)
        ),
        **_estimates(kind, words, rows),
    )


def disagrees(kind: LabelKind, judged: Sequence[LabelledVerdict]) -> list[LabelledVerdict]:
    """Those where the judge contradicts the label, in order."""
    words = _RaterLabels(kind, judged)
    return [
        judgement for judgement in judged if judgement.first.readable and _differs(words, judgement)
    ]


class _RaterLabels:
    """The words that both use: pass and fail, levels of a scale, or the winner of a pair."""

    def __init__(self, kind: LabelKind, judged: Sequence[LabelledVerdict]) -> None:
        self.kind = kind
        levels = (
            levels_of([float(judgement.label.says) for judgement in judged])
            if kind == "scores"
            else ()
        )
        # Scores that read alike are one level.
        self._levels = tuple(dict.fromkeys(float(f"{level:g}") for level in levels))
        self.all: tuple[str, ...] = {
            "outcomes": ("pass", "fail"),
            "pairs": ("a", "b", "tie"),
            "scores": tuple(f"{level:g}" for level in self._levels),
        }[kind]

    def of_label(self, label: Label) -> str:
        """The label of a user."""
        return self._level(float(label.says)) if self.kind == "scores" else str(label.says)

    def of_judgement(self, judgement: Judgement) -> tuple[str, ...]:
        """The label of the judge, in the same words."""
        if self.kind == "scores" and judgement.readable:
            return (self._level(judgement.score),)
        return judgement.opinions

    def _level(self, score: float) -> str:
        return f"{min(self._levels, key=lambda level: abs(level - score)):g}"


class _Row:
    """One label and the first judgement, ready to be counted; a pair counts in both orders."""

    __slots__ = ("human", "judge", "label_score", "score")

    def __init__(self, words: _RaterLabels, judged: LabelledVerdict) -> None:
        self.human = words.of_label(judged.label)
        self.judge = words.of_judgement(judged.first)
        self.score = judged.first.score
        says = judged.label.says
        self.label_score = says if isinstance(says, float) else float(says == "pass")


def _differs(words: _RaterLabels, judged: LabelledVerdict) -> bool:
    return any(says != words.of_label(judged.label) for says in words.of_judgement(judged.first))


def _base_rate(judged: Sequence[LabelledVerdict]) -> float | None:
    if not judged:
        return None
    says = [judgement.label.says for judgement in judged]
    shares = [
        share if isinstance(share, float) else float(share in {"pass", "a"}) for share in says
    ]
    return round(sum(shares) / len(shares), _DIGITS)


def _commonest(rows: Sequence[_Row]) -> float | None:
    if not rows:
        return None
    return round(max(Counter(row.human for row in rows).values()) / len(rows), _DIGITS)


def _flat(rows: Sequence[_Row]) -> tuple[list[str], list[str]]:
    """Both raters' words, one for each judgement."""
    pairs = [(row.human, judge) for row in rows for judge in row.judge]
    return [human for human, _ in pairs], [judge for _, judge in pairs]


def _confusion(words: _RaterLabels, rows: Sequence[_Row]) -> Confusion:
    from regauge.stats import confusion_matrix

    human, judge = _flat(rows)
    used = [word for word in words.all if word != "tie" or "tie" in {*human, *judge}]
    counts = confusion_matrix(human, judge, labels=used).counts
    return Confusion(labels=tuple(used), counts=counts)


def _flips(rows: Sequence[_Row]) -> Flips:
    from regauge.stats import position_flips

    # In the exchanged order, answer `a` is the one shown second.
    first_order: list[_Side] = [_SHOWN[row.judge[0]] for row in rows]
    exchanged: list[_Side] = [_EXCHANGED[row.judge[1]] for row in rows]
    return Flips(**asdict(position_flips(first_order, exchanged)))


_Side: TypeAlias = Literal["first", "second", "tie"]
_SHOWN: dict[str, _Side] = {"a": "first", "b": "second", "tie": "tie"}
_EXCHANGED: dict[str, _Side] = {"a": "second", "b": "first", "tie": "tie"}


def _self_consistency(words: _RaterLabels, judged: Sequence[LabelledVerdict]) -> float | None:
    """The mean share of pairs of judgements of one answer that say the same."""
    shares: list[float] = []
    for labelled in judged:
        opinions = [words.of_judgement(judgement) for judgement in labelled.judgements]
        pairs = list(combinations(opinions, 2))
        if pairs:
            shares.append(sum(this == other for this, other in pairs) / len(pairs))
    return round(sum(shares) / len(shares), _DIGITS) if shares else None


def _estimates(
    kind: LabelKind, words: _RaterLabels, rows: Sequence[_Row]
) -> dict[str, IntervalEstimate | None]:
    import numpy as np

    from regauge.stats import accuracy, cohen_kappa, kendall_tau_b, spearman

    human, judge = _flat(rows)
    row_of = np.array([n for n, row in enumerate(rows) for _ in row.judge], dtype=np.int64)

    def of_words(statistic: Sampled) -> Sampled:
        return lambda drawn: statistic(drawn[:, row_of])

    measures = {
        "accuracy": _estimate(of_words(accuracy(human, judge)), rows, is_accuracy=True),
        "kappa": _estimate(of_words(cohen_kappa(human, judge)), rows),
    }
    if kind != "pairs":
        scores = [row.label_score for row in rows], [row.score for row in rows]
        measures["spearman"] = _estimate(spearman(*scores), rows)
        measures["kendall"] = _estimate(kendall_tau_b(*scores), rows)
    if kind == "scores":
        weighted = cohen_kappa(human, judge, weights="quadratic", labels=words.all)
        measures["weighted_kappa"] = _estimate(of_words(weighted), rows)
    return measures


def _estimate(
    statistic: Sampled, rows: Sequence[_Row], *, is_accuracy: bool = False
) -> IntervalEstimate | None:
    """A statistic with its bootstrap interval; labels are drawn again whole, with both orders."""
    from regauge.stats import Interval, bootstrap_interval, of_all

    value = of_all(statistic, len(rows))
    if value is None:
        return None
    interval = bootstrap_interval(statistic, len(rows), seed=_SEED)
    if interval is not None and interval.low == interval.high and abs(value) == 1:
        # Resampling knows no error that the labels do not show.
        margin = _margin_of_perfect(rows, accuracy=is_accuracy)
        interval = Interval(low=min(value, 1 - margin), high=max(value, margin - 1))
    return IntervalEstimate(
        value=round(value, _DIGITS),
        low=None if interval is None else round(interval.low, _DIGITS),
        high=None if interval is None else round(interval.high, _DIGITS),
    )


def _margin_of_perfect(rows: Sequence[_Row], *, accuracy: bool) -> float:
    """The distance to 1 of a statistic whose resamples are all 1, by Wilson's interval.

    For kappa and correlations, the bound is corrected for the agreement that is due to chance.
    """
    from regauge.stats import wilson

    margin = 1 - wilson(len(rows), len(rows)).low
    if accuracy:
        return margin
    counts = Counter(row.human for row in rows).values()
    by_chance: float = sum((count / len(rows)) ** 2 for count in counts)
    return min(1.0, margin / (1 - by_chance)) if by_chance < 1 else 1.0


# Bounds tasks in memory; the provider has its own limit of concurrent calls.
_CALLS_MAX = 64


class Compared(Protocol):
    """The result of comparing two answers in both orders."""

    @property
    def winners(self) -> tuple[Literal["a", "b", "tie"], Literal["a", "b", "tie"]]:
        """The winner with `a` shown first, and with `b` shown first."""
        ...

    @property
    def reason(self) -> str:
        """The reason, in the judge's words."""
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


def cases_of_labels(
    labels: Labels, dataset_cases: Mapping[str, GoldenCase]
) -> dict[str, GoldenCase]:
    """The golden case of every label, by the label's id.

    Args:
        labels: Each names a case or brings its own.
        dataset_cases: The cases of the datasets, by id.

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
                location=label.at,
            )
        elif label.case in dataset_cases:
            cases[label.id] = dataset_cases[label.case]
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
) -> list[LabelledVerdict]:
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
                    return Judgement(opinions=("unreadable",), reason=str(error))
                failures.add(watched.failure or error, judge.name)
                return None

    if any(len(label.answers) > 1 for label in labels) and not isinstance(judge, ComparingJudge):
        raise UsageError(
            f"the labels of {judge.name!r} are pairs, and this judge compares no answers\n"
            "  fix: label single answers, or calibrate a judge that compares: pairwise(...)"
        )
    numbered = [(label, repeat) for label in labels for repeat in range(repeats)]
    judgements = await asyncio.gather(*(ask(label, repeat) for label, repeat in numbered))
    failures.raise_any()
    judgements_in_turn = iter(cast("list[Judgement]", judgements))
    return [
        LabelledVerdict(
            label=label, judgements=tuple(next(judgements_in_turn) for _ in range(repeats))
        )
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
    """The failures that prevented judgements, each kind once."""

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
        return Judgement(opinions=compared.winners, reason=compared.reason)
    completion = Completion(
        text=answer,
        finish_reason="stop",
        usage=Usage(),
        model="labelled",
        provider="labels",
        latency_s=0.0,
    )
    verdict = await judge.judge_with(completion, case, calls)
    return Judgement(opinions=(verdict.outcome,), score=verdict.score, reason=verdict.reason)
