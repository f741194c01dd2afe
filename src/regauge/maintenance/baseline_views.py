"""Baselines as text, JSON and an issue on GitHub."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import asdict
from shlex import quote
from typing import TYPE_CHECKING, Any

from regauge.errors import PromptError, RegaugeError, UsageError
from regauge.gate import accepted_since, compare_baselines, is_flaky, stored_anchor
from regauge.github import GitHub, GitHubAccess, Mark
from regauge.markdown import escape_markdown
from regauge.project import TARGET_KINDS
from regauge.prompts import find_prompt, load_prompt
from regauge.reports import shown_name
from regauge.targets import WorkingFiles, load_target, settings_of_target
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from regauge.gate import AnchorComparison
    from regauge.gate.baselines import Baseline, StoredBaseline
    from regauge.github import Posted
    from regauge.project import Project
_MARK = Mark(name="baseline")


def no_baseline(project: Project, name: str) -> RegaugeError:
    """The error for an unknown prompt, or one without a baseline."""
    try:
        find_prompt(name, root=project.root)
    except PromptError as error:
        return error
    path = project.relative(project.baseline_path(name))
    fix = f"regauge baseline update {quote(name)}"
    return UsageError(f"there is no baseline of {name!r}: {path}", fix=fix)


def baseline_lines(
    project: Project, baseline: Baseline, stored_baseline: StoredBaseline, *, all_cases: bool
) -> Iterator[str]:
    """Lines on a baseline: its key, its totals, and cases that do not always pass.

    Args:
        all_cases: Also list cases that always pass.
    """
    key = stored_baseline.key
    simulated = ", simulated" if key.model.startswith("sim:") else ""
    version = stored_baseline.version or "-"
    title = f"{baseline.prompt}@{version}  {key.prompt[:12]}  {key.model}{simulated}"
    yield title + _describe_mismatch(project, baseline, stored_baseline)
    cases = sorted(stored_baseline.cases.items())
    if cases:
        passed = sum(case.passed for _, case in cases) / sum(len(case.numbers) for _, case in cases)
        yield (
            f"  {plural(len(cases), 'case')} of {key.dataset}, {trials_each(stored_baseline)} from"
            f" {plural(len(stored_baseline.sessions), 'session')}; {100 * passed:.1f} % passed"
        )
    if (anchor := _anchor_of(project, baseline, stored_baseline)) is not None:
        yield f"  {anchor}{'; a confirmed loss' if anchor.is_confirmed else ''}"
    for session in stored_baseline.sessions:
        models = f", served by {', '.join(session.models)}" if session.models else ""
        yield f"  session {session.id}: trials {session.first}-{session.last}{models}"
    for name in sorted(key.judges):
        yield f"  judge {name}  {key.judges[name][:12]}"
    width = max((len(case_id) for case_id, _ in cases), default=0)
    listed_cases = [(case_id, case) for case_id, case in cases if all_cases or case.total.failed]
    for case_id, case in listed_cases:
        failed = ", ".join(
            f"{name} failed {count.failed}"
            for name, count in sorted(case.checks.items())
            if count.failed
        )
        flaky = "  flaky" if is_flaky(case.total.passed, case.total.trials) else ""
        yield f"  {case_id:{width}}  {case.total}{flaky}  {failed}".rstrip()
    if len(listed_cases) < len(cases):
        yield f"  {plural(len(cases) - len(listed_cases), 'case')} passed every time"


def trials_each(baseline: StoredBaseline) -> str:
    """The trials per case of a baseline with cases."""
    counts = [len(case.numbers) for case in baseline.cases.values()]
    smallest, largest = min(counts), max(counts)
    if smallest == largest:
        return f"{plural(largest, 'trial')} each"
    return f"{smallest} to {largest} trials each"


def baseline_json(
    project: Project, baseline: Baseline, stored_baseline: StoredBaseline
) -> dict[str, Any]:
    """A baseline as a JSON document."""
    anchor = _anchor_of(project, baseline, stored_baseline)
    return {
        "prompt": baseline.prompt,
        "version": stored_baseline.version,
        "prompt_digest": stored_baseline.key.prompt,
        "model": stored_baseline.key.model,
        "parameters": dict(stored_baseline.key.parameters),
        "dataset": stored_baseline.key.dataset,
        "judges": dict(stored_baseline.key.judges),
        "anchor": {
            "version": anchor.version,
            "cases": anchor.cases,
            "difference": asdict(anchor.difference),
            "confirmed": anchor.is_confirmed,
        }
        if anchor is not None
        else None,
        "sessions": [asdict(session) for session in stored_baseline.sessions],
        "cases": [
            {
                "case": case_id,
                "passed": case.passed,
                "trials": len(case.numbers),
                "flaky": is_flaky(case.total.passed, case.total.trials),
                "distinct_answers": len(case.output_digests),
                "sessions": len(stored_baseline.sessions_of(case)),
                "judges": {name: asdict(count) for name, count in sorted(case.checks.items())},
            }
            for case_id, case in sorted(stored_baseline.cases.items())
        ],
    }


def _anchor_of(
    project: Project, baseline: Baseline, stored_baseline: StoredBaseline
) -> AnchorComparison | None:
    """The comparison of a baseline with the baseline's anchor; None without one."""
    anchors = (
        stored_anchor([baseline], trials.version, stored_baseline.key)
        for trials in baseline.anchors
    )
    anchor = next((trials for trials in anchors if trials is not None), None)
    if anchor is None or anchor.version == stored_baseline.version:
        return None
    accepted: Collection[str] = ()
    with suppress(RegaugeError):
        prompt = load_prompt(baseline.prompt, root=project.root)
        accepted = accepted_since(prompt, anchor.version)
    return compare_baselines(anchor, stored_baseline, accepted=accepted)


