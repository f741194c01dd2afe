"""An eval compared with its base version: changed cases, refusals and the baseline."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from regauge.errors import InvalidFileError, RegaugeError
from regauge.gate._accepted import case_state, find_accepted, proven_tier
from regauge.gate._anchor import (
    AnchorComparison,
    accepted_since,
    anchor_version,
    compare_baselines,
    stored_anchor,
)
from regauge.gate._bar import (
    MovedBar,
    edited_partners,
    moved_checks,
    moved_evaluators,
    moved_expectations,
    moved_scripts,
    moved_tiers,
)
from regauge.gate._commit import target_of_base
from regauge.gate._notes import critical_notes, notes_of
from regauge.gate._refusal import Refusal, refusals_of
from regauge.gate._types import GateCase
from regauge.gate._version_rules import RuleBreach, lock_breaches, version_breaches
from regauge.gate.baselines import key_of, load_baseline, parse_baseline
from regauge.judges import Rule, cases_from_test_data
from regauge.prompts import LOCK_NAME, PromptLock, lock_of
from regauge.providers import parse_model_id

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from regauge.datasets import Dataset, GoldenCase
    from regauge.errors import Diagnostic
    from regauge.evidence import CaseState, CaseTier
    from regauge.gate._accepted import AcceptedChange
    from regauge.gate._commit import BaseCommit
    from regauge.gate.baselines import Baseline, KeyDifference, StoredBaseline
    from regauge.prompts import Prompt
    from regauge.providers import ModelId
    from regauge.runner import Eval, PlannedCase
    from regauge.targets import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseAnchor:
    """An old version that the candidate is also compared with.

    Attributes:
        version: Version of the anchor.
        anchor: Trials of the anchor; None if the baseline has none that can be compared.
        base: The base compared with the anchor; None if nothing can be compared.
        accepted: Cases that changelogs accept since the anchor.
    """

    version: str
    anchor: StoredBaseline | None
    base: AnchorComparison | None
    accepted: frozenset[str]


def find_anchor(
    candidate: Eval,
    base_eval: Eval,
    prompt: Prompt,
    base_commit: BaseCommit,
    lock: PromptLock,
    *,
    baselines: Sequence[Baseline],
    baseline: StoredBaseline | None,
) -> BaseAnchor | None:
    """Find the anchor; None if the base's settings name none or it is the base version itself.

    Args:
        candidate: The eval now.
        base_eval: The eval with the base's prompt.
        prompt: Prompt of the base under its name there.
        lock: Lock of the base.
        baselines: Baselines of the prompt, newest first.
        baseline: Trials of the base.
    """
    released = [entry.version for entry in lock.entries_of(prompt.name)]
    version = anchor_version(
        base_commit.newest.settings.gate.anchor, released, current=prompt.version
    )
    if version is None:
        return None
    anchor = stored_anchor(baselines, str(version), key_of(base_eval))
    accepted = accepted_since(candidate.prompt, str(version))
    base = None
    if anchor is not None and baseline is not None:
        base = compare_baselines(anchor, baseline, accepted=accepted)
    return BaseAnchor(version=str(version), anchor=anchor, base=base, accepted=accepted)


Read = TypeVar("Read")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalBase:
    """One eval of a gate run, its base version, and the state of its cases.

    Attributes:
        name: Unique name: the prompt's, with the dataset's if a prompt has several, or the
            function's of evals that share one.
        base_commit: The commit.
        candidate: The eval now.
        planned_cases: Selected cases.
        base: The base's prompt and model with today's cases and judges, so that both sides are
            judged alike; None if the prompt is new.
        cases: Input of the engine: today's cases in their order, then removed ones.
        baseline: Trials of the base in the baseline; None without any under this key.
        anchor: Old version that the candidate is also compared with; None without any.
        refusals: Reasons not to compare anything.
        breaches: Broken version rules, each of which rejects the change.
        bars: Parts of the bar that the change lowers for this eval.
        edited: Cases with other inputs or expectations than on the base.
        other_judges: Judges that differ from the baseline's, if that is not a refusal.
        newer: Cases added to the base since the change branched off.
        changelog_errors: Errors in changelog entries, each of which rejects the change.
        notes: Sentences for the reader.
    """

    base_commit: BaseCommit
    candidate: Eval
    base: Eval | None
    cases: tuple[GateCase, ...]
    name: str = ""
    planned_cases: Sequence[PlannedCase] = ()
    baseline: StoredBaseline | None = None
    anchor: BaseAnchor | None = None
    refusals: tuple[Refusal, ...] = ()
    breaches: tuple[RuleBreach, ...] = ()
    bars: tuple[MovedBar, ...] = ()
    edited: tuple[str, ...] = ()
    other_judges: tuple[str, ...] = ()
    newer: tuple[str, ...] = ()
    changelog_errors: tuple[Diagnostic, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def unchanged(self) -> bool:
        """Return whether every case is unchanged, so that no trial is needed."""
        return all(case.state == "unchanged" for case in self.cases)

    @property
    def prompt_changed(self) -> bool:
        """Return whether the prompt or its model differs from the base's."""
        return self.base is not None and _prompt_differs(self.candidate, self.base)

    @property
    def partial(self) -> bool:
        """Return whether cases were left out, as by `-k`."""
        return len(self.planned_cases) < len(self.candidate.dataset)


