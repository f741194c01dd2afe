"""The ways in which edits are thought of, by who proposes them: what `--strategy` may name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.errors import UsageError
from regauge.refine.loop import REWRITE
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["STRATEGIES", "check_strategies"]

STRATEGIES: Mapping[str, Sequence[str]] = {
    "rules": (
        "restore",
        "set-number",
        "set-unit",
        "set-value",
        "strengthen",
        "add-rule",
        "take-out",
        "replace-hindering",
        "move",
        "move-last",
    ),
    "model": (
        "model-add",
        "model-replace",
        "model-delete",
        "model-replace-section",
        "model-edit",
        REWRITE,
    ),
    "examples": ("add-example", "change-example"),
    "gepa": (REWRITE,),
}
"""By proposer of regauge; what proposers of other packages call their edits, only they know."""


def check_strategies(asked: Sequence[str], proposers: Sequence[str]) -> None:
    """See that somebody proposes edits of the kinds that are asked for.

    Raises:
        UsageError: Nobody who is asked does.
    """
    if not all(name in STRATEGIES for name in proposers):
        return
    known = tuple(dict.fromkeys(one for name in proposers for one in STRATEGIES[name]))
    for wanted in asked:
        if wanted in known:
            continue
        others = [name for name, kinds in STRATEGIES.items() if wanted in kinds]
        if others:
            fix = f"--proposers {','.join((*proposers, others[0]))}"
        else:
            near = did_you_mean(wanted, known)
            fix = f"{near} There are {', '.join(known)}".strip()
        raise UsageError(
            f"--strategy: {' and '.join(proposers)} propose no edit of the kind {wanted!r}\n"
            f"  fix: {fix}"
        )
