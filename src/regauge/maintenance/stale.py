"""Unused recordings, for `lint` and `record --prune`."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regauge.errors import Diagnostic, RegaugeError
from regauge.maintenance.collection import left_out_errors
from regauge.runner import PlannedCase, PlannedTrial, judges_file, needed_keys

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from regauge.digests import JSON
    from regauge.recordings import MeasurementsFile, RecordingsFile
    from regauge.runner import EvalSession


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleFile:
    """One file of recordings, and its unused lines.

    Attributes:
        noun: The noun for a line of the file.
        used_keys: The keys of used lines.
        stale: The number of unused lines.
        missing: Whether lines are missing that an eval uses.
        judges: The judges of unused judgements.
        new_name: The prompt that uses the recordings, if the prompt was renamed; else empty.
    """

    file: RecordingsFile | MeasurementsFile
    noun: str
    used_keys: set[Any]
    stale: int
    missing: bool
    judges: Iterable[str | None] = ()
    new_name: str = ""

    @property
    def diagnostic(self) -> Diagnostic:
        """The error of a file with unused lines."""
        reason = "belong to requests that no eval makes any more"
        if self.noun != "recording":
            judges = ", ".join(sorted({judge for judge in self.judges if judge}))
            reason = f"are unused: outputs or judges changed since ({judges})"
        fix, path = "regauge record --prune", self.file.path
        if self.missing:
            fix = f"regauge record {shlex.quote(path.stem)}, then {fix}"
        if self.new_name:
            new_path = path.with_name(f"{self.new_name}{path.suffix}")
            reason = f"belong to the prompt {self.new_name!r}"
            fix = f"git mv {shlex.quote(str(path))} {shlex.quote(str(new_path))}"
        message = f"{self.stale} of {len(self.file)} {self.noun}s {reason}"
        return Diagnostic(path=path, message=message, fix=fix)


def prune_files(
    evals: EvalSession, prompts: Sequence[str], *, dry_run: bool
) -> Iterator[dict[str, JSON]]:
    """Remove unused lines, file by file; yield the number removed, or to remove, per file."""
    for stale in _stale_files(evals, prompts):
        total = len(stale.file)
        if stale.stale and not dry_run:
            stale.file.prune(stale.used_keys)
            stale.file.save()
        path = evals.project.relative(stale.file.path).as_posix()
        yield {"path": path, "removed": stale.stale, "of": total, "noun": f"{stale.noun}s"}


def recording_errors(evals: EvalSession) -> list[Diagnostic]:
    """One error per file with recordings or judgements that no eval uses.

    Raises:
        RegaugeError: A file cannot be read, or a case of its prompt cannot be rendered, so that
            its requests are unknown.
    """
    if left_out := left_out_errors(evals):
        return left_out  # their recordings are used
    return [stale.diagnostic for stale in _stale_files(evals) if stale.stale]


def _stale_files(evals: EvalSession, prompts: Sequence[str] = ()) -> Iterator[StaleFile]:
    """The recordings files of a project or some prompts: completions, then judgements."""
    directory = evals.project.recordings_dir
    for path in sorted(directory.glob("[!.]*.jsonl")):
        if not prompts or path.stem in prompts:
            yield _stale_answers(evals, path.stem)
    judge_files = [*directory.glob("judges/[!.]*.jsonl"), *directory.glob("verdicts/[!.]*.jsonl")]
    for prompt in sorted({path.stem for path in judge_files}):
        if not prompts or prompt in prompts:
            yield from _stale_judgements(evals, prompt)


def _cases_of_prompt(session: EvalSession, name: str) -> list[PlannedCase]:
    """The planned cases of a prompt, and the rows of `testData` in its file.

    pytest collects these rows only if the command names the file.
    """
    cases = [case for case in session.plan.cases if case.eval.prompt.name == name]
    file = session.project.prompts_dir / f"{name}.prompt.yml"
    try:
        evals = session.bind_prompt_file(file)
    except RegaugeError:  # no such file, or no data of its own
        return cases
    return [*cases, *(PlannedCase(eval_, case) for eval_ in evals for case in eval_.dataset)]


def _stale_answers(evals: EvalSession, prompt: str) -> StaleFile:
    cases = _cases_of_prompt(evals, prompt)
    for case in cases:
        if case.error is not None:
            raise case.error
    file = evals.completions.file(prompt)
    used_keys = needed_keys(file, cases)
    missing = any(PlannedTrial(case, 0).key not in used_keys for case in cases)
    stale = len(file) - len(used_keys)
    return StaleFile(
        file=file,
        noun="recording",
        used_keys=used_keys,
        stale=stale,
        missing=missing,
        new_name="" if cases else _new_name(evals, prompt),
    )


def _new_name(evals: EvalSession, prompt: str) -> str:
    """The prompt without recordings that uses those of a prompt that is gone; empty for none."""
    file = evals.completions.file(prompt)
    for name in sorted({case.eval.prompt.name for case in evals.plan.cases}):
        is_recorded = len(evals.completions.file(name)) > 0
        if not is_recorded and needed_keys(file, _cases_of_prompt(evals, name)):
            return name
    return ""


def _stale_judgements(evals: EvalSession, prompt: str) -> Iterator[StaleFile]:
    cases = _cases_of_prompt(evals, prompt)
    usage = evals.recordings_used_by_judges(prompt, cases)
    new_name = "" if cases else _new_name(evals, prompt)
    calls = evals.completions.file(judges_file(prompt))
    missing = len(usage.calls) > len(calls) - len(calls.find_unused(usage.calls))
    files: list[tuple[str, Any, Collection[Any]]] = [("judge call", calls, usage.calls)]
    measured = evals.measurements.file(prompt)
    if len(measured):
        files.append(("measurement", measured, usage.measurements))
    for noun, file, used_keys in files:
        unused = file.find_unused(used_keys)
        yield StaleFile(
            file=file,
            noun=noun,
            used_keys=set(used_keys),
            stale=len(unused),
            missing=missing,
            judges=[line.judge for line in unused],
            new_name=new_name,
        )
