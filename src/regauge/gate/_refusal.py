"""Refusals of a change, accepted cases in changelogs, and notes on edited files."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from regauge.errors import Diagnostic
from regauge.evidence import NO_TRIALS
from regauge.gate._bar import is_same_function
from regauge.gate._code import code_of_evals, files_of_judges
from regauge.gate._types import CRITICAL_TRIALS, tier_held
from regauge.gate.baselines import BaselineError, parse_baseline
from regauge.judges import changed_rule
from regauge.prompts import Semver
from regauge.wording import first_of, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from regauge.datasets import Dataset, GoldenCase
    from regauge.evidence import CaseState, CaseTier
    from regauge.gate._bar import MovedBar
    from regauge.gate._commit import BaseCommit
    from regauge.gate.baselines import KeyDifference, StoredBaseline
    from regauge.prompts import Prompt
    from regauge.runner import Eval


# An error names a few examples; the count covers the rest.
_EXAMPLES_MAX: Final = 5
# Keys that identify a line of recordings, and keys of its content.
_KEYS: Final = ("digest", "key", "trial")
_RECORDED: Final = ("completion", "measurement", "float32")


def edited_records(base_commit: BaseCommit) -> Iterator[tuple[str, str]]:
    """Edited files of stored results, each with a note.

    Replaced recordings of the base are listed by case, as a replay reads them, and baselines with
    fewer passes, as later gates use them.
    """
    recordings = base_commit.repository.inside(base_commit.project.recordings_dir)
    baselines = base_commit.repository.inside(base_commit.project.fixtures_dir / "baselines")
    deleted_prompts = base_commit.deleted_prompts()
    for name in sorted(base_commit.changed - {*base_commit.renamed.values()}):
        if name.startswith(f"{recordings}/") and name.endswith(".jsonl"):
            replaced = _find_replaced(base_commit, name)
            if replaced:
                # A vector belongs to a text, which many cases may share.
                cases = sorted({case for case in replaced if case})
                names = first_of(cases, _EXAMPLES_MAX) if cases else plural(len(replaced), "vector")
                note = f"{name} replaces what was recorded for requests of the base: {names}"
                yield name, note
        elif (
            name.startswith(f"{baselines}/")
            and name.endswith(".json")
            and PurePosixPath(name).stem not in deleted_prompts
        ):
            yield from ((name, note) for note in _baseline_notes(base_commit, name))


def _baseline_notes(base_commit: BaseCommit, name: str) -> Iterator[str]:
    """Notes on losses of a baseline; `regauge baseline update` only adds trials."""
    path = base_commit.repository.top / name
    try:
        data = base_commit.repository.read(base_commit.commit, name)
        base = parse_baseline(data, place=Path(name)) if data is not None else None
        head = parse_baseline(path.read_bytes(), place=Path(name)) if path.is_file() else None
    except BaselineError:
        return  # reported where the baseline is used
    for before in base.baselines if base is not None else ():
        now = head.find(before.key) if head is not None else None
        record = f"{name}: the record of {before.version or 'the base'}"
        if now is None:
            yield f"{record} is gone; later gates compare without it"
        elif _has_fewer_passes(before, now):
            yield (
                f"{record} was edited: {_total_text(before)} trials passed on the base,"
                f" {_total_text(now)} now; later gates compare with it"
            )


def _has_fewer_passes(before: StoredBaseline, now: StoredBaseline) -> bool:
    """Return whether any case has fewer trials or fewer passes than before."""
    pairs = (
        (case.total, now.cases[case_id].total if case_id in now.cases else NO_TRIALS)
        for case_id, case in before.cases.items()
    )
    return any(new.passed < old.passed or new.failed < old.failed for old, new in pairs)


def _total_text(baseline: StoredBaseline) -> str:
    counts = [case.total for case in baseline.cases.values()]
    return f"{sum(count.passed for count in counts)} of {sum(count.trials for count in counts)}"


def _find_replaced(base_commit: BaseCommit, name: str) -> list[str]:
    """The case of each recorded line that differs from the base's with the same key."""
    path = base_commit.repository.top / name
    data = base_commit.repository.read(base_commit.commit, name)
    if data is None or not path.is_file():
        return []
    before = _read_recorded(data)
    return [
        str(line.get("case", ""))
        for key, line in _read_recorded(path.read_bytes()).items()
        if key in before and _content(before[key]) != _content(line)
    ]


