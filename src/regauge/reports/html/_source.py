"""The sources of the page: the run record, golden cases, refinement runs and the run history."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from regauge.datasets import find_dataset, load_dataset
from regauge.errors import ConfigError, DatasetError
from regauge.gate import CANDIDATE_FIRST
from regauge.reports._console import eval_titles, named_evals, named_rows
from regauge.reports._runs import read_record, read_rows
from regauge.reports._tally import models_of
from regauge.stats import wilson

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from regauge.datasets import GoldenCase, Shard
    from regauge.digests import JSON
    from regauge.project import Project
    from regauge.reports._documents import EvalSummary, MeasuredEval, RunRecord, Suggestion


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenFile:
    """One dataset.

    Attributes:
        cases: The golden cases by id.
        problem: The reason why the file could not be read; else empty.
    """

    cases: Mapping[str, GoldenCase]
    problem: str = ""


def read_golden(name: str, project: Project, *, part: Shard | None = None) -> GoldenFile:
    """The dataset of this name, or a part of it; an error of reading becomes `problem`."""
    try:
        fixtures = project.fixtures_dir
        path = find_dataset(name, fixtures_dir=fixtures)
        dataset = load_dataset(path, fixtures_dir=fixtures, shard=part)
    except (DatasetError, ConfigError) as error:
        first = str(error).splitlines()[0]
        return GoldenFile(cases={}, problem=f"The golden cases could not be read: {first}")
    return GoldenFile(cases={case.id: case for case in dataset.cases})


def golden_of(file: GoldenFile, case_id: str, digest: str) -> dict[str, JSON]:
    """The inputs and expected output of a case, or the reason why they are missing.

    Args:
        file: The dataset.
        case_id: The id of the case.
        digest: The digest of the case in the run.
    """
    case = file.cases.get(case_id)
    if case is None:
        removed = f"The case {case_id!r} is no longer in the golden cases."
        return {"problem": file.problem or removed}
    fields: dict[str, JSON] = {"inputs": dict(case.inputs), "location": case.location}
    if case.expected is not None:
        fields["expected"] = case.expected
    if case.checks:
        fields["checks"] = list(case.checks)
    for name in ("source", "licence", "note"):
        if value := getattr(case, name):
            fields[name] = value
    if case.digest != digest:
        fields["problem"] = "The case was changed after this run; this is its current state."
    return fields


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestedRevision:
    """The suggestion for one prompt, with its audit trail.

    Attributes:
        cycles: The decisions by cycle; 0 is before the first. Empty if the audit trail is not on
            this machine.
        problem: The reason why they are missing; else empty.
    """

    suggestion: Suggestion
    cycles: Mapping[int, Sequence[Mapping[str, str]]]
    problem: str = ""


def _read_revision(project: Project, suggestion: Suggestion) -> SuggestedRevision:
    if not suggestion.run:
        return SuggestedRevision(suggestion=suggestion, cycles={})
    from regauge.refine.runs import TrailError

    path = project.state_dir / "refine" / suggestion.run / "trail.jsonl"
    try:
        return SuggestedRevision(suggestion=suggestion, cycles=_cycles(path))
    except TrailError as error:
        return SuggestedRevision(
            suggestion=suggestion, cycles={}, problem=str(error).splitlines()[0]
        )


def _cycles(path: Path) -> dict[int, list[dict[str, str]]]:
    from regauge.refine.runs import read_trail

    notes: dict[int, list[dict[str, str]]] = {}
    for event in read_trail(path):
        if event.kind != "observed":  # only these events have decisions
            continue
        for note in event.body["decisions"]:
            subject = _shorten(note["subject"])
            notes.setdefault(event.body["state"]["cycle"], []).append({**note, "subject": subject})
    return dict(sorted(notes.items()))


def _shorten(subject: str) -> str:
    """A digest in its short form; other texts are unchanged.

    >>> _shorten("a" * 64), _shorten("a prompt")
    ('aaaaaaaaaaaa', 'a prompt')
    """
    return subject[:12] if re.fullmatch("[0-9a-f]{64}", subject) else subject


# More points would be closer than a dot is wide.
_POINTS_MAX = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRate:
    """One run of one prompt.

    Attributes:
        run: The id of the run.
        started_at: The start of the run, ISO 8601 in UTC.
        version: The prompt's version, or the beginning of its digest without one.
        passed: Passed cases; in a gate run, by the first trial of each case.
        cases: Measured cases.
        low: The lower end of the 95 % interval of the pass rate, from 0 to 1.
        high: The upper end.
    """

    run: str
    started_at: str
    version: str
    digest: str
    model: str
    passed: int
    cases: int
    low: float
    high: float

    @property
    def rate(self) -> float:
        """The share of measured cases that passed, from 0 to 1."""
        return self.passed / self.cases


def points_of(
    record: RunRecord,
    counts: Mapping[str, tuple[int, int]],
    measured: Mapping[str, Iterable[MeasuredEval]],
) -> dict[str, list[PassRate]]:
    """The points of each prompt up to this run, the oldest first.

    Runs with another dataset, eval or model are left out. So are runs that measured less than half
    as many cases as another, as they ran a selection.

    Args:
        record: The run.
        counts: Passed and measured cases by prompt, see `pass_counts`.
        measured: The measurements of each prompt so far, the oldest first.
    """
    evals = {eval_.prompt: eval_ for eval_ in reversed(record.evals) if eval_.side != "base"}
    points: dict[str, list[PassRate]] = {}
    for prompt, eval_ in evals.items():
        prompt_points = [
            _point(point.run, point.started_at, point, point.passed, point.measured)
            for point in takewhile(lambda point: point.run != record.id, measured.get(prompt, ()))
            if point.measured
            and point.side != "base"
            and (point.dataset, point.model) == (eval_.dataset, eval_.model)
            and point.eval in {"", eval_.eval}
            and point.started_at <= record.started_at
        ]
        passed, cases = counts.get(prompt, (0, 0))
        if cases:
            prompt_points.append(_point(record.id, record.started_at, eval_, passed, cases))
        cases_max = max((point.cases for point in prompt_points), default=0)
        comparable = [point for point in prompt_points if 2 * point.cases >= cases_max]
        points[prompt] = comparable[-_POINTS_MAX:]
    return points


def pass_counts(record: RunRecord, rows: Iterable[Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
    """The passed and measured cases by prompt; of several models, the first counts.

    A gate re-runs suspicious cases, and passes cases that also fail on base. So only its first
    trials count, which are comparable with those of other runs.
    """
    counts: dict[str, tuple[int, int]] = {}
    if record.decision is None and not record.awaits_decision:
        first = {prompt: models[0] for prompt, models in models_of(record).items()}
        for eval_ in record.evals:
            if first.get(eval_.prompt, eval_.model) != eval_.model:
                continue
            passed, measured = counts.get(eval_.prompt, (0, 0))
            counts[eval_.prompt] = (
                passed + eval_.passed,
                measured + eval_.cases - eval_.unmeasured,
            )
        return counts
    first_trials = {0, CANDIDATE_FIRST}
    for row in rows:
        if row["side"] == "base" or row["outcome"] == "unmeasured":
            continue
        if row["trial"] in first_trials:
            passed, measured = counts.get(row["prompt"], (0, 0))
            counts[row["prompt"]] = (passed + (row["outcome"] == "passed"), measured + 1)
    return counts


def _point(
    run: str, started_at: str, eval_: MeasuredEval | EvalSummary, passed: int, cases: int
) -> PassRate:
    interval = wilson(passed, cases)
    return PassRate(
        run=run,
        started_at=started_at,
        version=eval_.version or eval_.prompt_digest[:8],
        digest=eval_.prompt_digest,
        model=eval_.model,
        passed=passed,
        cases=cases,
        low=interval.low,
        high=interval.high,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSource:
    """The data of a page, read from disk.

    Attributes:
        rows: The trials of the run, in the shape of `TrialRow`.
        against: The run to compare with; None without one.
        against_rows: The trials of that run.
        golden: The current golden cases by dataset.
        history: The pass rates of each prompt so far, the oldest first.
        revisions: The suggested revisions.
        counts: Passed and measured cases by prompt, see `pass_counts`.
        title: The headline of compared runs; empty for that of the run.
        notes: Notes on the comparison.
    """

    record: RunRecord
    rows: Sequence[Mapping[str, Any]]
    against: RunRecord | None = None
    against_rows: Sequence[Mapping[str, Any]] = ()
    golden: Mapping[str, GoldenFile]
    history: Mapping[str, Sequence[PassRate]]
    revisions: Sequence[SuggestedRevision] = ()
    counts: Mapping[str, tuple[int, int]]
    title: str = ""
    notes: Sequence[str] = ()


def load_source(
    run: Path,
    *,
    project: Project,
    against: Path | None = None,
    measured: Callable[[str], Iterable[MeasuredEval]] | None = None,
    cases: bool = True,
) -> ReportSource:
    """Read the data of a page.

    Args:
        run: The directory of the run.
        project: The project, with golden cases.
        against: The directory of a run to compare with; None without one.
        measured: Returns the measurements of a prompt in other runs, the oldest first; None to
            show this run alone.
        cases: Whether to read trials and golden cases.

    Raises:
        InvalidFileError: A record cannot be read.
    """
    record = read_record(run)
    evals = named_evals(record.evals, record.decision)
    names = eval_titles(record.evals, record.decision)
    past = {name: measured(prompt) for (prompt, *_), name in names.items()} if measured else {}
    rows = list(named_rows(read_rows(run), record)) if cases else ()
    all_rows = rows if cases else named_rows(read_rows(run), record)
    rows_against = list(named_rows(read_rows(against), record)) if against and cases else ()
    record = record.model_copy(update={"evals": evals})
    counts = pass_counts(record, all_rows)
    return ReportSource(
        record=record,
        rows=rows,
        against=read_record(against) if against else None,
        against_rows=rows_against,
        golden={name: read_golden(name, project) for name in {row["dataset"] for row in rows}},
        history=points_of(record, counts, past),
        revisions=[_read_revision(project, suggestion) for suggestion in record.suggestions],
        counts=counts,
    )
