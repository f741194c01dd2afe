"""A suite compared with its base version: changed cases, refusals and the baseline."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from regauge.errors import FaultyFileError, RegaugeError
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
from regauge.gate._compare import (
    AnchorComparison,
    accepted_since,
    anchor_version,
    compare_histories,
    stored_anchor,
)
from regauge.gate._coverage import RuleBreach, lock_breaches, version_breaches
from regauge.gate._refusal import (
    Refusal,
    acknowledged,
    case_state,
    critical_notes,
    notes_of,
    proven_tier,
    refusals_of,
)
from regauge.gate._types import GateCase
from regauge.gate.baselines import AnchorTrials, baseline_path, key_of, load_baseline, older_names
from regauge.judges import cases_from_test_data
from regauge.prompts import LOCK_NAME, PromptLock, lock_of
from regauge.providers import parse_model_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from regauge.datasets import Dataset, GoldenCase
    from regauge.errors import Fault
    from regauge.evidence import CaseState, CaseTier
    from regauge.gate._commit import BaseCommit
    from regauge.gate._refusal import AcceptedChange
    from regauge.gate.baselines import Baseline, KeyDifference, StoredHistory
    from regauge.prompts import Prompt
    from regauge.providers import ModelId
    from regauge.runner import Eval
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
    anchor: AnchorTrials | None
    base: AnchorComparison | None
    accepted: frozenset[str]


def anchor_of_base(
    candidate: Eval,
    base_eval: Eval,
    prompt: Prompt,
    at: BaseCommit,
    lock: PromptLock,
    *,
    baselines: Sequence[Baseline],
    history: StoredHistory | None,
) -> BaseAnchor | None:
    """The anchor; None where the base's settings name none, or it is the base version itself.

    Args:
        candidate: The eval as it is.
        base_eval: The same with the base's prompt.
        prompt: The base's prompt under the name it has there.
        lock: Of the base.
        baselines: Baselines of the prompt, the newest first.
        history: The base's own.
    """
    released = [entry.version for entry in lock.entries_of(prompt.name)]
    version = anchor_version(at.newest.settings.gate.anchor, released, current=prompt.version)
    if version is None:
        return None
    anchor = stored_anchor(baselines, str(version), key_of(base_eval))
    accepted = accepted_since(candidate.prompt, str(version))
    base = None
    if anchor is not None and history is not None:
        base = compare_histories(anchor, history, accepted=accepted)
    return BaseAnchor(version=str(version), anchor=anchor, base=base, accepted=accepted)


Read = TypeVar("Read")


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """The base version of a suite, and the state of its cases.

    Attributes:
        base_commit: The commit.
        candidate: The suite now.
        suite: The base's prompt and model with today's cases and judges, so that both sides are
            judged alike; None if the prompt is new.
        cases: Input of the engine: today's cases in their order, then removed ones.
        history: Trials of the base in the baseline; None without any under this key.
        anchor: Old version that the candidate is also compared with; None without any.
        refusals: Reasons not to compare anything.
        breaches: Broken version rules, each of which rejects the change.
        bars: Parts of the bar that the change lowers for this suite.
        edited: Cases with other inputs or expectations than on the base.
        other_judges: Judges that differ from the baseline's, if that is no refusal.
        newer: Cases added to the base since the change branched off.
        faults: Changelog entries about no case, each of which rejects the change.
        notes: Sentences for the reader.
    """

    base_commit: BaseCommit
    candidate: Eval
    suite: Eval | None
    cases: tuple[GateCase, ...]
    history: StoredHistory | None = None
    anchor: BaseAnchor | None = None
    refusals: tuple[Refusal, ...] = ()
    breaches: tuple[RuleBreach, ...] = ()
    bars: tuple[MovedBar, ...] = ()
    edited: tuple[str, ...] = ()
    other_judges: tuple[str, ...] = ()
    newer: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def unchanged(self) -> bool:
        """Return whether every case is unchanged, so that no trial is needed."""
        return all(case.state == "unchanged" for case in self.cases)

    @property
    def prompt_changed(self) -> bool:
        """Return whether the prompt or its model differs from the base's."""
        return self.suite is not None and _differs(self.candidate, self.suite)


def _differs(suite: Eval, base: Eval) -> bool:
    """Return whether the prompt or its model is another one."""
    return (suite.prompt.digest, suite.model) != (base.prompt.digest, base.model)


