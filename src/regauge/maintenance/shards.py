"""Merge the shards of a run: one record, and the recordings of all shards.

Directories of shards are untrusted: their files are not executed, links are not followed, sizes
are capped, and a file with a secret or another schema is refused.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import secrets
import shutil
import stat
import tempfile
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from heapq import merge as merge_sorted
from importlib.metadata import version
from itertools import groupby, pairwise, repeat
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from regauge.datasets import shard_of
from regauge.errors import InvalidFileError, UnmeasuredError, UsageError
from regauge.files import write_whole
from regauge.gate import CONTROL_FIRST, GATE_TRIALS
from regauge.history import add_finished_run
from regauge.judges import CHECKS
from regauge.project import Project
from regauge.recordings import (
    LocalStore,
    MeasurementLine,
    Recording,
    encode_line,
    lock_file,
    map_texts,
    parse_vector,
    read_lines,
    redactor_for,
)
from regauge.reports import (
    MergedShards,
    RunRecord,
    RunTally,
    git_state,
    job_state,
    parse_row,
    read_record,
    row_lines,
    write_job_summary,
)
from regauge.runner import PART_RECORDINGS, PART_TRIALS, count_lines
from regauge.wording import first_of, plural, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from regauge.recordings import Redactor
    from regauge.reports import EvalSummary, ShardEval, ShardPart, TrialRow


_FILES: Final = frozenset({"run.json", "trials.jsonl", PART_TRIALS, PART_RECORDINGS})
# About as many ids as fit in a line of a terminal.
_NAMED_MAX: Final = 5
# Large enough for the disk, small next to the memory of a process.
_COPIED_BYTES: Final = 1024 * 1024
# Starting processes takes longer than reading fewer bytes of rows.
_ALONE_BYTES_MAX: Final = 64 * 1024 * 1024
_DIGEST: Final = re.compile(r"(?:[0-9a-f]{64})?")
_CASE: Final = re.compile(r"[A-Za-z0-9_.+/-]{1,200}")
# Values that come from the checkout, or differ in every row.
_OWN_TEXTS: Final = frozenset({"node", "case", "case_digest", "prompt_digest", "request_digest"})
# Fields of an eval that are equal in all shards.
_SHARED_FIELDS: Final = (
    *("prompt", "version", "prompt_digest", "dataset", "dataset_digest", "trials"),
    *("total", "plan"),
)
# A shard of 10,000 cases writes some tens of megabytes; files of the project itself may grow.
_BYTES_MAX: Final = 512 * 1024 * 1024
_OWN_BYTES_MAX: Final = 64 * 1024 * 1024 * 1024
_FOLDERS: Final = frozenset({"judges", "verdicts", "embeddings"})


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedRun:
    """The merged run.

    Attributes:
        tally: Its counts.
        failed: Whether a case or a test failed.
        failed_cases: The first failed cases by prompt.
        unmeasured: Missing results, a sentence each.
        written_lines: The number of new or different lines per recordings file.
        notes: Notes for the user.
        trouble: Failed reports, such as that of the job summary.
    """

    record: RunRecord
    tally: RunTally
    failed: bool
    unmeasured: Sequence[str]
    failed_cases: Mapping[str, Sequence[str]]
    written_lines: Mapping[str, int]
    notes: Sequence[str]
    trouble: Sequence[str]

    @property
    def exit_code(self) -> int:
        """The exit code of `regauge runs merge`: 1 if a case failed, 3 if any is unmeasured."""
        return 1 if self.failed else 3 if self.unmeasured else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """One shard's directory."""

    directory: Path
    record: RunRecord
    shard: ShardPart


@dataclass(slots=True, kw_only=True)
class _ShardCounts:
    """The counts of one shard's rows.

    Attributes:
        nodes: The number of items with a row, by eval and model.
        failed_cases: The first failed cases by prompt.
    """

    tally: RunTally = field(default_factory=RunTally)
    nodes: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    failed_cases: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    unmeasured: bool = False


