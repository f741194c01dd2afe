"""Gaps of a comparison: datasets of the base and changed prompts that no eval measures."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from regauge.errors import Fault, PromptError
from regauge.gate.base._version_rules import behaviour
from regauge.gate.baselines import (
    BaselineError,
    baseline_path,
    load_baseline,
    older_names,
)
from regauge.prompts import load_prompt, prompt_files, prompt_name

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from regauge.gate.base._commit import BaseCommit
    from regauge.runner import Suite

__all__ = ["Coverage", "coverage_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """The parts of the base and of the change that a run does not measure.

    Attributes:
        unmeasured: What should have been measured; the change is not accepted.
        notes: What the user did not select, or gave up on purpose; one sentence each.
    """

    unmeasured: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()


def coverage_of(
    at: BaseCommit, suites: Sequence[Suite], *, owed: Sequence[Fault] = (), narrowed: bool
) -> Coverage:
    """Find every dataset with a baseline and every changed prompt that no suite of a run measures.

    A deleted eval would otherwise take its cases along without a word. To give it up, delete the
    baseline with it, or the prompt.

    Args:
        at: The base version.
        suites: Those of the run.
        owed: What is known to be left out; it is not reported twice.
        narrowed: Whether the user selected some of the evals.
    """
    known = {_stem(fault.path) for fault in owed}
    faults: list[Fault] = []
    notes: list[str] = []
    unselected: list[str] = []
    for prompt, fault in _changed_prompts(at, suites):
        if narrowed:
            notes.append(f"{prompt} changed, and no selected eval measures it as it is now")
        elif prompt not in known:
            known.add(prompt)
            faults.append(fault)
    gone = at.deleted_prompts()
    for prompt, dataset in _not_measured(at, suites):
        if prompt in gone:
            continue  # the list of what is gone says so
        what = f"{at.ref} has a baseline of {prompt} (dataset {dataset})"
        if narrowed:
            unselected.append(prompt if prompt == dataset else f"{prompt} (dataset {dataset})")
        elif not _still_stored(at, prompt, dataset):
            notes.append(f"{what}; this change takes it out, and the eval with it")
        elif not {prompt, dataset} & known:
            path = at.project.relative(baseline_path(at.project, prompt))
            fix = f"put the eval back; or, if it is given up on purpose, git rm {path}"
            message = f"{what}, and no eval measures it any more"
            faults.append(Fault(path=path, line=None, message=message, fix=fix))
    if unselected:
        notes.append(
            f"no eval of this run measures {', '.join(unselected)}, as {at.ref} does; nothing is"
            f" said of {'it' if len(unselected) == 1 else 'them'}"
        )
    return Coverage(unmeasured=tuple(faults), notes=tuple(notes))


def _changed_prompts(at: BaseCommit, suites: Sequence[Suite]) -> Iterator[tuple[str, Fault]]:
    """Prompts that are new or behave differently than in the base version, and are not measured.

    A prompt that never had a version is a draft.
    """
    measured = {(suite.prompt.path, suite.prompt.source) for suite in suites}
    measured |= {
        (prompt.path, prompt.source) for suite in suites for prompt in suite.loaded_prompts
    }
    rubrics = at.project.prompts_dir / "judges"
    for path in prompt_files(at.project.prompts_dir):
        if path.is_relative_to(rubrics) or at.repository.inside(path) not in at.changed:
            continue
        try:
            head = load_prompt(path, root=at.project.root)
        except PromptError as error:
            yield prompt_name(path), error.faults[0]
            continue
        if (path, head.source) in measured:
            continue
        try:
            base = at.prompt(head)
        except PromptError:
            base = None
        if base is None and head.version is None:
            continue
        if base is not None and (
            behaviour(base) == behaviour(head) or head.version is base.version is None
        ):
            continue
        pinned = any(suite.prompt.path == path for suite in suites)
        how = "its evals measure another version" if pinned else "no eval measures it"
        fix = (
            "take `version` out of @golden, or add an eval without it"
            if pinned
            else f"regauge new eval {head.name}"
        )
        message = f"{head.name} {'changed' if base else 'is new'}, and {how}"
        yield (
            head.name,
            Fault(path=at.project.relative(path), line=None, message=message, fix=fix),
        )


def _not_measured(at: BaseCommit, suites: Iterable[Suite]) -> Sequence[tuple[str, str]]:
    """Prompt and dataset of every baseline that no suite covers."""
    directory = at.repository.inside(at.project.fixtures_dir / "baselines")
    paths = [name for name in at.repository.files(at.tip, directory) if name.endswith(".json")]
    texts = at.repository.read_all((at.tip, path) for path in paths)
    known: set[tuple[str, str]] = set()
    for path, data in zip(paths, texts, strict=True):
        try:
            baseline = at.baseline(data or b"", shown=Path(path))
        except BaselineError:
            continue  # the comparison of its prompt says so
        known |= {(baseline.prompt, history.key.dataset) for history in baseline.histories}
    return sorted(known - {name for suite in suites for name in _names_of(at, suite, known)})


def _names_of(
    at: BaseCommit, suite: Suite, known: Container[tuple[str, str]]
) -> set[tuple[str, str]]:
    """An eval's prompt and dataset under the names of today, of the base, and of its history."""
    own = (suite.prompt.name, suite.dataset.name)
    if own in known:
        return {own}
    before = at.prompt_name(suite.prompt)
    prompts = {own[0], before, *older_names(at.project, suite.prompt.path)}
    datasets = {
        own[1],
        at.dataset_name(suite.dataset, prompt=before),
        *older_names(at.project, suite.dataset.path),
    }
    return {*product(prompts, datasets)}


def _still_stored(at: BaseCommit, prompt: str, dataset: str) -> bool:
    """Return whether the change leaves the baseline where it was."""
    path = baseline_path(at.project, prompt)
    try:
        baseline = load_baseline(path, shown=at.project.relative(path), parse=at.baseline)
    except BaselineError:
        return True
    return baseline is not None and any(
        history.key.dataset == dataset for history in baseline.histories
    )


def _stem(path: str | Path) -> str:
    return Path(path).name.split(".", maxsplit=1)[0]