def compare_with_base(
    suite: Eval,
    at: BaseCommit,
    *,
    across_models: bool = False,
    base_model: ModelId | None = None,
    baseline: Baseline | None = None,
) -> Base:
    """Compare a suite with its base version, and find the baseline of the base.

    An unreadable file of the base does not block its fix: it is left out with a note.

    Args:
        suite: The suite now.
        base_commit: From `find_base`.
        across_models: Whether two models are compared on purpose (`--model`).
        base_model: Model of the base; None for that of the base version.
        baseline: Replaces the committed baseline.

    Raises:
        UsageError: All judges of the suite are advisory.
        LockError: The current lock cannot be read.
        BaselineError: The current baseline cannot be read.
    """
    head = suite.prompt
    own = baseline_path(at.project, head.name)
    # The base will have it after the merge, and know nothing any more.
    load_baseline(own, place=at.project.relative(own), parse=at.baseline)
    unreadable: list[str] = []
    prompt, target, pinned = _subject_of_base(suite, at, unreadable)
    unread = bool(unreadable)
    before = readable(lambda: _dataset_before(suite, at, prompt), at, unreadable)
    removed_cases = [case.id for case in before or () if case.id not in suite.dataset]
    entries = acknowledged(
        _prompt_for_messages(head, at),
        prompt,
        cases=[case.id for case in suite.dataset],
        gone=removed_cases,
    )
    base_eval = None
    if prompt is not None:
        model = suite.model
        if target is None:
            model = base_model or _base_model(suite, prompt, at, across_models=across_models)
        origin = f"{at.path_of(head.path)} in {at.commit[:9]}"
        # Completions of the base are recorded under today's name, wherever the file was.
        base_eval = replace(
            suite,
            prompt=replace(prompt, name=head.name),
            model=model,
            origin=origin,
            target=target,
        )
    states = states_of(suite, base_eval, before)
    match = BaselineMatch()
    anchor = None
    if base_eval is not None and prompt is not None:
        baselines = (
            [baseline]
            if baseline is not None
            else committed_baselines(head, prompt, at, unreadable)
        )
        baselines = [_under_names_of_today(each, suite, at) for each in baselines]
        match = known_of(base_eval, baselines)
        lock = readable(at.lock, at, unreadable)
        if lock is not None and target is None:
            anchor = anchor_of_base(
                suite, base_eval, prompt, at, lock, baselines=baselines, history=match.history
            )
    refusals: tuple[Refusal, ...] = ()
    if base_eval is not None:
        refusals = refusals_of(
            suite,
            base_eval,
            at,
            match.judges or match.differences,
            across_models=across_models,
            prompt_changed="changed" in states.values(),
        )
    judges = tuple(key_of(suite).judges)
    history = match.history if not refusals else None
    # Next to a changed prompt the bar of today counts, whatever the change began with.
    today = before
    at_today = at.newest if base_eval is not None and _differs(suite, base_eval) else at
    if at_today is not at:
        of_today = readable(lambda: at_today.prompt(head), at_today, unreadable)
        today = readable(lambda: _dataset_before(suite, at_today, of_today), at_today, unreadable)
    cases = gate_cases(
        suite,
        states,
        before=before,
        today=today,
        acknowledged=entries,
        judges=judges,
        history=history,
    )
    partners = readable(lambda: edited_partners(suite, at_today), at_today, unreadable) or {}
    edited = tuple(
        case.id
        for case in suite.dataset
        if (
            before is not None
            and (then := before.get(case.id)) is not None
            and then.digest != case.digest
        )
        or not _partners_of(case).isdisjoint(partners)
    )
    notes = notes_of(
        suite,
        prompt,
        at,
        drawn_beside=match.history is None and not refusals and "changed" in states.values(),
        differences=() if refusals else match.differences,
        edited=edited,
    )
    base = Base(
        base_commit=at,
        candidate=suite,
        suite=base_eval,
        cases=tuple(cases),
        history=history,
        anchor=anchor,
        refusals=refusals,
        breaches=() if pinned else _breaches(head, prompt, at, unreadable),
        edited=edited,
        other_judges=()
        if refusals
        else tuple(str(part) for part in match.judges or match.differences if part.part == "judge"),
        newer=tuple(
            case.id
            for case in today or ()
            if at_today is not at and case.id not in suite.dataset and case.id not in removed_cases
        ),
        faults=entries.faults,
        notes=(
            *unreadable,
            *(() if unread else notes),
            *critical_notes(suite, history, states),
        ),
    )
    bars = [*moved_tiers(suite.dataset, today), *moved_checks(suite.dataset, today)]
    if suite.dataset.path == suite.prompt.path:
        bars += moved_evaluators(suite.prompt, prompt)
    if base.prompt_changed:
        bars += moved_expectations(suite.dataset, today)
        bars += moved_scripts(suite.dataset, today)
        bars += partners.values()
    return replace(base, bars=tuple(bars))


