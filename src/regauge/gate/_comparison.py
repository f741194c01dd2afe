"""The comparison of a change with its base: what the gate will run, and what it cannot measure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from regauge.errors import Diagnostic
from regauge.gate._bar import moved_files, moved_judging, moved_settings
from regauge.gate._base import check_locks, compare_with_base
from regauge.gate._code import edited_code, is_reformatted, is_set_up
from regauge.gate._commit import find_base
from regauge.gate._coverage import coverage_of, unselected_evals
from regauge.gate._notes import edited_records, shorten_list
from regauge.gate._reach import NotMeasured, caveats_of_targets, undeclared_changes
from regauge.gate._refusal import refusal_of_bars, refusal_of_trials
from regauge.wording import eval_names, first_of, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from regauge.gate._bar import MovedBar
    from regauge.gate._base import EvalBase
    from regauge.gate._commit import BaseCommit
    from regauge.gate._refusal import Refusal
    from regauge.gate._version_rules import RuleBreach
    from regauge.gate.baselines import Baseline
    from regauge.runner import Eval, EvalSession, PlannedCase


# A message fits on one line with this number of names.
_NAMES_MAX = 3
_FILES_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Comparison:
    """The comparison that a gate will run.

    Attributes:
        base_commit: The base version.
        evals: All evals, changed or not.
        notes: Notes for the reader.
        refusals: Reasons to compare nothing.
        unmeasured: Omissions that the user did not select; the change is not accepted.
        locks: Losses of `prompts.lock` since the base version; each rejects the change.
        judge_change_accepted: Reason to accept changed judges; empty if none changed.
        moved_bars: Parts of the bar that the change lowers; the base's apply.
        caveats: Other edits of the change that affect an accepted prompt's measurement.
        not_measured: Edits that ran no trial.
    """

    base_commit: BaseCommit
    evals: Sequence[EvalBase]
    notes: Sequence[str]
    refusals: Sequence[Refusal] = ()
    unmeasured: Sequence[Diagnostic] = ()
    locks: Sequence[RuleBreach] = ()
    judge_change_accepted: str = ""
    moved_bars: Sequence[str] = ()
    caveats: Sequence[str] = ()
    not_measured: Sequence[NotMeasured] = ()

    @property
    def errors(self) -> list[Diagnostic]:
        """Broken rules of versions and changelogs: they reject the change whatever trials show."""
        errors = [error for eval_ in self.evals for error in eval_.changelog_errors]
        breaches = [breach for eval_ in self.evals for breach in eval_.breaches]
        errors += [breach.error for breach in (*breaches, *self.locks)]
        return list(dict.fromkeys(errors))


def compare(
    session: EvalSession,
    ref: str,
    *,
    baseline: Baseline | None = None,
    accept_judge_change: str = "",
    omissions: Sequence[Diagnostic] = (),
    is_filtered: bool = False,
) -> Comparison:
    """Compare the planned cases with the base version.

    Args:
        session: A planned session.
        ref: Branch, tag or commit.
        baseline: Replaces the committed baseline of its prompt.
        accept_judge_change: Reason to accept changed judges or a lowered bar.
        omissions: Omissions of the run that the user did not select.
        is_filtered: Whether the user selected some of the evals.

    Raises:
        GitError: There is no base version.
        RegaugeError: A file of either version cannot be read.
    """
    cases_by_eval: dict[Eval, list[PlannedCase]] = {}
    for planned_case in session.plan.cases:
        cases_by_eval.setdefault(planned_case.eval, []).append(planned_case)
    base_commit = find_base(session.project, ref, evals=cases_by_eval)
    session.embeddings.trust(base_commit.read)
    evals = list(_compared_evals(session, cases_by_eval, base_commit, baseline))
    evals = _with_changelog_errors(evals, is_filtered=is_filtered)
    change = _EditedProject(base_commit, evals)
    coverage = coverage_of(
        base_commit, change.candidates, omissions=omissions, is_filtered=is_filtered
    )
    unmeasured = [*omissions, *coverage.unmeasured]
    if not change.evals and not unmeasured:
        unmeasured = [_nothing_selected(base_commit, is_filtered=is_filtered)]
    refusals = [refusal for eval_ in change.evals for refusal in eval_.refusals]
    refused = change.refused(accept_judge_change)
    command = f"regauge gate {base_commit.ref}"
    not_measured = [
        *change.not_measured(),
        *(NotMeasured(text=name, command=command) for name in coverage.unselected),
    ]
    notes = [*change.notes(), *coverage.notes]
    if not refused:  # a refusal lists these
        notes += [refusal.note for refusal in refusals]
        notes += [f"this change lowers its own bar: {bar}" for bar in change.bars]
    notes += [*change.file_notes(), *filter(None, (edit.note for edit in not_measured))]
    accepted_reason = accept_judge_change if refusals or change.bars else ""
    if accepted_reason:
        notes.append(f"the change of judges was accepted: {accepted_reason}")
    elif accept_judge_change:
        notes.append("no judge changed, so there was nothing to accept")
    return Comparison(
        base_commit=base_commit,
        evals=change.evals,
        notes=[*dict.fromkeys(notes)],
        refusals=refused,
        unmeasured=unmeasured,
        locks=check_locks(base_commit),
        judge_change_accepted=accepted_reason,
        moved_bars=[*map(str, change.bars)],
        caveats=[*change.caveats()],
        not_measured=not_measured,
    )


def _compared_evals(
    session: EvalSession,
    evals: Mapping[Eval, Sequence[PlannedCase]],
    base_commit: BaseCommit,
    baseline: Baseline | None,
) -> Iterator[EvalBase]:
    """Each eval of a session, with its planned cases, compared with its base."""
    names = eval_names((eval_.prompt.name, eval_.dataset.name, eval_.function) for eval_ in evals)
    for (eval_, planned_cases), name in zip(evals.items(), names, strict=True):
        replaces = baseline is not None and baseline.prompt == eval_.prompt.name
        eval_base = compare_with_base(
            eval_,
            base_commit,
            name=name,
            across_models=bool(session.options.models),
            baseline=baseline if replaces else None,
            siblings=[
                other
                for other in evals
                if other is not eval_
                and other.prompt.path == eval_.prompt.path
                and other.dataset.path == eval_.dataset.path
            ],
        )
        yield replace(eval_base, planned_cases=planned_cases)


def _with_changelog_errors(evals: Sequence[EvalBase], *, is_filtered: bool) -> list[EvalBase]:
    """The evals with the errors of changelogs at the first eval of each prompt.

    An entry is wrong if no eval of its prompt has the case. With a selection of evals, another
    eval may have it.
    """
    groups: dict[Path, list[EvalBase]] = {}
    for eval_ in evals:
        groups.setdefault(eval_.candidate.prompt.path, []).append(eval_)
    first_errors: dict[int, tuple[Diagnostic, ...]] = {}
    for group in groups.values():
        base_commit, candidates = group[0].base_commit, [eval_.candidate for eval_ in group]
        if is_filtered and [
            *unselected_evals(base_commit, candidates, [candidates[0].prompt.name])
        ]:
            continue
        entries = [{_entry_of(error): error for error in eval_.changelog_errors} for eval_ in group]
        first_errors[id(group[0])] = tuple(
            error
            for entry, error in entries[0].items()
            if all(entry in of_eval for of_eval in entries)
        )
    return [replace(eval_, changelog_errors=first_errors.get(id(eval_), ())) for eval_ in evals]


def _entry_of(error: Diagnostic) -> tuple[int | None, str]:
    """The entry of a changelog that an error names; the rest of its message is of one eval."""
    return error.line, error.message.partition(",")[0]


def _nothing_selected(base_commit: BaseCommit, *, is_filtered: bool) -> Diagnostic:
    directory = base_commit.project.root / "evals"
    message, fix = "no case of any eval was selected", "write an eval: regauge new eval NAME"
    if is_filtered:
        fix = f"select other evals, or compare all: regauge gate {base_commit.ref}"
    if any(base_commit.evals.values()) and not base_commit.eval_files:
        message = "the change deletes the last eval, so the gate has nothing to compare"
        fix = "put an eval back, or merge after a review, and take the gate out of the workflow"
    place = base_commit.project.relative(directory)
    return Diagnostic(path=place, line=None, message=message, fix=fix)


class _EditedProject:
    """The evals of a change and their base, and everything else that the change edits."""

    def __init__(self, base_commit: BaseCommit, evals: Sequence[EvalBase]) -> None:
        self._base_commit = base_commit
        self.evals = evals
        self.candidates = [eval_.candidate for eval_ in evals]
        states = {case.state for eval_ in evals for case in eval_.cases}
        self._prompt_changed = "changed" in states
        # Any case runs, and its judges with it.
        self._has_trials = not states.isdisjoint({"changed", "new"})
        self._code = edited_code(base_commit, self.candidates)
        self._records = list(edited_records(base_commit))

    @cached_property
    def bars(self) -> list[MovedBar]:
        """The bars that the change lowers: today's if a prompt changed, else those of its base."""
        base_commit, project = self._base_commit, self._base_commit.project
        bar = base_commit
        if any(eval_.prompt_changed for eval_ in self.evals):
            bar = base_commit.newest
        bars = [*moved_settings(bar.settings, project.settings)]
        for eval_ in self.evals:
            bars += eval_.bars
        bars += moved_files(bar, project.labels_dir, new_stems={})
        if self._prompt_changed:
            # The gate reads baselines at the tip; an older one is not a lower bar.
            new_stems = {
                base_commit.eval_name(eval_): eval_.prompt.name for eval_ in self.candidates
            }
            directory = project.fixtures_dir / "baselines"
            bars += moved_files(
                base_commit,
                directory,
                new_stems=new_stems,
                deleted_stems=base_commit.deleted_prompts(),
            )
        measured = [
            (eval_.candidate, eval_.baseline is not None and bar is base_commit)
            for eval_ in self.evals
            if not eval_.refusals
        ]
        bars += moved_judging(bar, measured)
        return bars

    def refused(self, accept_judge_change: str) -> list[Refusal]:
        """The reasons to compare nothing, without those that the user or a setting accepts."""
        base_commit = self._base_commit
        setting = base_commit.newest.settings.gate.on_judge_change
        is_noted = bool(accept_judge_change) or setting == "note"
        refused = [
            refusal
            for eval_ in self.evals
            for refusal in eval_.refusals
            if refusal.prompt_changed or not is_noted
        ]
        if (trials := refusal_of_trials(base_commit)) is not None:
            refused.append(trials)
        if self.bars and not accept_judge_change and (self._prompt_changed or not is_noted):
            changed = self._prompt_changed
            refused.append(refusal_of_bars(self.bars, base_commit, prompt_changed=changed))
        return list(dict.fromkeys(refused))

    def notes(self) -> Iterator[str]:
        """Notes on deleted and uncommitted files, and on each eval."""
        base_commit = self._base_commit
        if base_commit.uncommitted:
            yield "files differ from what is committed; they were compared as they are"
        for name in (*base_commit.deleted_prompts(), *base_commit.deleted_datasets()):
            yield f"{name} is gone: {base_commit.ref} has it"
        for eval_ in self.evals:
            yield from eval_.notes
            if eval_.partial:
                yield (
                    f"only {len(eval_.planned_cases)} of {len(eval_.candidate.dataset)} cases of"
                    f" {eval_.name} were selected; the rest is not compared"
                )

    def file_notes(self) -> Iterator[str]:
        """Notes on edits of stored results, and of code or data of the gate."""
        for _, note in self._records:
            yield note
        if self._code:
            yield (
                "the change also edits code or data of this gate or its workflow:"
                f" {first_of(self._code, _FILES_MAX)}"
            )

    def not_measured(self) -> Iterator[NotMeasured]:
        """The edits that run no trial, and the commands that measure them."""
        base_commit = self._base_commit
        yield from undeclared_changes(base_commit, self.evals)
        edited = sum(len(eval_.edited) for eval_ in self.evals if not eval_.prompt_changed)
        if edited:
            yield NotMeasured(
                text=plural(edited, "edited case"), command=base_commit.project.run_command
            )
        judging = [
            name
            for name in self._code
            if name not in self._deleted_evals
            and not is_set_up(base_commit, name)
            and not is_reformatted(base_commit, name)
        ]
        if judging and not self._has_trials:
            text = f"edited code or data of evals ({shorten_list(judging, _NAMES_MAX)})"
            yield NotMeasured(text=text, command=base_commit.project.run_command)

    def caveats(self) -> Iterator[str]:
        """Notes for the reader of an accepted change."""
        base_commit, evals = self._base_commit, self.evals
        if self.bars:
            yield f"{plural(len(self.bars), 'lowered bar')} let through"
        datasets = {eval_.dataset.name for eval_ in self.candidates}
        deleted_datasets = {
            Path(name).name.split(".")[0] for name in base_commit.deleted_datasets()
        }
        if deleted := sorted((deleted_datasets - datasets).union(base_commit.deleted_prompts())):
            yield f"{', '.join(deleted)} removed"
        if new_prompts := [eval_.name for eval_ in evals if eval_.base is None]:
            yield f"{', '.join(new_prompts)} new"
        if removed := sum(case.state == "removed" for eval_ in evals for case in eval_.cases):
            yield f"{plural(removed, 'case')} removed"
        if base_commit.uncommitted:
            yield f"uncommitted {shorten_list(sorted(base_commit.uncommitted), _NAMES_MAX)}"
        if self._prompt_changed:
            yield from self._caveats_of_prompts()
            yield from caveats_of_targets(base_commit, evals)
        yield from self._caveats_of_code()
        for name in dict.fromkeys(name for name, _ in self._records):
            yield f"{name} edited"

    def _caveats_of_code(self) -> Iterator[str]:
        if self._deleted_evals:
            yield f"{shorten_list(self._deleted_evals, _NAMES_MAX)} deleted"
        code = [name for name in self._code if name not in self._deleted_evals]
        if not self._has_trials:
            code = [name for name in code if is_set_up(self._base_commit, name)]
        if code:
            yield f"code or data of the gate edited ({shorten_list(code, _NAMES_MAX)})"

    def _caveats_of_prompts(self) -> Iterator[str]:
        base_commit = self._base_commit
        changed = [eval_ for eval_ in self.evals if eval_.prompt_changed]
        if edited := sum(len(eval_.edited) for eval_ in changed):
            yield f"{plural(edited, 'case')} edited"
        if newer := sum(len(eval_.newer) for eval_ in changed):
            yield f"{plural(newer, 'newer case')} of {base_commit.ref} not compared"
        if prompts := [eval_.name for eval_ in changed if eval_.other_judges]:
            yield f"judges differ from the baseline of {', '.join(prompts)}"
        # Judges read redacted completions.
        if base_commit.project.settings.redact != base_commit.settings.redact:
            yield "redact in [tool.regauge] edited"

    @cached_property
    def _deleted_evals(self) -> list[str]:
        """The changed files of code that had evals on the base and are gone."""
        base_commit = self._base_commit
        top, renamed = base_commit.repository.top, {*base_commit.renamed.values()}
        return [
            name
            for name in self._code
            if base_commit.evals.get(name) and name not in renamed and not (top / name).exists()
        ]