def merge_shards(
    project: Project,
    directories: Sequence[Path],
    *,
    environ: Mapping[str, str],
    command: Sequence[str],
) -> MergedRun:
    """Merge shards: write one run and the recordings of all; directories may be in any order.

    Args:
        project: The project.
        directories: The directories of `pytest evals --shard K/N --report DIR`.
        environ: The environment, with the CI job and API keys.
        command: The words of the command.

    Raises:
        UsageError: Shards contradict each other, this checkout or this job.
        InvalidFileError: A file of a shard is invalid.
        UnmeasuredError: There is no finished shard.
    """
    notes: list[str] = []
    parts = _distinct_parts(_read_parts(directories, notes))
    if not parts:
        raise UnmeasuredError(
            "\n".join([*notes, "there is no finished shard, so nothing is measured"])
            + "\n  fix: pytest evals --shard 1/4 --report shard-1, and the others"
        )
    _refuse_contradictions(parts, project)
    _refuse_other_jobs(parts, project, environ)
    first = parts[0].shard
    present_shards = {part.shard.number for part in parts}
    missing = [number for number in range(1, first.count + 1) if number not in present_shards]
    unmeasured = [*_find_left_out(parts, missing, notes)]
    redactor = redactor_for(project.settings, environ)
    project.prepare_state_dir("runs")
    run_id = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    directory = project.state_dir / "runs" / run_id
    directory.mkdir(parents=True, exist_ok=True)
    try:
        rows = _merge_rows(parts, directory, project, redactor)
        unmeasured += rows.unmeasured
        if not missing:
            unmeasured += _find_uncovered(parts)
        changed_lines, shared = _merge_files(parts, project, redactor)
        record = _record(run_id, parts, missing, rows.tally, command, is_complete=not unmeasured)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    if shared:
        notes.append(
            f"{plural(shared, 'request')} of several shards got different completions; those of the"
            " lowest shard are kept"
        )
    write_whole(directory / "run.json", f"{record.model_dump_json(indent=2)}\n".encode())
    trouble = (
        write_job_summary(record, directory, environ),
        add_finished_run(project, environ, directory),
    )
    return MergedRun(
        record=record,
        tally=rows.tally,
        failed=rows.failed,
        failed_cases=rows.failed_cases,
        unmeasured=unmeasured,
        written_lines={str(project.relative(path)): count for path, count in changed_lines.items()},
        notes=notes,
        trouble=[*filter(None, trouble)],
    )


@dataclass(slots=True, kw_only=True)
class _MergedRows:
    """The counts of the rows of all shards; see `MergedRun`."""

    tally: RunTally = field(default_factory=RunTally)
    failed: bool = False
    failed_cases: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    unmeasured: list[str] = field(default_factory=list[str])


def _merge_rows(
    parts: Sequence[_Part], directory: Path, project: Project, redactor: Redactor
) -> _MergedRows:
    """Check and count the rows of all shards, and write them to the run's directory."""
    merged = _MergedRows()
    with (
        tempfile.TemporaryDirectory(dir=directory) as name,
        (directory / "trials.jsonl").open("wb") as file,
    ):
        for part, counts, checked in _count_parts(parts, Path(name), project, redactor):
            with checked.open("rb") as lines:
                shutil.copyfileobj(lines, file, _COPIED_BYTES)
            checked.unlink()
            merged.tally.join(counts.tally)
            merged.unmeasured += _find_unmeasured(part, counts)
            merged.failed = merged.failed or _has_failed(part, counts)
            for prompt, cases in counts.failed_cases.items():
                _add_failed(merged.failed_cases, prompt, cases)
    return merged


def _merge_files(
    parts: Sequence[_Part], project: Project, redactor: Redactor
) -> tuple[Mapping[Path, int], int]:
    """Merge the recordings of all shards, and store the trials of a gate; see `merge_recordings`.

    All files are checked before anything is written.
    """
    with tempfile.TemporaryDirectory() as scratch:
        recordings = read_recordings(
            [part.directory / PART_RECORDINGS for part in parts], Path(scratch), redactor=redactor
        )
        for _ in _gate_trials(parts, redactor):
            pass
        for part in parts:
            _refuse_cut_files(part)
        replaces = parts[0].shard.record == "all"
        merged = merge_recordings(recordings, project.recordings_dir, replaces=replaces)
    _keep_trials(parts, project, redactor)
    return merged