def _prompt_differs(eval_: Eval, base: Eval) -> bool:
    """Return whether two evals differ in prompt or model."""
    return (eval_.prompt.digest, eval_.model) != (base.prompt.digest, base.model)


def compare_with_base(
    eval_: Eval,
    base_commit: BaseCommit,
    *,
    name: str = "",
    across_models: bool = False,
    baseline: Baseline | None = None,
    siblings: Sequence[Eval] = (),
) -> EvalBase:
    """Compare an eval with its base version, and find the baseline of the base.

    An unreadable file of the base does not block its fix: it is left out with a note.

    Args:
        eval_: The eval now.
        base_commit: From `find_base`.
        name: The unique name of the eval; by default the prompt's.
        across_models: Whether two models are compared on purpose (`--model`).
        baseline: Replaces the committed baseline.
        siblings: Other evals of the run with the same prompt and dataset.

    Raises:
        UsageError: All judges of the eval are advisory.
        LockError: The current lock cannot be read.
        BaselineError: The current baseline cannot be read.
    """
    head = eval_.prompt
    baseline_file = base_commit.project.baseline_path(head.name)
    # A broken baseline would be the base's after the merge.
    load_baseline(baseline_file, place=base_commit.project.relative(baseline_file))
    unreadable: list[str] = []
    prompt, target, pinned = _subject_of_base(eval_, base_commit, unreadable)
    unread = bool(unreadable)
    before = read_or_note(
        lambda: _dataset_before(eval_, base_commit, prompt), base_commit, unreadable
    )
    removed_cases = [case.id for case in before or () if case.id not in eval_.dataset]
    entries = find_accepted(
        _prompt_for_messages(head, base_commit),
        prompt,
        cases=[case.id for case in eval_.dataset],
        removed_cases=removed_cases,
    )
    base_eval = None
    if prompt is not None:
        base_eval = replace(
            eval_,
            # Completions of the base are recorded under the current name, even after a rename.
            prompt=replace(prompt, name=head.name),
            model=_base_model(eval_, prompt, base_commit, across_models=across_models)
            if target is None
            else target.model,
            origin=f"{base_commit.path_of(head.path)} in {base_commit.commit[:9]}",
            target=target,
        )
    states = case_states(
        eval_,
        base_eval,
        before,
        is_new=before is None
        and base_commit.adds_dataset(eval_.dataset, prompt=(prompt or head).name),
    )
    has_changed = "changed" in states.values()
    match, anchor, refusals = BaselineMatch(), None, tuple[Refusal, ...]()
    if base_eval is not None and prompt is not None:
        baselines = (
            [baseline]
            if baseline is not None
            else committed_baselines(head, prompt, base_commit, unreadable)
        )
        baselines = [_with_current_dataset_name(entry, eval_, base_commit) for entry in baselines]
        match = match_baseline(base_eval, baselines, siblings)
        lock = read_or_note(base_commit.lock, base_commit, unreadable)
        if lock is not None and target is None:
            anchor = find_anchor(
                eval_,
                base_eval,
                prompt,
                base_commit,
                lock,
                baselines=baselines,
                baseline=match.baseline,
            )
        refusals = refusals_of(
            eval_,
            base_eval,
            base_commit,
            match.judges or match.differences,
            across_models=across_models,
            prompt_changed=has_changed,
        )
    # Nothing is compared after a refusal.
    match = BaselineMatch() if refusals else match
    prompt_changed = base_eval is not None and _prompt_differs(eval_, base_eval)
    bar = base_commit.newest if prompt_changed else base_commit
    today = before
    if bar is not base_commit:
        today = _dataset_today(eval_, bar, prompt, unreadable)
    partners = read_or_note(lambda: edited_partners(eval_, bar), bar, unreadable) or {}
    edited = tuple(_edited_cases(eval_.dataset, before, partners))
    notes = notes_of(
        eval_,
        prompt,
        base_commit,
        has_changed=has_changed,
        runs_base=match.baseline is None and not refusals and has_changed,
        differences=match.differences,
        edited=edited,
    )
    return EvalBase(
        name=name or head.name,
        base_commit=base_commit,
        candidate=eval_,
        base=base_eval,
        cases=tuple(
            gate_cases(
                eval_,
                states,
                before=before,
                today=today,
                accepted=entries,
                judges=tuple(key_of(eval_).judges),
                baseline=match.baseline,
                edited=edited,
            )
        ),
        baseline=match.baseline,
        anchor=anchor,
        refusals=refusals,
        breaches=() if pinned else _breaches(head, prompt, base_commit, unreadable),
        bars=(
            *_moved_bars(eval_, prompt, today, prompt_changed=prompt_changed),
            *(partners.values() if prompt_changed else ()),
        ),
        edited=edited,
        other_judges=tuple(
            str(part) for part in match.judges or match.differences if part.part == "judge"
        ),
        newer=tuple(
            case.id
            for case in today or ()
            if bar is not base_commit
            and case.id not in eval_.dataset
            and case.id not in removed_cases
        ),
        changelog_errors=entries.errors,
        notes=(
            *unreadable,
            *(() if unread else notes),
            *critical_notes(eval_, match.baseline, states, name=name or head.name),
        ),
    )


