"""Write a run as it happens: rows of judged trials, then the record."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections import Counter
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from math import isfinite
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from regauge.errors import (
    GitError,
    JudgeError,
    MachineError,
    ProviderError,
    RegaugeError,
    UsageError,
)
from regauge.files import write_whole
from regauge.git import run_git, work_tree
from regauge.providers import shown_messages
from regauge.recordings import map_texts
from regauge.reports._documents import GitState, JobState, RunRecord, ShardEval
from regauge.reports._tally import RunTally
from regauge.runner import CallTotals, MissingCompletions, MissingJudgements
from regauge.strict_json import is_list, is_mapping

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
    from io import FileIO
    from pathlib import Path

    from regauge.digests import JSON
    from regauge.errors import UnmeasuredError
    from regauge.reports._documents import DecisionDocument, ShardPart, Suggestion
    from regauge.runner import Eval, EvalResult, JudgedVerdict, PlannedCase

# git is fast, unless its disk or a lock hangs.
_TIMEOUT_S = 10


def git_state(root: Path, *, output_dir: Path | None = None) -> GitState | None:
    """The commit, the branch and whether the work tree differs; None outside a repository.

    Args:
        root: A directory of the work tree.
        output_dir: The directory that the run writes to, whose changes are ignored.
    """
    top = work_tree(root)
    if top is None:
        return None
    paths = [":/"]
    if output_dir is not None and output_dir.resolve().is_relative_to(top):
        paths.append(f":(top,exclude,literal){output_dir.resolve().relative_to(top).as_posix()}")
    try:
        done = run_git(
            root,
            *("status", "--porcelain=v2", "--branch", "--untracked-files=no"),
            *("--ignore-submodules=dirty", "--", *paths),
            literal=False,
            timeout_s=_TIMEOUT_S,
        )
    except GitError:
        return None
    if done.returncode != 0:
        return None
    facts: dict[str, str] = {}
    dirty = False
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        if line.startswith("# branch."):
            key, _, value = line.removeprefix("# branch.").partition(" ")
            facts[key] = value
        else:
            dirty = True
    branch = facts.get("head")
    return GitState(
        commit=facts.get("oid", "(initial)"),
        branch=None if branch == "(detached)" else branch,
        dirty=dirty,
    )


def job_state(environ: Mapping[str, str]) -> JobState:
    """The CI job of this process, and whether it runs for a fork."""
    if run := environ.get("GITHUB_RUN_ID"):
        # Other runs do not load the client.
        from regauge.github import read_event

        try:
            head = read_event(environ).head_repo
        except UsageError:
            head = ""
        repository = environ.get("GITHUB_REPOSITORY", "")
        return JobState(id=f"github:{run}", fork=bool(head) and head != repository)
    if pipeline := environ.get("CI_PIPELINE_ID"):
        source = environ.get("CI_MERGE_REQUEST_SOURCE_PROJECT_ID", "")
        return JobState(
            id=f"gitlab:{pipeline}",
            fork=bool(source) and source != environ.get("CI_MERGE_REQUEST_PROJECT_ID", ""),
        )
    return JobState()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """The end of a run, in one process or in all.

    Attributes:
        collected_cases: The number of collected cases.
        selected_cases: The number of selected cases.
        missing: Missing completions, in record mode `none`.
        missing_judgements: Missing responses of judges' models, in record mode `none`.
        written_lines: The number of new or different lines per recordings file.
        uncommitted: The number of completions in the local store only, per recordings file, in
            record mode `none`.
        session: The run's session in the local store, in record mode `all`.
        turns: The number of planned cases that had their turn.
        without_result: Items that had their turn without a result or failure.
        left_out: The reason why an item without a row counts as unmeasured, by node id.
        failed_tests: The messages of tests that failed apart from their judges, by node id.
        omissions: Omissions that the user did not select, each with its fix.
        trouble: Errors of writing.
        unwritten: Rows that could not be written.
        parts: In a shard, its part of each eval.
    """

    collected_cases: int = 0
    selected_cases: int = 0
    missing: list[MissingCompletions] = field(default_factory=list[MissingCompletions])
    missing_judgements: list[MissingJudgements] = field(default_factory=list[MissingJudgements])
    written_lines: dict[str, int] = field(default_factory=dict[str, int])
    uncommitted: dict[str, int] = field(default_factory=dict[str, int])
    session: int | None = None
    turns: int = 0
    without_result: list[str] = field(default_factory=list[str])
    left_out: dict[str, str] = field(default_factory=dict[str, str])
    failed_tests: dict[str, str] = field(default_factory=dict[str, str])
    omissions: list[str] = field(default_factory=list[str])
    trouble: list[str] = field(default_factory=list[str])
    unwritten: list[str] = field(default_factory=list[str])
    parts: list[ShardEval] = field(default_factory=list[ShardEval])

    def merge(self, other: RunEnd) -> RunEnd:
        """Merge the ends of two processes, which plan the same cases and write different files."""
        return RunEnd(
            collected_cases=max(self.collected_cases, other.collected_cases),
            selected_cases=max(self.selected_cases, other.selected_cases),
            missing=self.missing or other.missing,
            missing_judgements=_join(self.missing_judgements, other.missing_judgements),
            written_lines=_add_counts(self.written_lines, other.written_lines),
            uncommitted=_add_counts(self.uncommitted, other.uncommitted),
            session=self.session if other.session is None else other.session,
            turns=self.turns + other.turns,
            without_result=[*self.without_result, *other.without_result],
            left_out=self.left_out | other.left_out,
            failed_tests=self.failed_tests | other.failed_tests,
            omissions=self.omissions or other.omissions,
            trouble=[*dict.fromkeys([*self.trouble, *other.trouble])],
            unwritten=[*self.unwritten, *other.unwritten],
            parts=self.parts or other.parts,
        )

    def to_text(self) -> str:
        """The end as JSON, for another process."""
        return TypeAdapter(RunEnd).dump_json(self).decode()

    @classmethod
    def from_text(cls, text: str) -> RunEnd:
        """Read the text that `to_text` writes."""
        return TypeAdapter(RunEnd).validate_json(text)


def _join(
    before: Sequence[MissingJudgements], later: Sequence[MissingJudgements]
) -> list[MissingJudgements]:
    """Add the missing judgements of two processes, which judge different cases."""
    merged = {(missing.prompt, missing.judge): missing for missing in before}
    for missing in later:
        key = (missing.prompt, missing.judge)
        merged[key] = merged[key].plus(missing) if key in merged else missing
    return list(merged.values())


def _add_counts(before: Mapping[str, int], later: Mapping[str, int]) -> dict[str, int]:
    return {path: before.get(path, 0) + later.get(path, 0) for path in sorted({*before, *later})}


def parts_of(
    evals_by_node: Mapping[str, Sequence[Eval]], selected: Sequence[PlannedCase]
) -> list[ShardEval]:
    """A shard's part of each eval.

    Args:
        evals_by_node: The evals of each eval, by node id.
        selected: The selected cases.
    """
    counts = Counter(id(case.eval) for case in selected)
    digests: dict[Path, str] = {}
    for evals in evals_by_node.values():
        for eval_ in evals:
            path = eval_.dataset.path
            if path not in digests:
                with path.open("rb") as file:
                    digests[path] = hashlib.file_digest(file, "sha256").hexdigest()
    return [
        ShardEval(
            eval=node,
            prompt=eval_.prompt.name,
            version=str(eval_.prompt.version) if eval_.prompt.version else None,
            prompt_digest=eval_.prompt.digest,
            dataset=eval_.dataset.name,
            dataset_digest=digests[eval_.dataset.path],
            model=str(eval_.model),
            judges={judge.name: judge.digest for judge in eval_.judges},
            trials=eval_.trials,
            total=eval_.dataset.size,
            cases=len(eval_.dataset),
            selected_cases=counts[id(eval_)],
            plan=eval_.dataset.shard.plan if eval_.dataset.shard is not None else "",
        )
        for node, evals in evals_by_node.items()
        for eval_ in evals
    ]


# Enough to understand why a response has no verdict.
_RAW_CHARS_MAX = 4000


def rows_of(result: EvalResult, *, side: str | None = None) -> Iterator[dict[str, Any]]:
    """A row per trial, in the shape of `TrialRow`; plain values, for speed.

    Args:
        result: The judged trials of one case.
        side: The side of the trials, with `--gate`; else None.
    """
    eval_, case = result.eval, result.case
    outcome = result.outcome
    for trial in result.trials:
        completion = trial.sourced_completion.completion if trial.sourced_completion else None
        messages = shown_messages(completion) if completion else ()
        yield {
            "node": result.node_id,
            "prompt": eval_.prompt.name,
            "version": eval_.version or None,
            "prompt_digest": eval_.prompt.digest,
            "dataset": eval_.dataset.name,
            "case": case.id,
            "case_digest": case.digest,
            "tier": case.tier,
            "split": case.split,
            "tags": list(case.tags),
            "model": str(eval_.model),
            "trial": trial.number,
            "request_digest": trial.request_digest,
            "case_outcome": outcome,
            "not_blocking": result.not_blocking,
            "outcome": trial.outcome,
            "verdicts": [_verdict_row(verdict) for verdict in trial.verdicts],
            "cause": cause_of(trial.error) if trial.error else None,
            "source": trial.sourced_completion.source if trial.sourced_completion else None,
            "output": completion.text if completion else None,
            **({"messages": [dict(message) for message in messages]} if messages else {}),
            "refusal": completion.refusal if completion else None,
            "finish_reason": completion.finish_reason if completion else None,
            "response_model": completion.model if completion else None,
            "fingerprint": completion.fingerprint if completion else None,
            "input_tokens": completion.usage.input_tokens if completion else 0,
            "output_tokens": completion.usage.output_tokens if completion else 0,
            "latency_s": completion.latency_s if completion else None,
            "cost_usd": completion.cost_usd if completion else None,
            "attempts": completion.attempts if completion else _attempts(trial.error),
            "side": side,
            **(
                {"lost_usage": [asdict(calls) for calls in trial.lost_calls]}
                if trial.lost_calls
                else {}
            ),
        }


def cause_of(error: UnmeasuredError) -> dict[str, JSON]:
    """An error in the shape of `Cause`."""
    root_cause = error.__cause__ if isinstance(error.__cause__, RegaugeError) else error
    provider_error = next(
        (failure for failure in (error, root_cause) if isinstance(failure, ProviderError)), None
    )
    cause: dict[str, JSON] = {
        "kind": provider_error.kind if provider_error else type(root_cause).__name__,
        "message": str(error),
    }
    if isinstance(error, JudgeError) and error.raw is not None:
        cause["raw"] = _shorten(error.raw)
    if isinstance(error, JudgeError) and error.traceback:
        cause["traceback"] = error.traceback
    return cause


def _shorten(raw: str) -> str:
    """The beginning of a judge model's response; the recordings have the full text."""
    if len(raw) <= _RAW_CHARS_MAX:
        return raw
    return f"{raw[:_RAW_CHARS_MAX]}… {len(raw) - _RAW_CHARS_MAX} more characters"