def _read_parts(directories: Iterable[Path], notes: list[str]) -> Iterator[_Part]:
    """The shards of directories; one without a record did not finish and counts as missing."""
    for directory in directories:
        if directory.is_symlink():
            raise InvalidFileError.at_place(directory, "a link; name the directory itself")
        if not directory.exists():
            notes.append(f"{directory}: there is no such directory")
            continue
        if not directory.is_dir():
            raise InvalidFileError.at_place(
                directory, "not a directory", "name the directory of a shard"
            )
        _refuse_other_files(directory)
        if not os.path.lexists(directory / "run.json"):
            notes.append(f"{directory}: no run.json, so this shard did not finish")
            continue
        record = read_record(directory)
        if record.shard is None:
            fix = "name directories of pytest evals --shard K/N --report DIR"
            raise UsageError(f"{directory} holds a run of all cases, not a shard", fix=fix)
        if record.shard.number > record.shard.count:
            numbers = f"{record.shard.number} of {record.shard.count}"
            raise InvalidFileError.at_place(directory / "run.json", f"there is no shard {numbers}")
        yield _Part(directory=directory, record=record, shard=record.shard)


def _refuse_other_files(directory: Path) -> None:
    paths = sorted(directory.iterdir())
    if any((path / "run.json").is_file() for path in paths):
        message = "holds directories of shards"
        raise InvalidFileError.at_place(
            directory, message, f"regauge runs merge {quote(str(directory))}/*"
        )
    unknown = [path for path in paths if path.name not in _FILES]
    if unknown and unknown == paths:
        fix = "name directories of pytest evals --shard K/N --report DIR"
        raise InvalidFileError.at_place(directory, "holds no shard", fix)
    if unknown:
        raise InvalidFileError.at_place(unknown[0], "a shard leaves no such file", "remove it")


def _distinct_parts(parts: Iterable[_Part]) -> list[_Part]:
    """The shards by number; a repeated directory counts once.

    Raises:
        UsageError: Two directories belong to the same shard.
    """
    parts_by_index: dict[int, _Part] = {}
    for part in sorted(parts, key=lambda part: (part.shard.number, str(part.directory))):
        other = parts_by_index.setdefault(part.shard.number, part)
        # Their records may be equal and their recordings not.
        if other.directory.resolve() != part.directory.resolve():
            message = f"shard {part.shard.number} is in {other.directory} and in {part.directory}"
            raise UsageError(message, fix="name one of them")
    return list(parts_by_index.values())


def _refuse_contradictions(parts: Sequence[_Part], project: Project) -> None:
    """Refuse shards of different runs.

    Raises:
        UsageError: They differ in commit, options or evals.
    """
    first = parts[0]
    checkout = git_state(project.root, output_dir=project.recordings_dir)
    for part in parts:
        for subject, first_value, second_value in _shared_facts(first, part):
            if first_value != second_value:
                raise UsageError(
                    f"{first.directory} and {part.directory} contradict each other in {subject}:"
                    f" {_brief(first_value)} and {_brief(second_value)}\n"
                    "  fix: run all shards of one commit with the same options"
                )
        git = part.record.git
        if checkout is not None and git is not None and git.commit != checkout.commit:
            raise UsageError(
                f"{part.directory} is of commit {git.commit[:12]}, and this checkout is"
                f" {checkout.commit[:12]}\n"
                f"  fix: check out {git.commit[:12]}, or run the shards again"
            )