def _dataset_today(
    eval_: Eval, tip: BaseCommit, prompt: Prompt | None, unreadable: list[str]
) -> Dataset | None:
    """The dataset at the tip of the base branch, whose bar a changed prompt is held to."""
    if eval_.target is None:
        prompt = read_or_note(lambda: tip.prompt(eval_.prompt), tip, unreadable)
    return read_or_note(lambda: _dataset_before(eval_, tip, prompt), tip, unreadable)


def _edited_cases(
    dataset: Dataset, before: Dataset | None, partners: Collection[str]
) -> Iterator[str]:
    """The cases with other inputs, expectations or partners than on the base."""
    for case in dataset:
        base_case = before.get(case.id) if before is not None else None
        is_edited = base_case is not None and base_case.digest != case.digest
        if is_edited or not _partners_of(case).isdisjoint(partners):
            yield case.id


def _moved_bars(
    eval_: Eval, prompt: Prompt | None, today: Dataset | None, *, prompt_changed: bool
) -> Iterator[MovedBar]:
    """The parts of the bar in golden cases and prompt files that a change lowers."""
    yield from moved_tiers(eval_.dataset, today)
    yield from moved_checks(eval_.dataset, today)
    if eval_.dataset.path == eval_.prompt.path:
        yield from moved_evaluators(eval_.prompt, prompt)
    if prompt_changed:
        yield from moved_expectations(eval_.dataset, today)
        yield from moved_scripts(eval_.dataset, today)