def _describe_mismatch(
    project: Project, baseline: Baseline, stored_baseline: StoredBaseline
) -> str:
    """A note if the prompt or target differs from the baseline's; else empty."""
    kind, _, target = stored_baseline.key.model.partition(":")
    noun = "target" if kind in TARGET_KINDS else "prompt"
    try:
        if kind in TARGET_KINDS:
            name, settings = settings_of_target(target, project.settings)
            files = WorkingFiles(project.root)
            loaded = load_target(name, settings, root=project.root, files=files)
            digest = loaded.describe_subject(baseline.prompt, path=project.pyproject).digest
            version = loaded.version
        else:
            prompt = load_prompt(baseline.prompt, root=project.root)
            digest, version = prompt.digest, str(prompt.version or "")
    except RegaugeError:
        return f"  (the {noun} is gone)"
    if digest == stored_baseline.key.prompt:
        return ""
    return f"  (not of the {noun} as it is, {version or 'unversioned'} {digest[:12]})"


def open_baseline_issue(
    done: Sequence[Mapping[str, Any]], *, on_wait: Callable[[str], None] | None = None
) -> Posted:
    """Open the issue, or update the open one.

    Args:
        done: The list `done` of `regauge baseline update --json`.
        on_wait: Called with a line before each wait.

    Raises:
        UsageError: There is no token, or no repository.
        GitHubError: GitHub cannot be reached, or refuses.
    """
    with GitHub(GitHubAccess.from_environ(os.environ), on_wait=on_wait) as github:
        return github.open_issue(
            title="Prompts pass less often on the default branch",
            body=issue_text(done),
            mark=_MARK,
            labels=["regauge"],
        )


def issue_text(done: Sequence[Mapping[str, Any]]) -> str:
    """The issue as Markdown: each case that passes less often, with counts."""
    parts = ["Fresh trials of the default branch fail where earlier ones passed."]
    for result in done:
        if lines := [*_result_lines(result)]:
            eval_name = f"{result['prompt']} {result['version']} ({result['model']})"
            parts += ["", f"**{escape_markdown(eval_name)}**", *lines]
    parts.append(
        "\nRevert the change, propose another (`regauge refine`), or list cases that may pass less"
        " often under `accepted` in the prompt's changelog. If the model changed, compare another"
        " one: `regauge gate --model`."
    )
    return "\n".join(parts) + "\n"


def _result_lines(result: Mapping[str, Any]) -> Iterator[str]:
    """The losses in an eval's baseline."""
    drift: Mapping[str, Any] = result["drift"] or {"worse": False, "changes": []}
    worse = [change for change in result["changes"] if change["direction"] == "worse"]
    audit: Mapping[str, Any] = result["audit"] or {"result": "agree"}
    if worse:
        yield "\nIt passes less often than the version before."
        yield from _table(worse)
    if audit["result"] == "better":
        yield (
            f"\n{escape_markdown(audit['message'])}. A user may have recorded failing cases"
            " until they passed, or edited recordings. Record all of them again:"
            f" `regauge record --refresh {result['prompt']}`."
        )
    if result["anchor_lost"]:
        yield f"\n{escape_markdown(result['anchor']['message'])}."
    if drift["worse"]:
        yield (
            "\nThe prompt is the same, so the model or a judge changed: fresh trials passed"
            f" {_format_count(drift['now'])}, {_format_count(drift['before'])} when the baseline"
            " was made. A new baseline begins."
        )
        yield from _table([change for change in drift["changes"] if change["direction"] == "worse"])


def _table(changes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not changes:
        return
    yield "\n| case | check | passed before | passes now |"
    yield "|---|---|--:|--:|"
    for change in changes:
        yield (
            f"| {shown_name(change['case'])} | {escape_markdown(change['check'])}"
            f" | {_format_count(change['before'])} | {_format_count(change['now'])} |"
        )


def _format_count(count: Mapping[str, int]) -> str:
    return f"{count['passed']} of {count['trials']}"