def _shared_facts(first: _Part, second: _Part) -> Iterator[tuple[str, object, object]]:
    """The facts that must agree: a name and the value of each shard."""
    a, b = first.record, second.record
    yield "the number of shards", first.shard.count, second.shard.count
    yield "--shard-by", first.shard.shard_by, second.shard.shard_by
    yield "the base of the gate", first.shard.base or "no gate", second.shard.base or "no gate"
    yield "the record mode", first.shard.record, second.shard.record
    yield "the commit", a.git and a.git.commit, b.git and b.git.commit
    yield "uncommitted changes", _has_changes(a), _has_changes(b)
    yield "the version of regauge", a.regauge_version, b.regauge_version
    yield "the selection of cases", first.shard.selection, second.shard.selection
    for name in sorted({*a.options, *b.options} - {"concurrency"}):
        yield f"the option {name}", a.options.get(name), b.options.get(name)
    evals, other_evals = (
        {(eval_.eval, eval_.model): eval_ for eval_ in part.shard.evals} for part in (first, second)
    )
    yield "the evals", sorted(evals), sorted(other_evals)
    for key, eval_ in evals.items():
        for name in _SHARED_FIELDS:
            yield f"{name} of {key[0]}", getattr(eval_, name), getattr(other_evals[key], name)
        # A shard has the judge of `checks` only if any of its cases has some.
        judges, other_judges = (
            {name: digest for name, digest in of_shard.judges.items() if name != CHECKS}
            for of_shard in (eval_, other_evals[key])
        )
        yield f"judges of {key[0]}", judges, other_judges


def _has_changes(record: RunRecord) -> str:
    return "yes" if record.git is not None and record.git.dirty else "no"


def _brief(value: object) -> str:
    text = printable(str(value))
    return text if len(text) <= 80 else f"{text[:77]}..."  # noqa: PLR2004 - the width of a line


def _refuse_other_jobs(
    parts: Sequence[_Part], project: Project, environ: Mapping[str, str]
) -> None:
    """Refuse shards of forks and other jobs in a job with an API key.

    Raises:
        UsageError: There is such a shard.
    """
    names = {"OPENAI_API_KEY", "ANTHROPIC_API_KEY"}
    for endpoint in project.settings.providers.values():
        names |= {*endpoint.headers_env.values(), endpoint.api_key_env or ""}
    keys = sorted(name for name in names if environ.get(name))
    if not keys:
        return
    this_job = job_state(environ)
    for part in parts:
        job = part.shard.job
        if job.fork or (this_job.id and job.id != this_job.id):
            origin = "a fork's pull request" if job.fork else f"another job ({job.id or 'none'})"
            message = f"{part.directory} was made by {origin}, and this job has a key ({keys[0]})"
            raise UsageError(message, fix="merge it in its own job, or without a key")


def _count_parts(
    parts: Sequence[_Part], scratch: Path, project: Project, redactor: Redactor
) -> Iterator[tuple[_Part, _ShardCounts, Path]]:
    """The counts of each shard, and a file with its rows, in the order of the shards.

    Large shards are read by several processes.

    Raises:
        InvalidFileError: A row belongs to another shard, is repeated, or contains a secret.
    """
    targets = [scratch / str(part.shard.number) for part in parts]
    size = sum(_size(part.directory / "trials.jsonl") for part in parts)
    if size < _ALONE_BYTES_MAX or len(parts) == 1:
        for part, target in zip(parts, targets, strict=True):
            yield part, _count(part, target, redactor), target
        return
    workers = min(os.cpu_count() or 1, len(parts))
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            results = pool.map(_count_apart, parts, targets, repeat(project.root))
            yield from zip(parts, results, targets, strict=True)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _count_apart(part: _Part, target: Path, root: Path) -> _ShardCounts:
    """Count a shard in another process, to which a redactor cannot be sent."""
    return _count(part, target, redactor_for(Project.find(root).settings, os.environ))