def _partners_of(case: GoldenCase) -> frozenset[str]:
    """The persona and the functions in the conversation of a case."""
    if case.script is None:
        return frozenset()
    functions = case.script.tools.functions.values() if case.script.tools is not None else ()
    return frozenset((case.script.persona, *functions))


def _subject_of_base(
    suite: Eval, at: BaseCommit, unreadable: list[str]
) -> tuple[Prompt | None, Target | None, bool]:
    """Return the base's prompt and target, and whether the eval pins a version or has a target."""
    head, own = suite.prompt, suite.target
    if own is not None:
        target = readable(lambda: target_of_base(own, at), at, unreadable)
        prompt = target.describe_subject(head.name, path=head.path) if target is not None else None
        return prompt, target, True
    # An eval may ask for a released version; a change does not touch it.
    if head.source != _text(head):
        return head, None, True
    return readable(lambda: at.prompt(head), at, unreadable), None, False


def check_locks(at: BaseCommit) -> tuple[RuleBreach, ...]:
    """Compare `prompts.lock` with that of the base version, once for a project.

    Raises:
        LockError: The current lock cannot be read.
    """
    base = readable(at.lock, at, [])
    if base is None:
        return ()
    head = lock_of(at.project.prompts_dir)
    return lock_breaches(replace(head, path=at.project.relative(head.path)), base, ref=at.ref)


def _breaches(
    head: Prompt, prompt: Prompt | None, at: BaseCommit, unreadable: list[str]
) -> tuple[RuleBreach, ...]:
    lock = readable(at.lock, at, unreadable)
    if lock is None:
        lock = PromptLock(at.project.prompts_dir / LOCK_NAME)
    return version_breaches(
        _prompt_for_messages(head, at), prompt, head_lock=lock_of(head.path), base_lock=lock
    )


def _text(head: Prompt) -> str:
    try:
        return head.path.read_bytes().decode("utf-8")
    except OSError:
        return ""


def _prompt_for_messages(head: Prompt, at: BaseCommit) -> Prompt:
    return replace(head, path=at.project.relative(head.path))


def _dataset_before(suite: Eval, at: BaseCommit, prompt: Prompt | None) -> Dataset | None:
    if suite.dataset.path != suite.prompt.path:
        return at.dataset(
            suite.dataset, prompt=suite.prompt.name if prompt is None else prompt.name
        )
    if prompt is None:
        return None
    shard = suite.dataset.shard
    cases = cases_from_test_data(prompt)
    own = tuple(case for case in cases if shard is None or shard.includes(case.id))
    return replace(suite.dataset, cases=own, excluded=len(cases) - len(own))


def _under_names_of_today(baseline: Baseline, suite: Eval, at: BaseCommit) -> Baseline:
    """A baseline whose dataset has the name that the change gives it."""
    now = suite.dataset.name
    renamed = baseline.with_dataset(at.dataset_name(suite.dataset, prompt=baseline.prompt), now)
    for older in older_names(at.project, suite.dataset.path):
        renamed = renamed.with_dataset(older, now)
    return renamed


def _base_model(suite: Eval, prompt: Prompt, at: BaseCommit, *, across_models: bool) -> ModelId:
    """The model of the base: from its own files, unless the eval or an option names another."""
    own = suite.prompt.model or at.project.settings.model
    base_model = prompt.model or at.settings.model
    follows = own is not None and parse_model_id(own) == suite.model
    if base_model is not None and (follows or across_models):
        return parse_model_id(base_model)
    return suite.model


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineMatch:
    """The trials of a baseline under a key, or the differences from the nearest ones.

    Attributes:
        history: Trials under the key; None without any.
        differences: Differences of the nearest key of the same prompt and dataset.
        judges: Judges that differ for another version of the prompt, if this one has no trials.
    """

    history: StoredHistory | None = None
    differences: tuple[KeyDifference, ...] = ()
    judges: tuple[KeyDifference, ...] = ()