def _partners_of(case: GoldenCase) -> frozenset[str]:
    """The persona and the functions in the conversation of a case."""
    if case.script is None:
        return frozenset()
    functions = case.script.tools.functions.values() if case.script.tools is not None else ()
    return frozenset((case.script.persona, *functions))


def _subject_of_base(
    eval_: Eval, base_commit: BaseCommit, unreadable: list[str]
) -> tuple[Prompt | None, Target | None, bool]:
    """Return the base's prompt and target, and whether the eval pins a version or has a target."""
    head, head_target = eval_.prompt, eval_.target
    if head_target is not None:
        name = base_commit.eval_name(eval_)
        target = read_or_note(
            lambda: target_of_base(head_target, base_commit, eval_name=name),
            base_commit,
            unreadable,
        )
        prompt = target.describe_subject(name, path=head.path) if target is not None else None
        return prompt, target, True
    # An eval may pin a released version, which a change does not affect.
    if head.source != _file_text(head):
        return head, None, True
    return read_or_note(lambda: base_commit.prompt(head), base_commit, unreadable), None, False


def entry_errors(evals: Sequence[Eval], base_commit: BaseCommit) -> Sequence[Diagnostic]:
    """Errors of the cases that a changelog newly accepts or removes.

    Args:
        evals: All evals of one prompt or target.
        base_commit: From `find_base`.
    """
    head = evals[0].prompt
    base, *_ = _subject_of_base(evals[0], base_commit, [])
    ids = {case.id for eval_ in evals for case in eval_.dataset}
    datasets = [
        read_or_note(partial(_dataset_before, eval_, base_commit, base), base_commit, [])
        for eval_ in evals
    ]
    removed_cases = {case.id for dataset in datasets for case in dataset or ()} - ids
    return find_accepted(head, base or head, cases=ids, removed_cases=removed_cases).errors


def check_locks(base_commit: BaseCommit) -> tuple[RuleBreach, ...]:
    """Compare `prompts.lock` with that of the base version, once for a project.

    Raises:
        LockError: The current lock cannot be read.
    """
    base, head = _base_lock(base_commit, []), lock_of(base_commit.project.prompts_dir)
    return lock_breaches(
        replace(head, path=base_commit.project.relative(head.path)), base, ref=base_commit.ref
    )


def _base_lock(base_commit: BaseCommit, unreadable: list[str]) -> PromptLock:
    """The lock of the base; empty if it cannot be read, which is noted."""
    lock = read_or_note(base_commit.lock, base_commit, unreadable)
    return lock or PromptLock(base_commit.project.prompts_dir / LOCK_NAME)


def _breaches(
    head: Prompt, prompt: Prompt | None, base_commit: BaseCommit, unreadable: list[str]
) -> tuple[RuleBreach, ...]:
    return version_breaches(
        _prompt_for_messages(head, base_commit),
        prompt,
        head_lock=lock_of(head.path),
        base_lock=_base_lock(base_commit, unreadable),
    )


def _file_text(head: Prompt) -> str:
    try:
        return head.path.read_bytes().decode("utf-8")
    except OSError:
        return ""


def _prompt_for_messages(head: Prompt, base_commit: BaseCommit) -> Prompt:
    return replace(head, path=base_commit.project.relative(head.path))


