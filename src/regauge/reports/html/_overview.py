"""What stands on the first page, and above the cases of each prompt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from regauge.reports._answer_diff import answer_diff
from regauge.reports._gate_console import (
    VERDICTS,
    calls_line,
    headline,
    reasons_beside,
    version_step,
)
from regauge.reports._gate_table import pass_rates
from regauge.reports._groups import groups_of
from regauge.reports._labels import label_table
from regauge.reports.html._cases import NOT_BLOCKING, TRACKED
from regauge.reports.html._history import pass_counts
from regauge.reports.html._plot import Plot, plot_of
from regauge.stats import wilson

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from regauge.digests import JSON
    from regauge.reports._decision import CaseDocument, DecisionDocument, PromptDocument
    from regauge.reports._groups import CaseGroup
    from regauge.reports._schema import JudgeName, RunRecord, SuiteSummary
    from regauge.reports.html._source import ReportSource

__all__ = ["ChangedCases", "Kind", "Overview", "PromptPage", "overview_of"]

# The table of cases has them all.
_KINDS_MAX = 20
_CASES_MAX = 50

# What is told of cases, the weightiest first; in a run that does not gate they pass or fail.
_WORDS = ("failed", *(words.column for words in VERDICTS.values()), TRACKED, NOT_BLOCKING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Cases that changed in the same way.

    Attributes:
        title: How many cases, and their check with what it expected and got.
        first: The case that stands for all.
        diff: Its two answers, line by line.
        others: The rest, up to a limit.
        left_out: How many are not shown.
    """

    title: str
    first: CaseDocument
    diff: Sequence[str]
    others: Sequence[CaseDocument]
    left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedCases:
    """The cases of one verdict, by kind.

    Attributes:
        verdict: In words.
        kinds: The largest first, up to a limit.
        left_out: How many cases are of other kinds.
    """

    verdict: str
    kinds: Sequence[Kind]
    left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptPage:
    """One prompt of a run.

    Attributes:
        step: From which version to which.
        counts: How many cases have each verdict, in words, the weightiest first.
        rate: The share of measured cases that passed, from 0 to 1; None where none was measured.
        suites: Its suites, those of the candidate first.
        decided: What the gate says of it; None in a run that does not gate.
        rates: In a run that gates, the base's pass rate and the candidate's, with the interval of
            the difference.
    """

    name: str
    step: str
    simulated: bool
    counts: tuple[tuple[str, int], ...]
    passed: int
    measured: int
    rate: float | None
    low: float
    high: float
    suites: tuple[SuiteSummary, ...]
    plot: Plot | None
    decided: PromptDocument | None
    rates: str = ""

    @property
    def judges(self) -> tuple[JudgeName, ...]:
        """Those of the candidate, with what they came to."""
        return tuple(judge for suite in self.suites[:1] for judge in suite.judges)

    @property
    def label_tables(self) -> tuple[tuple[str, list[list[str]]], ...]:
        """The confusion matrix of each judge that compares labels, with the judge's name."""
        return tuple((judge.name, label_table(judge)) for judge in self.judges if judge.labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The first page.

    Attributes:
        title: What the run came to, in a few words.
        tone: `good`, `bad` or `warn`.
        reasons: Of the decision, without what the title states.
        changed: The cases that broke, are undecided or were fixed, by kind.
        calls: What the gate asked for; empty in a run that does not gate.
    """

    title: str
    tone: str
    decision: DecisionDocument | None
    calls: str
    prompts: tuple[PromptPage, ...]
    reasons: Sequence[str]
    changed: Sequence[ChangedCases]
    columns: tuple[str, ...]


def overview_of(
    source: ReportSource, cases: Mapping[str, Sequence[Mapping[str, JSON]]]
) -> Overview:
    """The first page of a run whose cases are given by prompt."""
    record = source.record
    pages = [_page(name, source, cases.get(name, ())) for name in _names(record, cases)]
    met = {word for page in pages for word, count in page.counts if count}
    gate = record.decision
    title, tone = _headline(record)
    return Overview(
        title=title,
        tone=tone,
        decision=gate,
        calls=calls_line(gate) if gate else "",
        prompts=tuple(pages),
        reasons=reasons_beside(gate) if gate else (),
        changed=tuple(_changed(gate)) if gate else (),
        columns=tuple(word for word in _WORDS if word in met),
    )


def _changed(gate: DecisionDocument) -> Iterator[ChangedCases]:
    for verdict, words in VERDICTS.items():
        groups = groups_of(case for case in gate.cases if case.verdict == verdict)
        if words.diff and groups:
            yield ChangedCases(
                verdict=words.column,
                kinds=[_kind(group) for group in groups[:_KINDS_MAX]],
                left_out=sum(len(group.cases) for group in groups[_KINDS_MAX:]),
            )


def _kind(group: CaseGroup) -> Kind:
    first, *others = group.cases
    return Kind(
        title=group.title,
        first=first,
        diff=answer_diff(first),
        others=others[:_CASES_MAX],
        left_out=len(others[_CASES_MAX:]),
    )


def _names(record: RunRecord, cases: Iterable[str]) -> list[str]:
    decided = [prompt.prompt for prompt in record.decision.prompts] if record.decision else []
    return list(dict.fromkeys([*decided, *(suite.prompt for suite in record.suites), *cases]))


def _page(name: str, source: ReportSource, cases: Sequence[Mapping[str, JSON]]) -> PromptPage:
    gate = source.record.decision
    suites = sorted(
        (suite for suite in source.record.suites if suite.prompt == name),
        key=lambda suite: suite.arm == "main",
    )
    decided = next((one for one in gate.prompts if one.prompt == name), None) if gate else None
    told: dict[str, int] = {}
    for case in cases:
        word = str(case["verdict"])
        told[word] = told.get(word, 0) + 1
    passed, measured = pass_counts(source.record, source.rows).get(name, (0, 0))
    interval = wilson(passed, measured) if measured else None
    points = source.history.get(name, ())
    return PromptPage(
        name=name,
        step=version_step(decided) if decided else _version(suites),
        simulated=any(suite.simulated for suite in suites),
        counts=tuple((word, told[word]) for word in _WORDS if word in told),
        passed=passed,
        measured=measured,
        rate=passed / measured if measured else None,
        low=interval.low if interval else 0.0,
        high=interval.high if interval else 1.0,
        suites=tuple(suites),
        plot=plot_of(points) if points else None,
        decided=decided,
        rates=pass_rates(gate, decided) if gate and decided else "",
    )


def _version(suites: Sequence[SuiteSummary]) -> str:
    if not suites:
        return ""
    version = suites[0].version or "unversioned"
    return f"{version} (simulated)" if suites[0].simulated else version


def _headline(record: RunRecord) -> tuple[str, str]:
    if record.decision is not None:
        tones = {"accept": "good", "reject": "bad"}
        text = headline(record.decision)
        return text[:1].upper() + text[1:], tones.get(record.decision.decision, "warn")
    cases = sum(suite.cases for suite in record.suites)
    failed = sum(suite.failed for suite in record.suites)
    unmeasured = sum(suite.unmeasured for suite in record.suites)
    tracked = sum(suite.tracked_failed for suite in record.suites)
    not_blocking = sum(suite.not_blocking for suite in record.suites)
    noun = "case" if cases == 1 else "cases"
    if not cases:
        return "Nothing was measured", "warn"
    text = f"{failed} of {cases} {noun} failed" if failed else f"{cases} {noun}, none failed"
    if unmeasured:
        text += f", {unmeasured} unmeasured"
    if tracked:
        text += f" ({tracked} tracked did, which block nothing)"
    if not_blocking:
        text += f" ({not_blocking} failed without blocking)"
    if record.status == "interrupted":
        text = f"Interrupted: {text}"
    weak = unmeasured or record.status == "interrupted"
    return text, "bad" if failed else "warn" if weak else "good"