def _read_recorded(data: bytes) -> dict[tuple[Any, ...], dict[str, Any]]:
    lines: dict[tuple[Any, ...], dict[str, Any]] = {}
    for raw in data.splitlines():
        try:
            line = json.loads(raw)
        except (ValueError, RecursionError):
            continue  # the loader of recordings reports it
        if isinstance(line, dict):
            fields = cast("dict[str, Any]", line)
            lines[tuple(str(fields.get(key)) for key in _KEYS)] = fields
    return lines


def _content(line: dict[str, Any]) -> list[Any]:
    contents = [line.get(name) for name in _RECORDED]
    if isinstance(contents[0], dict):
        # Latency and price are not part of the content.
        completion = cast("dict[str, Any]", contents[0])
        contents[0] = [completion.get(name) for name in ("text", "tool_calls", "refusal")]
    return contents


# Versions whose accepted breaks make a case edit-sensitive; more keep it so for longer.
_VERSIONS_LOOKED_AT = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedChange:
    """The changelog entries that are new since the base version.

    Attributes:
        accepted: Reason why a case may pass less often, by id.
        removed: Reason why a case was removed, by id.
        broke_before: Number of recent versions of the base that accept a case as broken, by id.
        errors: Errors in entries that name no such case.
    """

    accepted: Mapping[str, str] = field(default_factory=dict[str, str])
    removed: Mapping[str, str] = field(default_factory=dict[str, str])
    broke_before: Mapping[str, int] = field(default_factory=dict[str, int])
    errors: tuple[Diagnostic, ...] = ()


def find_accepted(
    head: Prompt, base: Prompt | None, *, cases: Iterable[str], removed_cases: Iterable[str]
) -> AcceptedChange:
    """Find the cases that the author newly accepts; earlier entries do not count again.

    Args:
        cases: Ids of the current golden cases.
        removed_cases: Ids of cases that only the base version has.
    """
    ids, missing = frozenset(cases), frozenset(removed_cases)
    before = _accepted_entries(base) if base is not None else frozenset[tuple[str, str, str]]()
    accepted: dict[str, str] = {}
    removed: dict[str, str] = {}
    errors: list[Diagnostic] = []
    for entry in head.changelog:
        for key, entries, reasons, among in (
            ("accepted", entry.accepted, accepted, ids),
            ("removed", entry.removed, removed, missing),
        ):
            for case_entry in entries:
                if (key, entry.version, case_entry.case) in before:
                    continue
                if case_entry.case in among:
                    reasons.setdefault(case_entry.case, case_entry.reason)
                    continue
                errors.append(_pointless_entry(head, key, case_entry.case, case_entry.line, ids))
    return AcceptedChange(
        accepted=accepted,
        removed=removed,
        broke_before=_broke_before(base) if base is not None else {},
        errors=tuple(errors),
    )


def _broke_before(base: Prompt) -> Counter[str]:
    """The number of recent versions with an accepted break, by case, the current one included."""
    entries = [*base.changelog]
    with suppress(ValueError):  # versions of targets are free texts, newest first
        entries = sorted(entries, key=lambda entry: Semver.parse(entry.version), reverse=True)
    return Counter(
        case
        for entry in entries[: _VERSIONS_LOOKED_AT - 1]
        for case in {accepted.case for accepted in entry.accepted}
    )


def case_state(
    case: GoldenCase, *, before: Dataset | None, request: str, base_request: str | None
) -> CaseState:
    """The state of a case relative to its base version.

    Args:
        before: Golden cases of the base version; None if they are today's.
        request: Digest of the candidate's request.
        base_request: Digest of the base's request; None if it cannot be built.
    """
    if base_request is None:
        return "new"
    if before is not None and case.id not in before:
        return "new"
    return "unchanged" if request == base_request else "changed"