def known_of(base: Eval, baselines: Sequence[Baseline]) -> BaselineMatch:
    """Look up a suite of the base in baselines, the newest first.

    Raises:
        UsageError: None of the suite's judges decides.
    """
    key = key_of(base)
    for each in baselines:
        if (history := each.find(key)) is not None:
            return BaselineMatch(history=history)
    nearest = next(
        (near for each in baselines if (near := each.find_nearest(key)) is not None), None
    )
    if nearest is not None:
        return BaselineMatch(differences=nearest.key.differences(key))
    older = [
        stored.key.differences(key)
        for baseline in baselines
        for stored in baseline.histories
        if stored.key.dataset == key.dataset
    ]
    judges = (part for part in (older[0] if older else ()) if part.part == "judge")
    return BaselineMatch(judges=tuple(judges))


def committed_baselines(
    head: Prompt, prompt: Prompt, at: BaseCommit, unreadable: list[str]
) -> list[Baseline]:
    """The committed baselines of a prompt, newest first; under older names if there are none."""

    def read(name: str) -> list[Baseline]:
        path = baseline_path(at.project, name)
        place = at.project.relative(path)
        read = (
            readable(partial(at.baseline, data, place=place), at, unreadable)
            for data in at.read_newest(path)
        )
        return [each for each in read if each is not None]

    baselines = [each for name in dict.fromkeys((head.name, prompt.name)) for each in read(name)]
    if not baselines:
        baselines = [each for name in older_names(at.project, head.path) for each in read(name)]
    return baselines


def readable(read: Callable[[], Read], at: BaseCommit, unreadable: list[str]) -> Read | None:
    """The text of a file of the base; None, with a note, if it is unreadable.

    Args:
        unreadable: The notes so far; each stands there once.
    """
    try:
        return read()
    except FaultyFileError as error:
        fault = error.faults[0]
        place = at.project.relative(fault.path)
        line = f":{fault.line}" if fault.line is not None else ""
        note = f"{place}{line} of {at.ref} cannot be read and is left out: {fault.message}"
        if note not in unreadable:
            unreadable.append(note)
        return None


def states_of(suite: Eval, base_eval: Eval | None, before: Dataset | None) -> dict[str, CaseState]:
    """The state of each case of today by its id: whether its input or expectation changed."""
    states: dict[str, CaseState] = {}
    for case in suite.dataset:
        asked = _request(suite, case)
        base = _request(base_eval, case) if base_eval is not None else None
        states[case.id] = case_state(case, before=before, request=asked or "", base_request=base)
    return states


def _request(suite: Eval, case: GoldenCase) -> str | None:
    """The digest of a request; None if the prompt cannot be rendered with the case."""
    try:
        return suite.request(case, 0).digest
    except RegaugeError:
        return None


def _tier_on_base(case: GoldenCase, before: Dataset | None) -> CaseTier:
    """The tier that applies to a case: a change cannot lower its own bar."""
    then = before.get(case.id) if before is not None else None
    return case.tier if then is None else then.tier


def gate_cases(
    suite: Eval,
    states: dict[str, CaseState],
    *,
    before: Dataset | None,
    today: Dataset | None,
    acknowledged: AcceptedChange,
    judges: tuple[str, ...],
    history: StoredHistory | None,
) -> list[GateCase]:
    """The cases of today in their order, then removed ones.

    Args:
        before: Golden cases of the base; None if they are today's.
        today: Golden cases that set the tiers.
        accepted: Cases that the changelog accepts.
        judges: Names of the blocking judges.
        history: Trials of the base in the baseline.
    """
    name = suite.prompt.name
    cases = [
        GateCase(
            prompt=name,
            case=case.id,
            checks=judges,
            history=history.history(case.id, case.digest)
            if history is not None and states[case.id] != "new"
            else None,
            state=states[case.id],
            tier=proven_tier(case, history, tier=_tier_on_base(case, today)),
            accepted=acknowledged.accepted.get(case.id, ""),
            broke_before=acknowledged.broke_before.get(case.id, 0),
            recorded=suite.target is not None and suite.target.outputs is not None,
        )
        for case in suite.dataset
    ]
    cases += [
        GateCase(
            prompt=name,
            case=case.id,
            checks=judges,
            state="removed",
            tier=case.tier,
            accepted=acknowledged.removed.get(case.id, ""),
        )
        for case in before or ()
        if case.id not in suite.dataset
    ]
    return cases
