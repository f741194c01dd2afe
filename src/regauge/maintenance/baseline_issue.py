"""The issue about a default branch that passes less often than before."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from regauge.github import GitHub, GitHubAccess, Mark
from regauge.markdown import escape_markdown
from regauge.reports import shown_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from regauge.github import Posted

_MARK = Mark(name="baseline")
_LABEL = "regauge"


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
            labels=[_LABEL],
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
