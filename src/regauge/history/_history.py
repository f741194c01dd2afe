"""The run history: entries from run records, and pass rates by version."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from regauge.digests import digest_of, digest_of_list
from regauge.errors import InvalidFileError, RegaugeError, StoreError, UsageError
from regauge.history._place import FilePlace, find_store
from regauge.history._store import RunEntry, Store
from regauge.model_id import is_simulated
from regauge.reports import (
    SCHEMA_VERSION,
    WORST_FIRST,
    MeasuredEval,
    RunRecord,
    eval_of,
    list_runs,
    read_record,
    read_rows,
)
from regauge.strict_json import explain_format
from regauge.wording import encodable, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from regauge.project import Project
    from regauge.reports import EvalSummary
    from regauge.stats import Interval


def run_entry(record: RunRecord, read: Callable[[], Iterable[Mapping[str, Any]]]) -> RunEntry:
    """The entry of a run in the history.

    Args:
        record: The record of the run.
        read: Reads its rows, in the shape of `TrialRow`. Called once for the measurements, and
            again when the entry is written.
    """
    first_trials: defaultdict[tuple[str | None, ...], dict[str, _FirstTrial]] = defaultdict(dict)
    names_evals = any(eval_.eval for eval_ in record.evals)  # earlier releases joined them
    for row in read():
        eval_ = (row["prompt"], row["version"], row["dataset"], row["model"], row.get("side"))
        eval_node = eval_of(row["node"]) if names_evals else ""
        _note_trial(first_trials[*eval_, eval_node], row)
    return RunEntry(
        id=record.id,
        started_at=record.started_at,
        finished_at=record.finished_at,
        # ASCII, which every database accepts for any model output.
        document=json.dumps(record.model_dump(mode="json")),
        evals=[_eval_of(record, eval_, first_trials) for eval_ in record.evals],
        trials=(_trial(number, row) for number, row in enumerate(read())),
    )


class _FirstTrial(NamedTuple):
    """The first trial of an item, and the number of its trials; sorted by case."""

    case: str
    case_digest: str
    request: int
    trial: int
    outcome: str
    trials: int


def _note_trial(items: dict[str, _FirstTrial], row: Mapping[str, Any]) -> None:
    """Count a trial; `items` maps node ids to the first trials of an eval."""
    # A gate re-runs failed cases, so only its first trials compare with those of other runs.
    outcome = row["case_outcome" if row.get("side") is None else "outcome"]
    before = items.get(row["node"])
    trials = 1 if before is None else before.trials + 1
    if before is None or row["trial"] < before.trial:
        request = hash(row["request_digest"])
        case, digest = row["case"], row["case_digest"]
        before = _FirstTrial(case, digest, request, row["trial"], outcome, trials)
    items[row["node"]] = before._replace(trials=trials)


def _join_evals(items: Iterable[_FirstTrial]) -> list[_FirstTrial]:
    """One trial for evals that share a completion, with the worst outcome."""
    shared: dict[tuple[str, int], _FirstTrial] = {}
    for item in items:
        before = shared.get(key := (item.case, item.request), item)
        shared[key] = before._replace(
            outcome=min(before.outcome, item.outcome, key=WORST_FIRST.index),
            trials=max(before.trials, item.trials),
        )
    return list(shared.values())


def _eval_of(
    record: RunRecord,
    eval_: EvalSummary,
    first_trials: Mapping[tuple[str | None, ...], Mapping[str, _FirstTrial]],
) -> MeasuredEval:
    key = (eval_.prompt, eval_.version, eval_.dataset, eval_.model, eval_.side, eval_.eval)
    first = _join_evals(first_trials.get(key, {}).values())
    outcomes = Counter(first_trial.outcome for first_trial in first)
    return MeasuredEval(
        run=record.id,
        started_at=record.started_at,
        commit=record.git.commit if record.git else None,
        dirty=record.git.dirty if record.git else False,
        prompt=_storable_name(eval_.prompt),
        version=eval_.version,
        prompt_digest=eval_.prompt_digest,
        dataset=_storable_name(eval_.dataset),
        eval=_storable_name(eval_.eval),
        model=_storable_name(eval_.model),
        side=eval_.side,
        cases=outcomes.total(),
        measured=outcomes.total() - outcomes["unmeasured"],
        passed=outcomes["passed"],
        trials=1 if eval_.side else max((first_trial.trials for first_trial in first), default=0),
        completions=eval_.replays + eval_.live,
        cost_usd=eval_.cost_usd,
        latency_p50_s=eval_.latency_p50_s,
        judges_digest=digest_of(sorted(judge.digest for judge in eval_.judges if judge.blocking)),
        cases_digest=digest_of_list([trial.case, trial.case_digest] for trial in sorted(first)),
    )


def _trial(number: int, row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "number": number,
        "prompt": _storable_name(row["prompt"]),
        "case": _storable_name(row["case"]),
        "side": row.get("side"),
        "trial": row["trial"],
        "outcome": row["outcome"],
        "row": json.dumps(row),
    }


def _storable_name(text: str) -> str:
    """A name without characters that PostgreSQL cannot store."""
    return encodable(text.replace("\0", "\\0"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReport:
    """The result of adding this machine's runs to the history.

    Attributes:
        added_runs: The ids of new runs.
        unreadable: Pairs of a run's id and its error.
    """

    added_runs: tuple[str, ...] = ()
    unreadable: tuple[tuple[str, str], ...] = ()

    @property
    def unreadable_lines(self) -> list[str]:
        """A text for each problem, with the first run that has it and the number of others."""
        by_problem: dict[str, list[str]] = {}
        for run, problem in self.unreadable:
            by_problem.setdefault(problem.replace(run, ""), []).append(
                f"{run}  unreadable: {problem}"
            )
        return [
            text
            + f"\n  and {plural(len(further_texts), 'other run')} for the same reason"
            * bool(further_texts)
            for text, *further_texts in by_problem.values()
        ]


class History:
    """The run history of a project.

    The project's own file is updated from `.regauge/runs` whenever it is opened. A shared store
    is updated at the end of a run, and by `sync`.

    Args:
        project: The project.
        environ: The environment; `REGAUGE_STORE` names a shared store.

    Attributes:
        place: The location of the store.
        caught_up: The result of the update at opening.
    """

    def __init__(self, project: Project, environ: Mapping[str, str]) -> None:
        self._project = project
        self.place = find_store(project, environ)
        self.caught_up = SyncReport()

    @classmethod
    def open(cls, project: Project, environ: Mapping[str, str]) -> History:
        """Open the history of a project; update the project's own file.

        Raises:
            UsageError: The store's URL is invalid.
            StoreError: The store cannot be used.
        """
        history = cls(project, environ)
        if history.place.is_project_file and not history.empty:
            history.caught_up = history.sync()
        return history

    @property
    def empty(self) -> bool:
        """Return whether the history is empty for certain, without opening a database."""
        if not isinstance(self.place, FilePlace) or self.place.file.exists():
            return False
        return not (self.place.is_project_file and list_runs(self._project))

    def sync(self) -> SyncReport:
        """Add runs of this machine that the store does not have, the oldest first.

        Raises:
            StoreError: The store cannot be used.
        """
        runs = list_runs(self._project)
        if not runs:
            return SyncReport()
        known_ids = self._store.ids()
        added_runs: list[str] = []
        unreadable: list[tuple[str, str]] = []
        for run in reversed(runs):
            if run.name in known_ids:
                continue
            try:
                if self.add(run):
                    added_runs.append(run.name)
            except InvalidFileError as error:
                unreadable.append((run.name, str(error)))
        return SyncReport(added_runs=tuple(added_runs), unreadable=tuple(unreadable))

    def add(self, run: Path) -> bool:
        """Add one run from its directory.

        Returns:
            Whether the run was new.

        Raises:
            InvalidFileError: The run cannot be read.
            StoreError: The store cannot be used.
        """
        record = read_record(run)
        try:
            entry = run_entry(record, partial(read_rows, run))
        except (KeyError, TypeError, AttributeError) as error:
            problem = f"a line is not a row of a run: {type(error).__name__}: {error}"
            raise InvalidFileError.at_place(run / "trials.jsonl", problem) from error
        return self._store.add(entry)

    def records(self, *, limit: int) -> list[RunRecord | StoreError]:
        """The newest runs, the newest first; an error instead of an unreadable record."""
        if self.empty:
            return []
        records: list[RunRecord | StoreError] = []
        for document in self._store.documents(limit=limit):
            try:
                records.append(self._record(document))
            except StoreError as error:
                records.append(error)
        return records

    def evals(self, prompt: str) -> list[MeasuredEval]:
        """The measurements of a prompt in all runs, the oldest first."""
        return [] if self.empty else self._store.evals(prompt)

    def run(self, name: str) -> tuple[RunRecord, Callable[[], Iterator[dict[str, Any]]]]:
        """The record of one run in the store, and a function that reads its rows.

        Args:
            name: A run's id, or the beginning of exactly one id.

        Raises:
            UsageError: The number of matching runs is not 1.
        """
        ids = [] if self.empty else self._store.matching(name)
        if len(ids) != 1 and name not in ids:
            matches = ", ".join(ids)
            several = f"{len(ids)} runs begin with {name!r}: {matches}\n  fix: give more of its id"
            unknown = (
                f"there is no run {name!r}, neither in .regauge/runs nor in {self.place.display}"
            )
            raise UsageError(
                several if ids else f"{unknown}\n  fix: `regauge runs list` lists them"
            )
        run = name if name in ids else ids[0]
        document = self._store.document(run)
        return self._record(document or {}), partial(self._store.rows, run)

    def _record(self, document: Mapping[str, Any]) -> RunRecord:
        schema_version = document.get("schema_version")
        try:
            if schema_version == SCHEMA_VERSION:
                return RunRecord.model_validate(document)
        except ValidationError as error:
            problem = explain_format(error.errors()[0])
            raise self._unreadable(document, problem) from error
        raise self._unreadable(
            document,
            f"it has schema version {schema_version!r}; this regauge reads {SCHEMA_VERSION}",
        )

    def _unreadable(self, document: Mapping[str, Any], problem: str) -> StoreError:
        return StoreError(
            self.place.display,
            f"run {document.get('id')!r}: {problem}",
            "read it with the regauge that wrote it",
        )

    @cached_property
    def _store(self) -> Store:
        if self.place.is_project_file:
            self._project.prepare_state_dir()
        return Store(self.place)


def add_finished_run(project: Project, environ: Mapping[str, str], run: Path) -> str | None:
    """Write a finished run to a shared store.

    The project's own file is updated when it is read, so a run does not wait for it.

    Returns:
        A warning if the store could not be written; None on success. The run itself is safe.
    """
    try:
        if not find_store(project, environ).is_project_file:
            History(project, environ).add(run)
    except RegaugeError as error:
        return f"this run is NOT in the shared history, only in {project.relative(run)}:\n{error}"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendPoint:
    """The measurement of one version in one run.

    Attributes:
        eval: The run's counts.
        runs: The number of runs that measured the version.
        interval: The 95 % Wilson interval of the rate.
        changed: Differences from the previous point that make the rates incomparable: `cases`,
            `judges`, `trials`.
    """

    eval: MeasuredEval
    runs: int
    interval: Interval
    changed: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        """The point as JSON."""
        eval_ = self.eval
        return {
            "version": eval_.version,
            "digest": eval_.prompt_digest,
            "run": eval_.run,
            "started_at": eval_.started_at,
            "commit": eval_.commit,
            "dirty": eval_.dirty,
            "runs": self.runs,
            "cases": eval_.cases,
            "measured": eval_.measured,
            "passed": eval_.passed,
            "trials": eval_.trials,
            "pass_rate": eval_.rate,
            "low": self.interval.low if eval_.measured else None,
            "high": self.interval.high if eval_.measured else None,
            "cost_per_completion_usd": eval_.cost_per_completion_usd,
            "latency_p50_s": eval_.latency_p50_s,
            "changed": list(self.changed),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendLine:
    """The points of one prompt on one dataset with one model, the oldest first.

    Attributes:
        eval: The file and function; empty unless a run has several evals of the dataset.
        runs: The number of runs that measured any version.
        unmeasured: The number of runs that measured nothing.
    """

    dataset: str
    eval: str
    model: str
    runs: int
    unmeasured: int
    points: Sequence[TrendPoint]

    def to_json(self) -> dict[str, object]:
        """The line as JSON."""
        return {
            "dataset": self.dataset,
            "eval": self.eval,
            "model": self.model,
            "simulated": is_simulated(self.model),
            "runs": self.runs,
            "points": [point.to_json() for point in self.points],
        }


def trend_lines(evals: Iterable[MeasuredEval], *, every_run: bool = False) -> list[TrendLine]:
    """The trend lines of one prompt, the line with most runs first.

    An edit without a new version number counts as another version. Versions are ordered by their
    first run. Each is represented by the newest run that measured most cases; adding up runs would
    count a replayed completion several times.

    Args:
        evals: The measurements of one prompt, the oldest first. The base's trials of a gate are
            left out, as a gate re-runs failed cases.
        every_run: Whether to make a point for each run.
    """
    evals = [eval_ for eval_ in evals if eval_.side != "base"]
    keys = {(eval_.run, eval_.dataset, eval_.eval) for eval_ in evals}
    counts = Counter((run, dataset) for run, dataset, _ in keys)
    # A renamed eval has one line, unless a run has several evals.
    several = {dataset for (_, dataset), count in counts.items() if count > 1}
    grouped: defaultdict[tuple[str, str, str], list[MeasuredEval]] = defaultdict(list)
    for eval_ in evals:
        eval_node = eval_.eval if eval_.dataset in several else ""
        grouped[eval_.dataset, eval_node, eval_.model].append(eval_)
    lines = [
        TrendLine(
            dataset=dataset,
            eval=eval_node,
            model=model,
            runs=_count(members),
            unmeasured=len(members) - _count(members),
            points=_points([[member] for member in members] if every_run else _versions(members)),
        )
        for (dataset, eval_node, model), members in grouped.items()
    ]
    return sorted(lines, key=lambda line: (-line.runs, line.dataset, line.eval, line.model))


def _count(evals: Iterable[MeasuredEval]) -> int:
    return sum(1 for eval_ in evals if eval_.measured)


def _versions(evals: Sequence[MeasuredEval]) -> list[list[MeasuredEval]]:
    versions: defaultdict[tuple[str | None, str], list[MeasuredEval]] = defaultdict(list)
    for eval_ in evals:
        versions[eval_.version, eval_.prompt_digest].append(eval_)
    return list(versions.values())


def _points(groups: Sequence[Sequence[MeasuredEval]]) -> list[TrendPoint]:
    points: list[TrendPoint] = []
    before: MeasuredEval | None = None
    for group in groups:
        # The newest of equals.
        eval_ = max(reversed(group), key=lambda point: point.measured)
        points.append(_point(eval_, runs=_count(group), before=before))
        before = eval_ if eval_.measured else before
    return points


def _point(eval_: MeasuredEval, *, runs: int, before: MeasuredEval | None) -> TrendPoint:
    # Loads numpy, which a run that only writes to the history does not need.
    from regauge.stats import wilson

    kinds = {"cases": "cases_digest", "judges": "judges_digest", "trials": "trials"}
    changed = [
        kind
        for kind, name in kinds.items()
        if before is not None
        and getattr(before, name) != getattr(eval_, name)
        and (kind != "judges" or eval_.measured)  # the judges of a run are those that judged
    ]
    interval = wilson(eval_.passed, eval_.measured)
    return TrendPoint(eval=eval_, runs=runs, interval=interval, changed=tuple(changed))