def _dataset_before(eval_: Eval, base_commit: BaseCommit, prompt: Prompt | None) -> Dataset | None:
    if eval_.dataset.path != eval_.prompt.path:
        return base_commit.dataset(
            eval_.dataset, prompt=eval_.prompt.name if prompt is None else prompt.name
        )
    if prompt is None:
        return None
    shard = eval_.dataset.shard
    cases = cases_from_test_data(prompt)
    shard_cases = tuple(case for case in cases if shard is None or shard.includes(case.id))
    return replace(eval_.dataset, cases=shard_cases, excluded=len(cases) - len(shard_cases))


def _with_current_dataset_name(
    baseline: Baseline, eval_: Eval, base_commit: BaseCommit
) -> Baseline:
    """A baseline whose dataset has the name that the change gives it."""
    now = eval_.dataset.name
    renamed = baseline.with_dataset(
        base_commit.dataset_name(eval_.dataset, prompt=baseline.prompt), now
    )
    if renamed.has_dataset(now):
        return renamed
    for older in base_commit.older_names(eval_.dataset.path):
        renamed = renamed.with_dataset(older, now)
    return renamed


def _base_model(
    eval_: Eval, prompt: Prompt, base_commit: BaseCommit, *, across_models: bool
) -> ModelId:
    """The model of the base: from its own files, unless the eval or an option names another."""
    head_model = eval_.prompt.model or base_commit.project.settings.model
    base_model = prompt.model or base_commit.settings.model
    follows = head_model is not None and parse_model_id(head_model) == eval_.model
    if base_model is not None and (follows or across_models):
        return parse_model_id(base_model)
    return eval_.model


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineMatch:
    """The trials of a baseline under a key, or the differences from the nearest ones.

    Attributes:
        baseline: Trials under the key; None without any.
        differences: Differences of the nearest key of the same prompt and dataset.
        judges: Judges that differ for another version of the prompt, if this one has no trials.
    """

    baseline: StoredBaseline | None = None
    differences: tuple[KeyDifference, ...] = ()
    judges: tuple[KeyDifference, ...] = ()


def match_baseline(
    base: Eval, baselines: Sequence[Baseline], siblings: Sequence[Eval]
) -> BaselineMatch:
    """Find an eval of the base in baselines, newest first.

    Args:
        siblings: Evals of the same prompt and dataset, whose baselines no other eval has.

    Raises:
        UsageError: All judges of the eval are advisory.
    """
    key = key_of(base)
    for baseline in baselines:
        if (stored_baseline := baseline.find(key)) is not None:
            return BaselineMatch(baseline=stored_baseline)
    sibling_judges = [
        key_of(replace(base, judges=eval_.judges, judge_statuses=eval_.judge_statuses)).judges
        for eval_ in siblings
    ]
    nearest = next(
        (
            near
            for baseline in baselines
            if (near := baseline.find_nearest(key, without=sibling_judges)) is not None
        ),
        None,
    )
    if nearest is not None:
        return BaselineMatch(differences=nearest.key.differences(key))
    older = [
        stored_baseline.key.differences(key)
        for baseline in baselines
        for stored_baseline in baseline.baselines
        if stored_baseline.key.dataset == key.dataset
        and stored_baseline.key.judges not in sibling_judges
    ]
    judges = (part for part in (older[0] if older else ()) if part.part == "judge")
    return BaselineMatch(judges=tuple(judges))


def committed_baselines(
    head: Prompt, prompt: Prompt, base_commit: BaseCommit, unreadable: list[str]
) -> list[Baseline]:
    """The committed baselines of a prompt, newest first; under older names if there are none."""

    def read(name: str) -> list[Baseline]:
        path = base_commit.project.baseline_path(name)
        place = base_commit.project.relative(path)
        read = (
            read_or_note(partial(parse_baseline, data, place=place), base_commit, unreadable)
            for data in base_commit.read_newest(path)
        )
        return [baseline for baseline in read if baseline is not None]

    baselines = [
        baseline for name in dict.fromkeys((head.name, prompt.name)) for baseline in read(name)
    ]
    if not baselines and base_commit.has_baselines():
        baselines = [
            baseline for name in base_commit.older_names(head.path) for baseline in read(name)
        ]
    return baselines


