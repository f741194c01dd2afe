"""The issue that says where main fares worse than it did."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from regauge.github import GitHub, Mark
from regauge.reports import escape_markdown, shown_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from regauge.github import Posted

__all__ = ["issue_text", "open_baseline_issue"]

_MARK = Mark(name="baseline")
_LABEL = "regauge"


def open_baseline_issue(
    done: Sequence[Mapping[str, Any]], *, say: Callable[[str], None] | None = None
) -> Posted:
    """Open the issue, or renew the words of the one that is open.

    Args:
        done: What `regauge baseline update --json` says was done.
        say: Hears that it waits, and for what.

    Raises:
        UsageError: There is no token, or no repository.
        GitHubError: GitHub cannot be reached, or refuses.
    """
    with GitHub.from_environ(os.environ, say=say) as github:
        return github.open_issue(
            title="Prompts fare worse on the default branch",
            body=issue_text(done),
            mark=_MARK,
            labels=[_LABEL],
        )


def issue_text(done: Sequence[Mapping[str, Any]]) -> str:
    """As Markdown: each case that fares worse, in counts."""
    return "\n".join(_lines(done)) + "\n"


def _lines(done: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "Fresh trials of the default branch fail where earlier ones passed."
    for one in done:
        drift: Mapping[str, Any] = one["drift"] or {"worse": False, "changes": []}
        worse = [change for change in one["changes"] if change["direction"] == "worse"]
        drifted = [change for change in drift["changes"] if change["direction"] == "worse"]
        audit: Mapping[str, Any] = one["audit"] or {"result": "agree"}
        selected = audit["result"] == "better"
        lost = one["anchor_lost"]
        if not (worse or drift["worse"] or selected or lost):
            continue
        yield ""
        named = f"{one['prompt']} {one['version']} ({one['model']})"
        yield f"**{escape_markdown(named)}**"
        if worse:
            yield ""
            yield "It fares worse than the version before."
            yield from _table(worse)
        if selected:
            yield ""
            yield (
                f"{escape_markdown(audit['message'])}. Somebody may have recorded failing cases"
                " until they passed, or edited recordings. Record all of them again:"
                f" `regauge record --all {one['prompt']}`."
            )
        if lost:
            yield ""
            yield f"{escape_markdown(one['anchor']['message'])}."
        if drift["worse"]:
            before, now = drift["before"], drift["now"]
            yield ""
            yield (
                "The prompt is the same, so the model or a judge changed: fresh trials passed"
                f" {_of(now)}, {_of(before)} when the baseline was drawn. A new history begins."
            )
            yield from _table(drifted)
    yield ""
    yield (
        "Revert the change, propose another (`regauge refine`), or say in the prompt's changelog"
        " which cases may fare worse, with `accepted`. Where the model changed, `regauge gate"
        " --model` compares another one."
    )


def _table(changes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not changes:
        return
    yield ""
    yield "| case | check | passed before | passes now |"
    yield "|---|---|--:|--:|"
    for change in changes:
        yield (
            f"| {shown_name(change['case'])} | {escape_markdown(change['check'])}"
            f" | {_of(change['before'])} | {_of(change['now'])} |"
        )


def _of(count: Mapping[str, int]) -> str:
    return f"{count['passed']} of {count['trials']}"
