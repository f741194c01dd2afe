"""Notes on a change: edited records, baselines and critical cases."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.evidence import NO_TRIALS
from regauge.gate._accepted import proven_tier
from regauge.gate._refusal import changed_rule_of
from regauge.gate._types import CRITICAL_TRIALS
from regauge.gate.baselines import BaselineError, parse_baseline
from regauge.wording import first_of, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from regauge.evidence import CaseState
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


_CASES_SHOWN = 5


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
    changed = {part: changed_rule_of(part, eval_) for part in differences}
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