def _attempts(error: UnmeasuredError | None) -> int:
    return error.attempts if isinstance(error, ProviderError) else 0


def _verdict_row(judged_verdict: JudgedVerdict) -> dict[str, JSON]:
    verdict = judged_verdict.verdict
    row: dict[str, JSON] = {
        "judge": judged_verdict.judge,
        "judge_digest": judged_verdict.judge_digest,
        "criterion": judged_verdict.criterion,
        "outcome": verdict.outcome,
        "score": verdict.score,
        "reason": verdict.reason,
    }
    if verdict.expected is not None:
        row["expected"] = verdict.expected
    if verdict.actual is not None:
        row["actual"] = verdict.actual
    if judged_verdict.labels:
        row["labels"] = True
    if not judged_verdict.blocking:
        row["blocking"] = False
    if judged_verdict.status_reason:
        row["status_reason"] = judged_verdict.status_reason
    if judged_verdict.calls is not None:
        row["usage"] = asdict(judged_verdict.calls)
    elif verdict.cost_usd:
        row["usage"] = asdict(CallTotals(cost_usd=verdict.cost_usd))
    if verdict.details:
        row["details"] = dict(verdict.details)
    return row


RECORD = "run.json"
_ROWS = "trials.jsonl"
# Values from models, judges and providers; the others are regauge's.
_ROW_TEXTS = ("output", "refusal", "cause", "response_model", "fingerprint", "messages")
_VERDICT_TEXTS = ("reason", "expected", "actual", "details")
_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