def read_or_note(
    read: Callable[[], Read], base_commit: BaseCommit, unreadable: list[str]
) -> Read | None:
    """Return what `read` reads from the base; None, with a note, if a file is unreadable.

    Args:
        unreadable: Notes so far, each once.
    """
    try:
        return read()
    except InvalidFileError as error:
        diagnostic = error.diagnostics[0]
        place = base_commit.project.relative(diagnostic.path)
        line = f":{diagnostic.line}" if diagnostic.line is not None else ""
        unreadable_at = f"{place}{line} of {base_commit.ref}"
        note = f"{unreadable_at} cannot be read and is left out: {diagnostic.message}"
        if note not in unreadable:
            unreadable.append(note)
        return None


def case_states(
    eval_: Eval, base_eval: Eval | None, before: Dataset | None, *, is_new: bool = False
) -> dict[str, CaseState]:
    """The state of each case by id: whether its request changed.

    Args:
        before: Golden cases of the base; None if they are today's.
        is_new: Whether the change adds the dataset: its cases are new if their requests are the
            base's, which no trial would show otherwise.
    """
    states: dict[str, CaseState] = {}
    for case in eval_.dataset:
        request = _request(eval_, case)
        base_request = _request(base_eval, case) if base_eval is not None else None
        state = case_state(case, before=before, request=request or "", base_request=base_request)
        states[case.id] = "new" if is_new and state == "unchanged" else state
    return states


def _request(eval_: Eval, case: GoldenCase) -> str | None:
    """The digest of a request; None if the prompt cannot be rendered with the case."""
    try:
        return eval_.request(case, 0).digest
    except RegaugeError:
        return None


def _tier_on_base(case: GoldenCase, before: Dataset | None) -> CaseTier:
    """The tier that applies to a case: a change cannot lower its own bar."""
    then = before.get(case.id) if before is not None else None
    return case.tier if then is None else then.tier


def gate_cases(
    eval_: Eval,
    states: dict[str, CaseState],
    *,
    before: Dataset | None,
    today: Dataset | None,
    accepted: AcceptedChange,
    judges: tuple[str, ...],
    baseline: StoredBaseline | None,
    edited: Collection[str],
) -> list[GateCase]:
    """The cases of today in their order, then removed ones.

    Args:
        before: Golden cases of the base; None if they are today's.
        today: Golden cases that set the tiers.
        accepted: Cases that the changelog accepts.
        judges: Names of the blocking judges.
        baseline: Trials of the base in the baseline.
        edited: Cases that the change edited.
    """
    name = eval_.prompt.name
    # The judges that give scores: as in the baseline, or all that are not rules.
    graded = frozenset(judge.name for judge in eval_.judges if not isinstance(judge, Rule))
    if baseline is not None:
        graded = baseline.graded
    cases = [
        GateCase(
            prompt=name,
            case=case.id,
            checks=judges,
            baseline=baseline.find_trials(case.id, case.digest)
            if baseline is not None and states[case.id] != "new"
            else None,
            state=states[case.id],
            tier=proven_tier(case, baseline, tier=_tier_on_base(case, today)),
            accepted=accepted.accepted.get(case.id, ""),
            broke_before=accepted.broke_before.get(case.id, 0),
            recorded=eval_.target is not None and eval_.target.outputs is not None,
            edited=case.id in edited,
            graded=tuple(sorted(graded)),
        )
        for case in eval_.dataset
    ]
    cases += [
        GateCase(
            prompt=name,
            case=case.id,
            checks=judges,
            state="removed",
            tier=case.tier,
            accepted=accepted.removed.get(case.id, ""),
        )
        for case in before or ()
        if case.id not in eval_.dataset
    ]
    return cases
