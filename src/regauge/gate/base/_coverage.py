"""What main measures and this run does not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regauge.errors import Fault
from regauge.gate.base._version_rules import RuleBreach
from regauge.gate.baselines import (
    BaselineError,
    baseline_path,
    load_baseline,
    parse_baseline,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from regauge.gate.base._commit import BaseCommit
    from regauge.runner import PlannedCase, Suite

__all__ = ["Coverage", "coverage_of", "lost_cases"]

# They say which evals pytest collects.
_COLLECTING = frozenset({"conftest.py", "pyproject.toml", "pytest.ini", "setup.cfg", "tox.ini"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What becomes of datasets that main measures and a run does not.

    Attributes:
        breaches: Those whose eval the change took away; each rejects it.
        notes: Those that were not selected, or given up on purpose; one sentence each.
    """

    breaches: tuple[RuleBreach, ...] = ()
    notes: tuple[str, ...] = ()


def coverage_of(at: BaseCommit, suites: Iterable[Suite], *, narrowed: bool) -> Coverage:
    """Find every dataset that main has a baseline for and that no suite of a run covers.

    An eval that was deleted would otherwise take its cases along without a word. Whoever means
    it takes the baseline out as well, or the prompt.

    Args:
        at: The base version.
        suites: Those of the run.
        narrowed: Whether only some of the evals were asked for.
    """
    breaches: list[RuleBreach] = []
    notes: list[str] = []
    unasked: list[str] = []
    gone = at.deleted_prompts()
    for prompt, dataset in _not_measured(at, suites):
        if prompt in gone:
            continue  # whoever lists what is gone says so
        what = f"{at.ref} has a baseline of {prompt} (dataset {dataset})"
        if narrowed or not _may_have_lost_it(at, prompt, dataset):
            unasked.append(prompt if prompt == dataset else f"{prompt} (dataset {dataset})")
        elif not _still_stored(at, prompt, dataset):
            notes.append(f"{what}; this change takes it out, and the eval with it")
        else:
            path = at.project.relative(baseline_path(at.project, prompt))
            fault = Fault(
                path=path,
                line=None,
                message=f"{what}, and no eval measures it any more",
                fix=f"put the eval back; or, if it is given up on purpose, git rm {path}",
            )
            breaches.append(RuleBreach(rule="coverage", prompt=prompt, fault=fault))
    if unasked:
        notes.append(
            f"no eval of this run measures {', '.join(unasked)}, as {at.ref} does; nothing is said"
            f" of {'it' if len(unasked) == 1 else 'them'}"
        )
    return Coverage(breaches=tuple(breaches), notes=tuple(notes))


def lost_cases(
    at: BaseCommit, suite: Suite, selected: Sequence[PlannedCase], *, narrowed: bool
) -> RuleBreach | None:
    """The cases of a suite that the change keeps from being run, where nobody asked for fewer.

    Args:
        at: The base version.
        suite: Of the run.
        selected: Those of its cases that are run.
        narrowed: Whether only some of the evals or cases were asked for.
    """
    prompt, dataset = suite.prompt.name, suite.dataset.name
    if narrowed or not _may_have_lost_it(at, prompt, dataset):
        return None
    run = {planned.case.id for planned in selected}
    lost = [case.id for case in suite.dataset if case.id not in run]
    if not lost:
        return None
    fault = Fault(
        path=at.project.relative(suite.dataset.path),
        line=None,
        message=f"{len(lost)} of {len(suite.dataset)} cases of {prompt} are there and are not run,"
        f" such as {lost[0]}",
        fix="let the eval run all of them; or take them out, and say why under `removed`",
    )
    return RuleBreach(rule="coverage", prompt=prompt, fault=fault)


def _not_measured(at: BaseCommit, suites: Iterable[Suite]) -> Sequence[tuple[str, str]]:
    """Prompt and dataset of every baseline that no suite covers."""
    directory = at.repository.inside(at.project.fixtures_dir / "baselines")
    paths = [name for name in at.repository.files(at.tip, directory) if name.endswith(".json")]
    texts = at.repository.read_all((at.tip, path) for path in paths)
    known: set[tuple[str, str]] = set()
    for path, data in zip(paths, texts, strict=True):
        try:
            baseline = parse_baseline(data or b"", shown=Path(path))
        except BaselineError:
            continue  # whoever compares its prompt says so
        known |= {(baseline.prompt, history.key.dataset) for history in baseline.histories}
    suites = list(suites)
    covered = {(suite.prompt.name, suite.dataset.name) for suite in suites}
    # A prompt that was renamed has its baseline under the older name.
    covered |= {
        (_older(at.path_of(suite.prompt.path)), _older(at.path_of(suite.dataset.path)))
        for suite in suites
    }
    return sorted(known - covered)


def _may_have_lost_it(at: BaseCommit, prompt: str, dataset: str) -> bool:
    """Whether the change touched an eval of a prompt, or what says which evals there are."""
    if any(Path(name).name in _COLLECTING for name in at.changed):
        return True
    names = [at.renamed.get(name, name) for name in at.changed if name.endswith(".py")]
    texts = at.repository.read_all((at.commit, name) for name in names)
    words = (prompt.encode(), dataset.encode())
    return any(text is not None and any(word in text for word in words) for text in texts)


def _still_stored(at: BaseCommit, prompt: str, dataset: str) -> bool:
    """Whether the change leaves the baseline where it was."""
    path = baseline_path(at.project, prompt)
    try:
        baseline = load_baseline(path, shown=at.project.relative(path))
    except BaselineError:
        return True
    return baseline is not None and any(one.key.dataset == dataset for one in baseline.histories)


def _older(path: str) -> str:
    return Path(path).name.split(".", maxsplit=1)[0]