class RunWriter:
    """A writer of one process's rows.

    Args:
        directory: The run's directory, created with the first row.
        redact: Masks secrets in a text.
        worker: The name of a worker process, whose rows go to a separate file for `gather`; None
            in the controlling process.

    Attributes:
        tally: The counts of the rows.
        empty: Whether there are no rows.
        unwritten: Rows that could not be written, as lines; they are counted, too.
        trouble: The first error of writing; empty without one.
    """

    def __init__(
        self, directory: Path, *, redact: Callable[[str], str], worker: str | None = None
    ) -> None:
        self.directory = directory
        self.tally = RunTally()
        self.empty = True
        self._redact = redact
        self.unwritten: list[str] = []
        self.trouble = ""
        self._path = directory / (f"trials.{worker}.jsonl" if worker else _ROWS)
        self._file: FileIO | None = None

    def add(self, result: EvalResult, *, side: str | None = None) -> None:
        """Write the trials of one case; `side` is their side, with `--gate`."""
        self.empty = False
        rows = list(rows_of(result, side=side))
        for row in rows:
            self._clean(row, _ROW_TEXTS)
            for verdict in row["verdicts"]:
                self._clean(verdict, _VERDICT_TEXTS)
        try:
            self._append(self._path, [f"{_encode(row)}\n" for row in rows])
        finally:  # a signal is raised where the write returns
            for row in rows:
                self.tally.add(row)

    def _append(self, path: Path, lines: Sequence[str]) -> None:
        """Write as many whole lines as possible; add the others to `unwritten`."""
        if not lines:
            return
        content = "".join(lines).encode("utf-8", "backslashreplace")
        kept_bytes = written_bytes = 0
        try:
            if self.trouble:
                return
            if self._file is None:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._file = path.open("ab", buffering=0)
            end = os.fstat(self._file.fileno()).st_size
            try:
                while written_bytes < len(content):
                    written_bytes += self._file.write(content[written_bytes:])
            finally:
                written_bytes = os.fstat(self._file.fileno()).st_size - end
                kept_bytes = content.rfind(b"\n", 0, written_bytes) + 1
                if kept_bytes < written_bytes:
                    self._file.truncate(end + kept_bytes)
        except OSError as error:
            self._note(error, path)
        finally:
            self.unwritten += lines[content.count(b"\n", 0, kept_bytes) :]

    def _clean(self, table: dict[str, Any], names: Iterable[str]) -> None:
        """Mask secrets in some values."""
        for name in names:
            value = table.get(name)
            if type(value) is str:
                table[name] = self._redact(value)
            elif value is not None:
                table[name] = map_texts(value, self._redact)

    def close(self) -> None:
        """Close the file of rows."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def gather(self, unwritten: Sequence[str] = ()) -> None:
        """Merge the rows of worker processes, sorted by item, and count them.

        Args:
            unwritten: Rows that workers could not write.
        """
        parts = sorted(self.directory.glob("trials.*.jsonl"))
        if not parts and not unwritten:
            return
        keyed: list[tuple[str, int, str]] = []
        for lines in (*map(_lines_of, parts), unwritten):
            for line in lines:
                row = json.loads(line)
                keyed.append((row["node"], row["trial"], line))
                self.tally.add(row)
                self.empty = False
        self._append(self.directory / _ROWS, [line for _, _, line in sorted(keyed)])
        if not self.unwritten:
            for part in parts:
                part.unlink()

    def finish(
        self,
        *,
        started_at: datetime,
        interrupted: bool,
        command: Sequence[str],
        options: Mapping[str, Any],
        git: GitState | None,
        decision: DecisionDocument | None = None,
        suggestions: Sequence[Suggestion] = (),
        failed_tests: Mapping[str, str] | None = None,
        shard: ShardPart | None = None,
    ) -> RunRecord:
        """Write the record; an error of writing is in `trouble`.

        Args:
            decision: The gate's decision, with secrets masked; None without a gate.
        """
        self.close()
        # A gate has its own statuses of cases.
        if failed_tests and decision is None and self.tally.fail_cases(failed_tests):
            self._fail_rows(failed_tests)
        record = RunRecord(
            id=self.directory.name,
            started_at=started_at.isoformat(),
            # With its fraction, to distinguish runs that began in one second.
            finished_at=datetime.now(UTC).isoformat(),
            status="interrupted" if interrupted else "finished",
            regauge_version=version("regauge"),
            python_version=platform.python_version(),
            command=list(command),
            git=git,
            options=dict(options),
            evals=self.tally.evals(options.get("models") or ()),
            suggestions=list(suggestions),
            failed_tests=dict(failed_tests or {}),
            shard=shard,
        )
        record = map_texts(record, self._redact).model_copy(update={"decision": decision})
        path = self.directory / RECORD
        try:
            write_whole(path, f"{record.model_dump_json(indent=2)}\n".encode())
        except OSError as error:
            self._note(error, path)
        return record

    def _fail_rows(self, nodes: Container[str]) -> None:
        """Write that passed cases failed, as their tests failed after the judges."""
        path, new_path = self.directory / _ROWS, self.directory / f"{_ROWS}.new"
        try:
            with path.open("rb") as lines, new_path.open("wb") as new_lines:
                for line in lines:
                    row = json.loads(line)
                    if row["node"] in nodes and row["case_outcome"] == "passed":
                        row["case_outcome"] = "failed"
                        line = f"{_encode(row)}\n".encode("utf-8", "backslashreplace")  # noqa: PLW2901 - its new text
                    new_lines.write(line)
            new_path.replace(path)
        except OSError as error:
            self._note(error, path)

    def _note(self, error: OSError, path: Path) -> None:
        """Keep the first error of writing the record."""
        problem = MachineError.from_os_error(error, path)
        self.trouble = self.trouble or f"the record of this run is incomplete: {problem}"


def _lines_of(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8") as lines:
        yield from lines


def _encode(row: dict[str, Any]) -> str:
    """A row as JSON; replaces NaN and infinity of judges and prices."""
    try:
        return _ENCODE(row)
    except ValueError:
        for name in ("latency_s", "cost_usd"):
            row[name] = row[name] if row[name] is None or isfinite(row[name]) else None
        row["verdicts"] = [_finite(verdict) for verdict in row["verdicts"]]
        return _ENCODE(row)


def _finite(value: object) -> object:
    """A value with NaN and infinity as texts.

    >>> _finite({"a": [1.5, float("nan")]})
    {'a': [1.5, 'nan']}
    """
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    if is_list(value):
        return [*map(_finite, value)]
    if is_mapping(value):
        return {name: _finite(item) for name, item in value.items()}
    return value


def junit_properties(result: EvalResult) -> Iterator[tuple[str, object]]:
    """JUnit properties of the case, then of each trial."""
    yield "regauge.prompt", str(result.eval.prompt.id)
    yield "regauge.case", result.case.id
    yield "regauge.tier", result.case.tier
    yield "regauge.model", str(result.eval.model)
    yield "regauge.trials", len(result.trials)
    yield "regauge.passed", result.passed
    for trial in result.trials:
        if trial.sourced_completion is not None:
            completion = trial.sourced_completion.completion
            index = f"[{trial.number}]" if len(result.trials) > 1 else ""
            if completion.latency_s is not None:
                yield f"regauge.latency_s{index}", completion.latency_s
            if completion.cost_usd is not None:
                yield f"regauge.cost_usd{index}", completion.cost_usd
            yield f"regauge.source{index}", trial.sourced_completion.source
            for verdict in trial.verdicts:
                if verdict.verdict.outcome != "abstain":
                    yield f"regauge.score{index}.{verdict.judge}", verdict.verdict.score
                if not verdict.blocking:
                    yield f"regauge.advisory{index}.{verdict.judge}", verdict.status_reason
                calls = verdict.calls
                if calls is not None:
                    yield f"regauge.judge_calls{index}.{verdict.judge}", calls.calls
                    if calls.cost_usd is not None:
                        yield f"regauge.judge_cost_usd{index}.{verdict.judge}", calls.cost_usd
