"""Version rules of a changed prompt, and the coverage of the base by the evals of a run."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Literal, TypeAlias

from regauge.errors import Diagnostic, PromptError
from regauge.gate.baselines import BaselineError, load_baseline, parse_baseline
from regauge.prompts import load_prompt, prompt_files, prompt_name, read_prompt_text
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from regauge.gate._commit import BaseCommit
    from regauge.prompts import Prompt, PromptLock, Semver
    from regauge.runner import Eval


Rule: TypeAlias = Literal[
    "not-bumped", "no-version", "reused", "older", "contract", "not-released", "lock"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleBreach:
    """One version rule that a change breaks; each rejects the change.

    Attributes:
        prompt: Name of the prompt; empty for the lock as a whole.
        error: Location, message, and the command that fixes it.
    """

    rule: Rule
    prompt: str
    error: Diagnostic

    def __str__(self) -> str:
        return str(self.error)


def version_breaches(
    head: Prompt, base: Prompt | None, *, head_lock: PromptLock, base_lock: PromptLock
) -> tuple[RuleBreach, ...]:
    """The first version rule that a prompt breaks against its base and both locks.

    A prompt with the behaviour, contract and version of the base breaks none.

    Args:
        head: The prompt now.
        base: The prompt in the base version; None if it is new.
        head_lock: `prompts.lock` now.
        base_lock: `prompts.lock` of the base version.
    """
    if base is not None and _state(head) == _state(base):
        return ()
    if head.version is None:
        return (_no_version(head, base, head_lock=head_lock, base_lock=base_lock),)
    breach = (
        _not_bumped(head, base)
        or _reused_version(head, head.version, base_lock)
        or _reused_version(head, head.version, head_lock)
        or _older(head, head.version, base)
        or _contract(head, head.version, base, base_lock)
        or _not_released(head, head.version, head_lock)
    )
    return (breach,) if breach is not None else ()


def lock_breaches(
    head_lock: PromptLock, base_lock: PromptLock, *, ref: str
) -> tuple[RuleBreach, ...]:
    """Releases of the base version that the lock lost or changed: it is append-only."""
    return tuple(
        RuleBreach(rule="lock", prompt="", error=error)
        for error in head_lock.check_against(base_lock, ref)
    )


def behaviour(prompt: Prompt) -> tuple[str, str]:
    """The digests of the behaviour and the contract of a prompt."""
    return prompt.digest, prompt.contract_digest


def _state(prompt: Prompt) -> tuple[str, str, Semver | None]:
    return *behaviour(prompt), prompt.version


def _no_version(
    head: Prompt, base: Prompt | None, *, head_lock: PromptLock, base_lock: PromptLock
) -> RuleBreach:
    locks = (head_lock, base_lock)
    released = {entry.version for lock in locks for entry in lock.entries_of(head.name)}
    if base is not None and base.version is not None:
        released.add(base.version)
    if not released:
        message = "it has no version that results could belong to"
        return _breach("no-version", head, message, f"regauge bump {quote(head.name)} major")
    message = "it has no version any more"
    fix = f"write `version: {max(released)}` back, then: {_bump(head, base)}"
    return _breach("no-version", head, message, fix)


def _not_bumped(head: Prompt, base: Prompt | None) -> RuleBreach | None:
    if base is None or base.version != head.version:
        return None
    contract = head.contract_digest != base.contract_digest
    subject = "its contract (jsonSchema, inputs, tools)" if contract else "its content"
    message = f"{subject} changed, but its version is still {head.version}"
    return _breach("not-bumped", head, message, _bump(head, base))


def _reused_version(head: Prompt, version: Semver, lock: PromptLock) -> RuleBreach | None:
    entry = lock.get(head.name, version)
    if entry is None or (entry.digest, entry.contract_digest) == behaviour(head):
        return None
    message = f"version {version} was released with other content ({entry.digest[:12]})"
    return _breach(
        "reused", head, message, f"regauge bump {quote(head.name)} patch -m 'WHAT CHANGED'"
    )


def _older(head: Prompt, version: Semver, base: Prompt | None) -> RuleBreach | None:
    if base is None or base.version is None or version > base.version:
        return None
    message = f"version {version} is older than {base.version} of the base version"
    fix = f"write `version: {base.version}`, then: {_bump(head, base)}"
    return _breach("older", head, message, fix)


def _contract(
    head: Prompt, version: Semver, base: Prompt | None, base_lock: PromptLock
) -> RuleBreach | None:
    """A contract that changed without a new major version, against the base or its releases."""
    if base is None or base.contract_digest == head.contract_digest:
        return None
    before = base.version
    if before is None or before.prerelease:
        # Prereleases have no stable contract, so the release before them counts.
        broken = base_lock.needs_major(head)
        before = broken.version if broken is not None else None
    if before is None or version.major > before.major:
        return None
    message = (
        f"its contract (jsonSchema, inputs, tools) changed since {before},"
        f" but {version} is not a new major version"
    )
    return _breach(
        "contract", head, message, f"regauge bump {quote(head.name)} major -m 'WHAT CHANGED'"
    )


def _not_released(head: Prompt, version: Semver, lock: PromptLock) -> RuleBreach | None:
    if lock.get(head.name, version) is not None:
        return None
    message = f"version {version} is not in {lock.path.name}"
    return _breach("not-released", head, message, f"regauge bump {quote(head.name)}")


def _bump(head: Prompt, base: Prompt | None) -> str:
    contract = base is not None and base.contract_digest != head.contract_digest
    return f"regauge bump {quote(head.name)} {'major' if contract else 'minor'} -m 'WHAT CHANGED'"


def _breach(rule: Rule, head: Prompt, message: str, fix: str) -> RuleBreach:
    line = head.lines.get("version", 1)
    error = Diagnostic(path=head.path, line=line, message=message, fix=fix)
    return RuleBreach(rule=rule, prompt=head.name, error=error)


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