def _count(part: _Part, target: Path, redactor: Redactor) -> _ShardCounts:
    """Check, count and copy the rows of a shard.

    Raises:
        InvalidFileError: A row belongs to another shard, is repeated, or contains a secret.
    """
    counts = _ShardCounts()
    path = part.directory / "trials.jsonl"
    evals = {(eval_.eval, eval_.model): eval_ for eval_ in part.shard.evals}
    seen: set[tuple[str, int, str | None]] = set()
    nodes: dict[tuple[str, str], set[str]] = {}
    with target.open("wb") as file:
        for number, line in row_lines(path):
            row, document = parse_row(path, number, line)
            eval_ = _eval_of(row, evals)
            row_error = _row_error(row, eval_, part)
            key = (row.node, row.trial, row.side)
            if not row_error and key in seen:
                row_error = f"trial {row.trial} of {row.node} is there twice"
            if row_error or eval_ is None:
                raise InvalidFileError.at_place(path, printable(row_error), line=number)
            seen.add(key)
            searched = {name: value for name, value in document.items() if name not in _OWN_TEXTS}
            refuse_secret(searched, redactor, path, number)
            counts.tally.add(document)
            nodes.setdefault((eval_.eval, eval_.model), set()).add(row.node)
            blocks = row.side is None and row.tier != "tracked" and not row.not_blocking
            if blocks and row.case_outcome == "failed":
                _add_failed(counts.failed_cases, row.prompt, [row.case])
            counts.unmeasured |= row.side != "base" and row.case_outcome == "unmeasured"
            file.write(line + b"\n")
    counts.nodes = {key: len(names) for key, names in nodes.items()}
    counts.tally.settle(compares_models=len({eval_.model for eval_ in part.shard.evals}) > 1)
    return counts


def _add_failed(failed_cases: dict[str, list[str]], prompt: str, cases: Iterable[str]) -> None:
    """Add failed cases, up to the number that is shown: a million may fail."""
    first_cases = failed_cases.setdefault(prompt, [])
    new_cases = [case for case in cases if case not in first_cases]
    first_cases += new_cases[: _NAMED_MAX - len(first_cases)]


def _row_error(row: TrialRow, eval_: ShardEval | None, part: _Part) -> str:
    """The problem of a row; empty without one."""
    if eval_ is None or (row.prompt, row.dataset) != (eval_.prompt, eval_.dataset):
        return f"{row.node} is of no eval of this shard"
    if row.side is None and row.prompt_digest != eval_.prompt_digest:
        return f"{row.node} is of another prompt than this shard's"
    if part.shard.shard_by == "id" and shard_of(row.case, part.shard.count) != part.shard.number:
        return f"case {row.case!r} is of another shard"
    digests = (row.prompt_digest, row.case_digest, row.request_digest)
    if not all(map(_DIGEST.fullmatch, digests)) or not _CASE.fullmatch(row.case):
        return "not a row: case and digests are not what regauge writes"
    return ""


def _eval_of(row: TrialRow, evals: Mapping[tuple[str, str], ShardEval]) -> ShardEval | None:
    """The eval of a row; trials of the base may have another model."""
    file, _, name = row.node.partition("::")
    for node in (f"{file}::{name.partition('[')[0]}", file):
        if (eval_ := evals.get((node, row.model))) is not None:
            return eval_
        if row.side == "base":
            return next((eval_ for (of, _), eval_ in evals.items() if of == node), None)
    return None


def _find_unmeasured(part: _Part, counts: _ShardCounts) -> Iterator[str]:
    """Sentences on missing results: planned cases without a row, and an unfinished run."""
    name = f"shard {part.shard.number}"
    for eval_ in part.shard.evals if not part.shard.base else ():  # a gate omits some on purpose
        case_count = plural(eval_.selected_cases, "case")
        left = eval_.selected_cases - counts.nodes.get((eval_.eval, eval_.model), 0)
        if left > 0:
            yield f"{name}: {left} of {case_count} of {eval_.eval} have no result"
    if part.record.status != "finished" or part.shard.exit_status not in {0, 1}:
        yield f"{name} did not finish: pytest ended with {part.shard.exit_status}"
    elif counts.unmeasured:
        yield f"{name}: cases are unmeasured; see its log"
    elif part.shard.base and part.shard.unmeasured:
        yield f"{name}: {part.shard.unmeasured[0]}"
    elif part.shard.exit_status and part.shard.base and not part.record.failed_tests:
        yield f"{name} is not measured whole; see its log"


def _has_failed(part: _Part, counts: _ShardCounts) -> bool:
    """Return whether judges failed a case, or a test failed for another reason."""
    alone = part.shard.exit_status == 1 and not counts.unmeasured and not part.shard.base
    alone = alone or bool(part.record.failed_tests)
    return bool(counts.failed_cases) or (alone and part.record.status == "finished")