def _accepted_entries(base: Prompt) -> frozenset[tuple[str, str, str]]:
    return frozenset(
        (key, entry.version, case_entry.case)
        for entry in base.changelog
        for key, entries in (("accepted", entry.accepted), ("removed", entry.removed))
        for case_entry in entries
    )


def _pointless_entry(
    head: Prompt, key: str, case: str, line: int, ids: frozenset[str]
) -> Diagnostic:
    if key == "accepted":
        message = f"`accepted` names {case!r}, which is not a golden case of {head.name}"
        return Diagnostic(
            path=head.path, line=line or None, message=message, fix="name a case by its id"
        )
    state = "which is still there" if case in ids else "which the base version does not have"
    message = f"`removed` names {case!r}, {state}"
    return Diagnostic(
        path=head.path, line=line or None, message=message, fix="take it out of the changelog"
    )


_CASES_SHOWN = 5

RefusedPart: TypeAlias = Literal["judge", "model", "bar", "trials"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The reason why a change is not compared.

    Attributes:
        part: Changed part.
        message: One sentence.
        details: Judges that differ or lowered parts of the bar, one per line.
        fix: Command or edit that makes the change comparable.
        prompt: Name of the prompt; empty if it concerns the whole change.
        prompt_changed: Whether a prompt changed as well; if none did, the refusal can be accepted.
    """

    part: RefusedPart
    message: str
    details: tuple[str, ...] = ()
    fix: str
    prompt: str = ""
    prompt_changed: bool = True

    def __str__(self) -> str:
        details = "".join(f"\n  {detail}" for detail in self.details)
        return f"{self.message}{details}\n  fix: {self.fix}"

    @property
    def note(self) -> str:
        """The note of a comparison that accepts changed judges."""
        return (
            f"{self.prompt} is judged differently than on the base ({'; '.join(self.details)}); its"
            " requests are unchanged, so nothing was compared. After the merge: regauge baseline"
            f" update {self.prompt}"
        )


def refusals_of(
    eval_: Eval,
    base: Eval,
    base_commit: BaseCommit,
    differences: tuple[KeyDifference, ...],
    *,
    across_models: bool,
    prompt_changed: bool,
) -> tuple[Refusal, ...]:
    """The reasons why base and candidate would not be measured alike; empty if they would.

    Args:
        base: The base's side.
        differences: Differences between the nearest baseline and the required one.
        across_models: Whether two models are compared on purpose.
        prompt_changed: Whether any request changed.
    """
    name = eval_.prompt.name
    refusals: list[Refusal] = []
    # The name of a target is no other model: its code is what changed.
    if base.model != eval_.model and not across_models and eval_.target is None:
        refusals.append(
            Refusal(
                part="model",
                prompt=name,
                message=f"{name}: the base uses {base.model} and this change uses {eval_.model}, so"
                " a difference would not show what the prompt did",
                fix="compare the models on purpose: regauge gate"
                f" {base_commit.ref} --model {eval_.model}",
                prompt_changed=prompt_changed,
            )
        )
    judges = tuple(
        part
        for part in differences
        if part.part == "judge"
        and not _changed_rule(part, eval_)
        and not _is_reformatted(part, eval_, base_commit)
    )
    if judges and _may_judge_differently(base_commit, eval_):
        refusals.append(
            Refusal(
                part="judge",
                prompt=name,
                message=f"{name}: this change is judged differently than the base, so nothing is"
                " compared",
                details=tuple(_describe_difference(part, eval_) for part in judges),
                fix=_calibration_fix(judges, eval_)
                + _judge_fix(eval_, base_commit, prompt_changed=prompt_changed),
                prompt_changed=prompt_changed,
            )
        )
    return tuple(refusals)


def refusal_of_bars(
    bars: Sequence[MovedBar], base_commit: BaseCommit, *, prompt_changed: bool
) -> Refusal:
    """The refusal of a change that lowers its own acceptance criteria."""
    behind = base_commit.tip != base_commit.commit
    way = (
        "merge this part on its own, or accept it" if prompt_changed else "accept it if it is meant"
    )
    return Refusal(
        part="bar",
        message=f"the bar of this change may be lower than that of {base_commit.ref}, so nothing is"
        " compared",
        details=tuple(map(str, bars)),
        fix=(
            f"git merge {base_commit.ref}, which is newer than this change; then " if behind else ""
        )
        + f"{way}: {_accept_hint(base_commit)}",
    )


def refusal_of_trials(base_commit: BaseCommit) -> Refusal | None:
    """The refusal of a commit with `.regauge/`: its author supplies the trials."""
    paths = base_commit.repository.tracked(base_commit.project.state_dir)
    committed = next((path for path in paths if not path.endswith("/.gitignore")), None)
    if committed is None:
        return None
    name = base_commit.project.state_dir.name
    return Refusal(
        part="trials",
        message=f"git tracks {committed!r}, so the change would supply the gate's trials",
        fix=f"git rm -r --cached {name}, add {name}/ to .gitignore, then commit",
    )


def _accept_hint(base_commit: BaseCommit) -> str:
    """The two ways to accept changed judges or a lowered bar."""
    return (
        f"regauge gate {base_commit.ref} --accept-judge-change 'WHY', or the label"
        " `accept-judge-change` on GitHub"
    )


def _describe_difference(part: KeyDifference, eval_: Eval) -> str:
    """Describe a judge that differs; one that lost its calibration is only advisory now."""
    judge = next((candidate for candidate in eval_.judges if candidate.name == part.name), None)
    if part.current_value is not None or judge is None:
        return str(part)
    return f"judge {part.name!r} was blocking and is advisory now: {eval_.status_of(judge).reason}"


def _changed_rule(part: KeyDifference, eval_: Eval) -> str:
    """The rule that regauge changed, if only that makes a judge differ; else empty."""
    if part.part != "judge" or not part.stored_value or not part.current_value:
        return ""
    judge = next((candidate for candidate in eval_.judges if candidate.name == part.name), None)
    return changed_rule(judge, part.stored_value, part.rules)


def _is_reformatted(part: KeyDifference, eval_: Eval, base_commit: BaseCommit) -> bool:
    """Return whether only comments, docstrings or the format of a function that judges changed."""
    judge = next((candidate for candidate in eval_.judges if candidate.name == part.name), None)
    return bool(part.stored_value and part.current_value) and is_same_function(base_commit, judge)


def _judge_fix(eval_: Eval, base_commit: BaseCommit, *, prompt_changed: bool) -> str:
    base = base_commit.ref.removeprefix("origin/")
    update = f"`{eval_.command('baseline', 'update')}` on {base}"
    if prompt_changed:
        # The next step of several prompts has the first part once.
        first = "merge the change of the judges on its own, then compare the prompt"
        return f"{first}; in between run {update}"
    return (
        f"if the judges are meant to change: {_accept_hint(base_commit)}, or"
        f' on_judge_change = "note" in [tool.regauge.gate]; after the merge {update}'
    )


def _calibration_fix(differences: Sequence[KeyDifference], eval_: Eval) -> str:
    """The fix for LLM judges that differ from their calibration."""
    names = {part.name for part in differences}
    commands = [
        f"regauge judges calibrate {shlex.quote(judge.name)}"
        for judge in eval_.judges
        if judge.name in names and not eval_.status_of(judge).blocking
    ]
    return f"{' && '.join(commands)}, so that it counts again; then " if commands else ""


def _may_judge_differently(base_commit: BaseCommit, eval_: Eval) -> bool:
    """Return whether a file of the judges changed; if not, the baseline is old.

    Code of evals, programs that judge, rubrics, labels, calibrations and settings are such files;
    other code, prompts, golden cases, recordings and baselines are not.
    """
    project, repository = base_commit.project, base_commit.repository
    fixtures = repository.inside(project.fixtures_dir)
    rubrics = repository.inside(project.prompts_dir / "judges")
    other = (f"{fixtures}/golden/", f"{fixtures}/recordings/", f"{fixtures}/baselines/")
    ends = (".toml", ".lock", ".txt", ".cfg", ".ini")
    locks = repository.inside(project.prompts_dir / "prompts.lock")
    code = code_of_evals(base_commit) | files_of_judges(base_commit, eval_)
    return any(
        name != locks
        and not name.startswith(other)
        and (
            name.endswith(ends)
            or name.startswith((f"{rubrics}/", f"{fixtures}/"))
            or name in code
            or (name.endswith(".py") and not (repository.top / name).exists())
        )
        for name in base_commit.changed
    )


def notes_of(
    eval_: Eval,
    prompt: Prompt | None,
    base_commit: BaseCommit,
    *,
    has_changed: bool,
    runs_base: bool,
    differences: tuple[KeyDifference, ...],
    edited: Sequence[str],
) -> list[str]:
    """Notes for readers of the comparison of one eval.

    Args:
        prompt: Base version of the prompt; None if it is new.
        has_changed: Whether the request of any case changed, so that it runs.
        runs_base: Whether the base is run as well because no baseline has its pass rates.
        differences: Differences between the nearest baseline and the required one.
        edited: Cases with other inputs or expectations than on the base.
    """
    name, notes = eval_.prompt.name, list[str]()
    update = eval_.command("baseline", "update")
    if prompt is None:
        return [f"{name} is new: {base_commit.ref} has no version of it to compare with"]
    # On the base, a link has the name of the file that it leads to.
    if prompt.name != name and not eval_.prompt.path.is_symlink():
        notes.append(f"{name} was called {prompt.name} in {base_commit.ref}")
    changed = {part: _changed_rule(part, eval_) for part in differences}
    if rules := sorted({rule for rule in changed.values() if rule}):
        notes.append(
            f"regauge changed these rules since the baseline of {name}: {', '.join(rules)}."
            f" Base and candidate are compared by the new ones; after the merge: {update}"
        )
    other_differences = [part for part, rule in changed.items() if not rule]
    if other_differences:
        parts = "; ".join(map(str, other_differences))
        notes.append(
            f"the baseline of {name} is not used, as it differs ({parts});"
            f" after the merge: {update}"
        )
    elif runs_base and not changed:
        notes.append(
            f"base has no baseline of this version of {name}, so base runs too, with the"
            f" judges of this change; after the merge: {update}"
        )
    if edited:
        subject = f"{len(edited)} cases have" if len(edited) > 1 else "1 case has"
        effect = (
            "base and candidate are compared on the new ones"
            if has_changed
            else "none of these runs, as the prompt is unchanged;"
            f" {base_commit.project.run_command} runs them"
        )
        notes.append(
            f"{subject} other inputs or expectations than on the base; {effect}:"
            f" {shorten_list(edited)}"
        )
    return notes


def proven_tier(case: GoldenCase, baseline: StoredBaseline | None, *, tier: CaseTier) -> CaseTier:
    """The tier that applies to a case: a critical one is required until the base has proven it."""
    trials = baseline.find_trials(case.id, case.digest) if baseline is not None else None
    return tier_held(tier, trials.total if trials is not None else NO_TRIALS, CRITICAL_TRIALS)


def critical_notes(
    eval_: Eval, baseline: StoredBaseline | None, states: Mapping[str, CaseState], *, name: str
) -> list[str]:
    """Notes on critical cases of the eval `name` that the base has not passed often enough."""
    unproven: list[str] = []
    for case in eval_.dataset:
        if (
            proven_tier(case, baseline, tier=case.tier) == case.tier
            or states[case.id] == "unchanged"
        ):
            continue
        trials = baseline.find_trials(case.id, case.digest) if baseline is not None else None
        passed = trials.total if trials is not None else "none"
        unproven.append(f"{case.id} {passed}")
    if not unproven:
        return []
    subject = f"{len(unproven)} critical cases are" if len(unproven) > 1 else "1 critical case is"
    note = (
        f"{name}: {subject} treated as required until base has passed"
        f" {CRITICAL_TRIALS} of {CRITICAL_TRIALS} trials; so far {shorten_list(unproven)}:"
        f" {eval_.command('baseline', 'update')} runs more, in sessions an hour apart"
    )
    return [note]


def shorten_list(names: Sequence[str], limit: int = _CASES_SHOWN) -> str:
    """The first names of a list."""
    return ", ".join(names[:limit]) + (", ..." if len(names) > limit else "")
