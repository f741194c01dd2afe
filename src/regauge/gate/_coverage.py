"""The coverage of the base by the evals of a run."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from regauge.errors import Diagnostic, PromptError
from regauge.gate._version_rules import behaviour
from regauge.gate.baselines import BaselineError, load_baseline, parse_baseline
from regauge.prompts import load_prompt, prompt_files, prompt_name, read_prompt_text
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from regauge.gate._commit import BaseCommit
    from regauge.runner import Eval


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """The parts of the base and of the change that a run does not measure.

    Attributes:
        unmeasured: Omissions that keep the change from being accepted.
        notes: Omissions by selection or on purpose, a sentence each.
        unselected: Changed prompts, evals of theirs and changed datasets that a selection leaves
            out.
    """

    unmeasured: tuple[Diagnostic, ...] = ()
    notes: tuple[str, ...] = ()
    unselected: tuple[str, ...] = ()


def coverage_of(
    base_commit: BaseCommit,
    evals: Sequence[Eval],
    *,
    omissions: Sequence[Diagnostic] = (),
    is_filtered: bool,
) -> Coverage:
    """Find every dataset with a baseline and every changed prompt that no eval of a run measures.

    A deleted eval would otherwise drop its cases silently. To drop it on purpose, delete its
    baseline as well, or the prompt.

    Args:
        base_commit: The base version.
        evals: Evals of the run.
        omissions: Omissions already reported.
        is_filtered: Whether the user selected some of the evals.
    """
    if is_filtered:
        return _coverage_of_selection(base_commit, evals)
    reported_names = {_stem(diagnostic.path) for diagnostic in omissions}
    diagnostics: list[Diagnostic] = []
    notes: list[str] = []
    for prompt, diagnostic in _changed_prompts(base_commit, evals):
        if prompt not in reported_names:
            reported_names.add(prompt)
            diagnostics.append(diagnostic)
    for prompt, dataset in _not_measured(base_commit, evals):
        evidence = f"{base_commit.ref} has a baseline of {prompt} (dataset {dataset})"
        stored_datasets = _stored_datasets(base_commit, prompt)
        if stored_datasets is not None and dataset not in stored_datasets:
            notes.append(f"{evidence}; this change removes it and its eval")
        elif not {prompt, dataset} & reported_names:
            path = base_commit.project.relative(base_commit.project.baseline_path(prompt))
            way = f"git rm {quote(str(path))}"
            if stored_datasets is not None and stored_datasets != {dataset}:
                # Other evals need their baselines in the file.
                way = f"delete the entries of dataset {dataset!r} from {path}"
            fix = f"put the eval back; or, if it is given up on purpose, {way}"
            message = f"{evidence}, and no eval measures it any more"
            diagnostics.append(Diagnostic(path=path, line=None, message=message, fix=fix))
    return Coverage(unmeasured=tuple(diagnostics), notes=tuple(notes))


def _coverage_of_selection(base_commit: BaseCommit, evals: Sequence[Eval]) -> Coverage:
    """The coverage of a selection of evals, in which an omission is not an error."""
    left_out = [prompt for prompt, _ in _changed_prompts(base_commit, evals)]
    notes = [
        f"{prompt} changed, and no selected eval measures it as it is now" for prompt in left_out
    ]
    pairs = _not_measured(base_commit, evals)
    if pairs:
        names = [name if name == data else f"{name} (dataset {data})" for name, data in pairs]
        notes.append(
            f"no eval of this run measures {', '.join(names)}, as {base_commit.ref} does;"
            f" {'it is' if len(names) == 1 else 'they are'} not compared"
        )
    changed = {
        eval_.prompt.name
        for eval_ in evals
        if base_commit.repository.inside(eval_.prompt.path) in base_commit.changed
    }
    golden = base_commit.repository.inside(base_commit.project.golden_dir)
    edited = {_stem(name) for name in base_commit.changed if name.startswith(f"{golden}/")}
    # The pairs name those with a baseline; what is deleted is noted apart.
    other_names = {
        *left_out,
        *(data for _, data in pairs),
        *(eval_.dataset.name for eval_ in evals),
    }
    other_names.update(map(_stem, base_commit.deleted_datasets()))
    unselected = [
        *left_out,
        *(f"{name} (dataset {data})" for name, data in pairs if name in changed or data in edited),
        *(f"dataset {data}" for data in sorted(edited - other_names)),
        *unselected_evals(base_commit, evals, changed),
    ]
    return Coverage(notes=tuple(notes), unselected=tuple(unselected))


def unselected_evals(
    base_commit: BaseCommit, evals: Sequence[Eval], prompts: Iterable[str]
) -> Iterator[str]:
    """The number of further evals that the base has of each prompt."""
    prompts_of_evals = [base.texts[:1] for bases in base_commit.evals.values() for base in bases]
    for prompt in sorted(prompts):
        # The evals of several models have one declaration.
        measured = {
            (eval_.dataset.name, frozenset(judge.digest for judge in eval_.judges))
            for eval_ in evals
            if eval_.prompt.name == prompt
        }
        if len(measured) < (count := prompts_of_evals.count((prompt,))):
            yield f"{count - len(measured)} of {plural(count, 'eval')} of {prompt}"


def _changed_prompts(
    base_commit: BaseCommit, evals: Sequence[Eval]
) -> Iterator[tuple[str, Diagnostic]]:
    """Yield prompts that are new or behave differently than on the base, and are not measured.

    A prompt that never had a version is a draft.
    """
    measured = {(eval_.prompt.path, eval_.prompt.source) for eval_ in evals}
    measured |= {(prompt.path, prompt.source) for eval_ in evals for prompt in eval_.loaded_prompts}
    rubrics = base_commit.project.prompts_dir / "judges"
    for path in prompt_files(base_commit.project.prompts_dir):
        if (
            path.is_relative_to(rubrics)
            or base_commit.repository.inside(path) not in base_commit.changed
        ):
            continue
        try:
            if (path, read_prompt_text(path)) in measured:
                continue
            head = load_prompt(path, root=base_commit.project.root)
        except PromptError as error:
            yield prompt_name(path), error.diagnostics[0]
            continue
        try:
            base = base_commit.prompt(head)
        except PromptError:
            base = None
        if base is None and head.version is None:
            continue
        if base is not None and (
            behaviour(base) == behaviour(head) or head.version is base.version is None
        ):
            continue
        pinned = any(eval_.prompt.path == path for eval_ in evals)
        reason = "its evals measure another version" if pinned else "no eval measures it"
        fix = (
            "take `version` out of @golden, or add an eval without it"
            if pinned
            else f"regauge new eval {quote(head.name)}"
        )
        message = f"{head.name} {'changed' if base else 'is new'}, and {reason}"
        yield (
            head.name,
            Diagnostic(
                path=base_commit.project.relative(path), line=None, message=message, fix=fix
            ),
        )


def _not_measured(base_commit: BaseCommit, evals: Iterable[Eval]) -> Sequence[tuple[str, str]]:
    """Prompt and dataset of every baseline that no eval covers."""
    directory = base_commit.repository.inside(base_commit.project.fixtures_dir / "baselines")
    files = base_commit.repository.read_files(base_commit.tip, directory, ".json")
    baseline_names: set[tuple[str, str]] = set()
    for path, data in files.items():
        baseline_file = base_commit.repository.top / path
        if not baseline_file.is_file() and base_commit.read(baseline_file) is None:
            continue  # the base got it after the change began
        try:
            baseline = parse_baseline(data, place=Path(path))
        except BaselineError:
            continue  # reported by the comparison of its prompt
        baseline_names |= {
            (baseline.prompt, stored_baseline.key.dataset) for stored_baseline in baseline.baselines
        }
    if not baseline_names:
        return ()
    deleted = base_commit.deleted_prompts()  # listed as deleted
    return sorted(
        {names for names in baseline_names if names[0] not in deleted}
        - {name for eval_ in evals for name in _names_of(base_commit, eval_, baseline_names)}
    )


def _names_of(
    base_commit: BaseCommit, eval_: Eval, baseline_names: Container[tuple[str, str]]
) -> set[tuple[str, str]]:
    """The possible names of an eval's prompt and dataset: today's, the base's, and earlier ones."""
    names = (eval_.prompt.name, eval_.dataset.name)
    if names in baseline_names:
        return {names}
    before = base_commit.eval_name(eval_)
    prompts = {names[0], before, *base_commit.older_names(eval_.prompt.path)}
    datasets = {
        names[1],
        base_commit.dataset_name(eval_.dataset, prompt=before),
        *base_commit.older_names(eval_.dataset.path),
    }
    return {*product(prompts, datasets)}


def _stored_datasets(base_commit: BaseCommit, prompt: str) -> set[str] | None:
    """The datasets of the baselines that a change keeps; None if they cannot be read."""
    path = base_commit.project.baseline_path(prompt)
    try:
        baseline = load_baseline(path, place=base_commit.project.relative(path))
    except BaselineError:
        return None
    return (
        {stored_baseline.key.dataset for stored_baseline in baseline.baselines}
        if baseline
        else set()
    )


def _stem(path: str | Path) -> str:
    return Path(path).name.split(".", maxsplit=1)[0]