def _find_left_out(
    parts: Sequence[_Part], missing: Sequence[int], notes: list[str]
) -> Iterator[str]:
    """Sentences on missing shards, and on a selection without a case; others are noted."""
    first = parts[0].shard
    if missing:
        names = first_of(missing, _NAMED_MAX)
        yield f"{plural(len(missing), 'shard')} of {first.count} missing: {names}"
    evals = [eval_ for part in parts for eval_ in part.shard.evals]
    total = sum(eval_.cases for eval_ in evals)
    # A parametrized eval has several items for a case.
    left_out = sum(max(0, eval_.cases - eval_.selected_cases) for eval_ in evals)
    selection = f" by {first_of(first.selection, _NAMED_MAX)}" if first.selection else ""
    if left_out == total and not missing and not first.base:
        yield f"none of {plural(total, 'case')} was selected{selection}"
    elif left_out:
        notes.append(f"{left_out:,} of {plural(total, 'case')} left out{selection}")


def _find_uncovered(parts: Sequence[_Part]) -> Iterator[str]:
    """Sentences on datasets whose cases the shards do not cover exactly."""
    for number, eval_ in enumerate(parts[0].shard.evals):
        dealt = sum(part.shard.evals[number].cases for part in parts)
        if dealt != eval_.total:
            yield f"{eval_.eval}: all shards together have {dealt} of {plural(eval_.total, 'case')}"


def _record(
    run_id: str,
    parts: Sequence[_Part],
    missing: Sequence[int],
    tally: RunTally,
    command: Sequence[str],
    *,
    is_complete: bool,
) -> RunRecord:
    first = parts[0].record
    places = {
        (eval_.prompt, eval_.version, eval_.dataset): number
        for number, eval_ in reversed([*enumerate(parts[0].shard.evals)])
    }

    def place(eval_: EvalSummary) -> int:
        return places.get((eval_.prompt, eval_.version, eval_.dataset), len(places))

    return RunRecord(
        id=run_id,
        started_at=min(part.record.started_at for part in parts),
        finished_at=max(part.record.finished_at for part in parts),
        status="finished" if is_complete else "interrupted",
        regauge_version=version("regauge"),
        python_version=first.python_version,
        command=list(command),
        git=first.git,
        options=first.options,
        evals=sorted(tally.evals(first.options.get("models") or ()), key=place),
        failed_tests={
            node: message for part in parts for node, message in part.record.failed_tests.items()
        },
        merged=MergedShards(
            count=parts[0].shard.count, missing=list(missing), base=parts[0].shard.base
        ),
    )


def _refuse_cut_files(part: _Part) -> None:
    """Refuse files with another number of lines than the shard wrote.

    Raises:
        InvalidFileError: The copy of the directory is truncated.
    """
    left = count_lines(part.directory)
    for name in {**part.shard.lines, **left}:
        has, had = left.get(name, 0), part.shard.lines.get(name, 0)
        if has != had:
            message = f"the shard left {plural(had, 'line')}, and {has} are there"
            path = part.directory / printable(name)
            raise InvalidFileError.at_place(path, message, "copy its directory again")


def _keep_trials(parts: Sequence[_Part], project: Project, redactor: Redactor) -> None:
    """Store the trials of a gate for the run that decides."""
    if not any(os.path.lexists(part.directory / PART_TRIALS) for part in parts):
        return
    with (
        LocalStore(project.state_dir / GATE_TRIALS.store, redactor=redactor) as store,
        store.transaction(),
    ):
        for recording in _gate_trials(parts, redactor):
            if recording.key not in store:
                store.put(recording)


def _gate_trials(parts: Sequence[_Part], redactor: Redactor) -> Iterator[Recording]:
    """The gate's trials of all shards.

    Raises:
        InvalidFileError: A line is not a trial of a gate.
    """
    for part in parts:
        path = part.directory / PART_TRIALS
        for number, raw in untrusted_lines(path):
            try:
                line = json.loads(raw)
                about, recording = line["about"], Recording.from_json(line["recording"])
                if type(about) is not int or about < CONTROL_FIRST:
                    raise ValueError(f"trial {about!r} is none of a gate")  # noqa: TRY301 - one message for all
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                message = f"not a trial of a gate: {printable(str(error))[:300]}"
                raise InvalidFileError.at_place(path, message, line=number) from error
            refuse_secret(recording.to_json(), redactor, path, number)
            yield recording


