"""What people and programs read of a baseline."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from regauge.errors import PromptError, RegaugeError, UsageError
from regauge.gate.baselines import (
    accepted_since,
    baseline_path,
    compare_histories,
    stored_anchor,
)
from regauge.prompts import Repository, find_prompt, load_prompt, read_prompt_text
from regauge.stats import flaky_probability
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from regauge.gate.baselines import AnchorComparison, Baseline, CaseTrials, StoredHistory
    from regauge.project import Project
    from regauge.prompts import Prompt

__all__ = [
    "TextLine",
    "history_json",
    "history_lines",
    "is_flaky",
    "no_baseline",
    "uncommitted_notes",
]

_FLAKY_FROM = 0.95


@dataclass(frozen=True, slots=True)
class TextLine:
    """One line of output."""

    text: str
    bold: bool = False


def no_baseline(project: Project, name: str) -> RegaugeError:
    """Why there is no baseline of a prompt that was named: no such prompt, or none was made."""
    try:
        find_prompt(name, root=project.root)
    except PromptError as error:
        return error
    path = project.relative(baseline_path(project, name))
    return UsageError(
        f"there is no baseline of {name!r}: {path}\n  fix: regauge baseline update {name}"
    )


def is_flaky(case: CaseTrials) -> bool:
    """Whether a case surely passes now and fails then."""
    whole = case.whole
    return flaky_probability(whole.passed, whole.trials) > _FLAKY_FROM


def history_lines(
    project: Project, baseline: Baseline, history: StoredHistory, *, every: bool
) -> Iterator[TextLine]:
    """A history for people: its key, its sums, and the cases that do not always pass."""
    key = history.key
    simulated = ", simulated" if key.model.startswith("sim:") else ""
    title = f"{baseline.prompt}@{history.version or '-'}  {key.prompt[:12]}  {key.model}{simulated}"
    yield TextLine(title + _standing(project, baseline, history), bold=True)
    cases = sorted(history.cases.items())
    drawn = [len(case.drawn) for _, case in cases]
    passed = sum(case.passed for _, case in cases)
    if cases:
        least, most = min(drawn), max(drawn)
        trials = plural(most, "trial") if least == most else f"{least} to {most} trials"
        yield TextLine(
            f"  {plural(len(cases), 'case')} of {key.dataset}, {trials} each from"
            f" {plural(len(history.sessions), 'session')};"
            f" {100 * passed / sum(drawn):.1f} % passed"
        )
    if (anchor := _anchor_of(project, baseline, history)) is not None:
        yield TextLine(f"  {anchor}{'; a confirmed loss' if anchor.confirmed else ''}")
    for session in history.sessions:
        served = f", answered by {', '.join(session.served)}" if session.served else ""
        yield TextLine(f"  session {session.id}: trials {session.first}-{session.last}{served}")
    for name in sorted(key.judges):
        yield TextLine(f"  judge {name}  {key.judges[name][:12]}")
    width = max((len(case_id) for case_id, _ in cases), default=0)
    shown = [(case_id, case) for case_id, case in cases if every or case.whole.failed]
    for case_id, case in shown:
        failed = ", ".join(
            f"{name} failed {count.failed}"
            for name, count in sorted(case.checks.items())
            if count.failed
        )
        flaky = "  flaky" if is_flaky(case) else ""
        yield TextLine(f"  {case_id:{width}}  {case.whole}{flaky}  {failed}".rstrip())
    if len(shown) < len(cases):
        yield TextLine(f"  {plural(len(cases) - len(shown), 'case')} passed every time")


def history_json(project: Project, baseline: Baseline, history: StoredHistory) -> dict[str, Any]:
    """A history for programs."""
    anchor = _anchor_of(project, baseline, history)
    return {
        "prompt": baseline.prompt,
        "version": history.version,
        "prompt_digest": history.key.prompt,
        "model": history.key.model,
        "parameters": dict(history.key.parameters),
        "dataset": history.key.dataset,
        "judges": dict(history.key.judges),
        "anchor": {
            "version": anchor.version,
            "cases": anchor.cases,
            "difference": asdict(anchor.difference),
            "confirmed": anchor.confirmed,
        }
        if anchor is not None
        else None,
        "sessions": [
            {
                "id": session.id,
                "first": session.first,
                "last": session.last,
                "served": list(session.served),
            }
            for session in history.sessions
        ],
        "cases": [
            {
                "case": case_id,
                "passed": case.passed,
                "trials": len(case.drawn),
                "flaky": is_flaky(case),
                "distinct_answers": len(case.answers),
                "sessions": len(history.sessions_of(case)),
                "judges": {
                    name: {"passed": count.passed, "trials": count.trials}
                    for name, count in sorted(case.checks.items())
                },
            }
            for case_id, case in sorted(history.cases.items())
        ],
    }


def uncommitted_notes(project: Project, prompts: Iterable[Prompt]) -> Iterator[str]:
    """Which prompts nobody but this machine has: no gate will look for what is known of them."""
    repository = Repository.find(project.root)
    if repository is None or not repository.has_commits():
        return
    # An eval may ask for a released version, which is not what the file says.
    by_path = {one.path: one for one in prompts if read_prompt_text(one.path) == one.source}
    texts = repository.read_all(("HEAD", repository.inside(path)) for path in by_path)
    for prompt, data in zip(by_path.values(), texts, strict=True):
        if data is None or data.decode("utf-8", "replace") != prompt.source:
            yield f"note: {project.relative(prompt.path)} is not as committed; commit it first"


def _anchor_of(
    project: Project, baseline: Baseline, history: StoredHistory
) -> AnchorComparison | None:
    """A history next to the old version that the baseline keeps; None without such a version."""
    anchors = (
        stored_anchor([baseline], one.history.version, history.key) for one in baseline.anchors
    )
    anchor = next((one for one in anchors if one is not None), None)
    if anchor is None or anchor.history.version == history.version:
        return None
    try:
        prompt = load_prompt(baseline.prompt, root=project.root)
    except RegaugeError:
        return compare_histories(anchor, history)
    accepted = accepted_since(prompt, anchor.history.version)
    return compare_histories(anchor, history, accepted=accepted)


def _standing(project: Project, baseline: Baseline, history: StoredHistory) -> str:
    """Whether the history is of the prompt as it is."""
    try:
        prompt = load_prompt(baseline.prompt, root=project.root)
    except RegaugeError:
        return "  (the prompt is gone)"
    if prompt.digest == history.key.prompt:
        return ""
    return f"  (not of the prompt as it is, {prompt.version or 'unversioned'} {prompt.digest[:12]})"
