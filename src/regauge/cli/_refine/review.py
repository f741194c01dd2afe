"""Asks a person for every edit of a proposal; what is refused is remembered."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from regauge.cli._terminal.text import echo
from regauge.errors import UsageError
from regauge.refine import evidence_lines, reject

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.project import Project
    from regauge.refine import Run

__all__ = ["check_terminal", "reviewed"]


def check_terminal() -> None:
    """See that there is somebody to ask.

    Raises:
        UsageError: Nobody sits there.
    """
    if not sys.stdin.isatty():
        raise UsageError(
            "--interactive asks about every edit, and stdin is not a terminal\n"
            "  fix: run it in a terminal; or take --branch, whose commit waits for a review"
        )


def reviewed(project: Project, run: Run, result: Mapping[str, Any]) -> list[int]:
    """Ask for every edit that a run proposes.

    Returns:
        The numbers of those that are refused, from 0. No later run proposes them again.
    """
    changes = result["changes"]
    proofs = evidence_lines(result)
    refused: list[int] = []
    for number, change in enumerate(changes):
        echo(err=True)
        echo(
            f"edit {number + 1} of {len(changes)}: {change['strategy']} by {change['proposer']},"
            f" for {change['check']}",
            bold=True,
            err=True,
        )
        echo(f"  {change['rationale'] or 'no reason given'}", err=True)
        for sign, key, style in (("-", "removed", "red"), ("+", "added", "green")):
            for line in str(change[key]).splitlines():
                echo(f"  {sign} {line}", style=style, err=True)
        echo(f"  {proofs[number]}", err=True)
        if not click.confirm("take it?", err=True):
            refused.append(number)
    if refused:
        reject(project, run, refused)
    return refused