class _OrderedLine(NamedTuple):
    """A line with its place in the order of its file."""

    key: tuple[Any, ...]
    source: int
    raw: bytes


def untrusted_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a shard's file, with their numbers; empty without the file.

    Raises:
        InvalidFileError: It is a link or no regular file, is too large, or cannot be read.
    """
    if path.is_symlink():
        raise InvalidFileError.at_place(path, "a link; a shard has a file there")
    for number, _, raw in read_lines(path, bytes_max=_BYTES_MAX):
        yield number, raw


def refuse_secret(document: Mapping[str, Any], redactor: Redactor, path: Path, line: int) -> None:
    """Check the document of a line.

    Raises:
        InvalidFileError: It contains a secret.
    """
    if map_texts(document, redactor.redact) is not document:
        fix = "find out how it got there; run the shard again where `redact` covers it"
        raise InvalidFileError.at_place(path, "holds what looks like a secret", fix, line=line)


def merge_recordings(
    files: Mapping[Path, Sequence[Path]], target: Path, *, replaces: bool
) -> tuple[Mapping[Path, int], int]:
    """Merge the recordings of shards into the committed ones.

    Args:
        files: From `read_recordings`.
        target: The directory of committed recordings.
        replaces: Whether they replace committed recordings.

    Returns:
        The number of new or different lines per file, and the number of requests with different
        completions in several shards.

    Raises:
        RecordingError: A file cannot be written.
    """
    changed_lines: dict[Path, int] = {}
    shared = 0
    for name, of_shards in sorted(files.items()):
        changed, differing = _merge_file(of_shards, target, name, replaces=replaces)
        shared += differing
        if changed:
            changed_lines[target / name] = changed
    return changed_lines, shared


def _merge_file(
    files: Sequence[Path], directory: Path, name: Path, *, replaces: bool
) -> tuple[int, int]:
    changed = shared = 0
    target, folder = directory / name, name.parts[0]
    with ExitStack() as stack:
        stack.enter_context(lock_file(target))
        draft = target.parent / f".{target.name}.{os.getpid()}.tmp"
        stack.callback(draft.unlink, missing_ok=True)
        out = stack.enter_context(draft.open("wb"))
        sources = [_sorted_lines(path, number, folder) for number, path in enumerate(files, 1)]
        lines_of_all = merge_sorted(_read_own(target, folder), *sources)
        for _, group in groupby(lines_of_all, key=lambda line: line.key):
            lines = [*group]
            new = [line for line in lines if line.source]
            if new[1:]:
                shared += len({_comparable_text(line.raw) for line in new}) > 1
            merged_line = lines[0]
            if replaces and new and not merged_line.source:
                merged_line = _choose_line(merged_line, new[0])
            changed += bool(merged_line.source)
            out.write(merged_line.raw + b"\n")
        out.flush()
        os.fsync(out.fileno())
        if changed:
            draft.replace(target)
    return changed, shared


def read_recordings(
    directories: Sequence[Path], scratch: Path, *, redactor: Redactor
) -> dict[Path, list[Path]]:
    """Check and sort the recordings of shards, with one file in memory at a time.

    Args:
        directories: The recordings of each shard, in the order of the shards.
        scratch: A directory for checked files.
        redactor: Detects secrets.

    Returns:
        By file name, the checked file of each shard, in the order of the shards.

    Raises:
        InvalidFileError: A file of a shard is invalid.
    """
    files: dict[Path, list[Path]] = {}
    for number, directory in enumerate(directories):
        for path in _files(directory):
            name = path.relative_to(directory)
            lines = _read_checked(path, name.parts[0], redactor)
            checked = scratch / str(number) / name
            checked.parent.mkdir(parents=True, exist_ok=True)
            checked.write_bytes(b"".join([line.raw + b"\n" for line in lines]))
            files.setdefault(name, []).append(checked)
    return files


def _read_checked(path: Path, folder: str, redactor: Redactor) -> list[_OrderedLine]:
    """The checked lines of a file, sorted."""
    lines: list[_OrderedLine] = []
    for number, raw in untrusted_lines(path):
        try:
            key, document = _parse_line(raw, folder)
        except (ValueError, RecursionError) as error:
            message = f"not a recording: {printable(str(error))[:300]}"
            raise InvalidFileError.at_place(path, message, line=number) from error
        if document is not None:
            refuse_secret(document, redactor, path, number)
        lines.append(_OrderedLine(key, 0, raw))
    return sorted(lines)


def _files(directory: Path) -> list[Path]:
    """The files of a shard's recordings.

    Raises:
        InvalidFileError: There is a link, or a file of another kind.
    """
    if directory.is_symlink():
        raise InvalidFileError.at_place(directory, "a link; a shard has a directory there")
    paths: list[Path] = []
    for folder, folders, files in os.walk(directory):
        inside = Path(folder).relative_to(directory)
        for name in [*folders, *files]:
            path = Path(folder) / name
            mode = path.lstat().st_mode
            regular = (
                (stat.S_ISDIR(mode) and (inside.parts or name in _FOLDERS))
                or (stat.S_ISREG(mode) and name.endswith(".jsonl"))
            ) and not name.startswith(".")
            if not regular:
                raise InvalidFileError.at_place(path, "no file of recordings", "remove it")
        paths += [Path(folder) / name for name in files]
    return sorted(paths)


def _parse_line(raw: bytes, folder: str) -> tuple[tuple[Any, ...], Any]:
    """The sort key of a line and its document; None for a vector, which has no texts.

    Args:
        raw: The line.
        folder: `verdicts` or `embeddings`; any other name is of recordings.
    """
    if folder == "embeddings":
        return parse_vector(raw)[:1], None
    document = json.loads(raw)
    if folder == "verdicts":
        line = MeasurementLine.decode(raw)
        return (line.case, line.judge, line.trial, line.key), document
    recording = Recording.from_json(document)
    return (recording.case, recording.key.trial, recording.key.digest), document


def _sorted_lines(path: Path, source: int, folder: str) -> Iterator[_OrderedLine]:
    with path.open("rb") as file:
        for line in file:
            raw = line.rstrip(b"\n")
            yield _OrderedLine(_parse_line(raw, folder)[0], source, raw)


def _read_own(target: Path, folder: str) -> Iterator[_OrderedLine]:
    """The committed lines, sorted; only a file edited by hand needs to be."""

    def read() -> Iterator[_OrderedLine]:
        for _, _, raw in read_lines(target, bytes_max=_OWN_BYTES_MAX):
            yield _OrderedLine(_parse_line(raw, folder)[0], 0, raw)

    is_sorted = all(before.key <= line.key for before, line in pairwise(read()))
    yield from read() if is_sorted else sorted(read())


_UNCOMPARED: Final = frozenset({"recorded_at", "replaced"})
_TIMES: Final = frozenset({"latency_s", "cost_usd", "attempts"})


def _comparable_text(raw: bytes) -> str:
    """A line as text, without times and prices."""
    document: dict[str, Any] = json.loads(raw)
    fields = {key: value for key, value in document.items() if key not in _UNCOMPARED}
    if "completion" in fields:
        completion: dict[str, Any] = fields["completion"]
        fields["completion"] = {key: completion[key] for key in completion.keys() - _TIMES}
    return json.dumps(fields, sort_keys=True)


def _choose_line(old: _OrderedLine, new: _OrderedLine) -> _OrderedLine:
    """The line of a request that was recorded again; the old line for an equal completion.

    A recording counts how often its completion was replaced.
    """
    if _comparable_text(old.raw) == _comparable_text(new.raw):
        return old
    document = json.loads(new.raw)
    if "completion" not in document:
        return new
    before = Recording.from_json(json.loads(old.raw))
    recording = replace(Recording.from_json(document), replaced=before.replaced + 1)
    return new._replace(raw=encode_line(recording))
