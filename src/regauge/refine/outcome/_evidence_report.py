"""The evidence for a proposal in words: what was counted, over which cases, and how sure it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from regauge.refine.outcome._goals import goal_lines
from regauge.refine.outcome._words import code, plain
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["evidence", "evidence_lines"]


def evidence(result: Mapping[str, Any]) -> Iterator[str]:
    """A table, and what makes it evidence, as Markdown; nothing without a proposal."""
    if not result["changes"] or result["revision"] is None:
        return
    yield "## Evidence"
    rows = ["| check | cases | before | with the revision |", "| - | - | - | - |"]
    for change in result["changes"]:
        rows += [
            f"| `{code(change['check'])}` | {name} | {_counts(said['before'])}"
            f" | {_counts(said['after'])} |"
            for name, said in _compared(change)
        ]
    suite = result["suite"]
    criteria = [one for one in result.get("criteria", []) if one["after"] is not None]
    if len(criteria) > 1:
        rows += [
            f"| {one['criterion']} ({plural(len(one['checks']), 'check')}) | all"
            f" | {_counts(one['before'])} | {_counts(one['after'])} |"
            for one in criteria
        ]
    if suite is not None:
        rows.append(
            f"| every check | all | {_counts(suite['before'])} | {_counts(suite['after'])} |"
        )
    yield "\n".join(rows)
    yield (
        "No trial with the revision chose it. Before, on train and held-out cases, are the trials"
        " that found the failures."
    )
    lines = [_proof(change) for change in result["changes"]]
    lines += [_steadier(change) for change in result["changes"] if change.get("steadier")]
    if suite is not None:
        lines.append(f"- The gate over all cases: {plain(suite['decision'])}.")
    yield "\n".join(lines)


def evidence_lines(result: Mapping[str, Any]) -> list[str]:
    """The evidence for a proposal, a line for each edit and one for the suite; none without one."""
    if result["revision"] is None:
        return []
    lines = [
        f"{change['check']}: "
        + "; ".join(
            f"{name}: failed {_failed(said['before'])} trials before,"
            f" {_failed(said['after'])} after"
            for name, said in _compared(change)
        )
        for change in result["changes"]
    ]
    suite = result["suite"]
    if suite is not None:
        lines.append(
            f"every check, all cases: failed {_failed(suite['before'])} trials before,"
            f" {_failed(suite['after'])} after; the gate: {suite['decision']}"
        )
    return [*lines, *goal_lines(result)]


def _compared(change: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What was counted for an edit, by the cases it was counted on."""
    if change["redrawn"] is not None:
        yield "drawn anew under both", change["redrawn"]
    for split, name in (("train", "train"), ("holdout", "held out")):
        said = change["fresh"][split]
        if said["before"]["trials"] or said["after"]["trials"]:
            yield name, said


def _proof(change: Mapping[str, Any]) -> str:
    redrawn = change["redrawn"]
    gained = ""
    if redrawn is not None:
        low, high = (_points(bound) for bound in redrawn["interval"])
        gained = (
            f" of those drawn anew under both, a case passes {_points(redrawn['gain'])} points more"
            f" often (95 % interval {low} to {high}),"
        )
    return (
        f"- `{code(change['check'])}`:{gained} p = {change['fresh_p']:.2g} on trials that chose"
        f" nothing; p = {change['chosen_by']['p']:.2g} on those that chose the edit, of which"
        f" {change['calls']} were drawn with it."
    )


def _steadier(change: Mapping[str, Any]) -> str:
    found = change["steadier"]
    return (
        f"- `{code(change['check'])}` is steadier: the standard deviation of a case's verdict was"
        f" {found['sigma_before']:.2f} and is {found['sigma_after']:.2f}, on"
        f" {plural(found['cases'], 'case')} drawn anew under both; the variance fell by"
        f" {found['fall']:.2f} (95 % interval {found['low']:.2f} to {found['high']:.2f}),"
        f" p = {found['steadier_p']:.2g}."
    )


def _points(share: float) -> str:
    return f"{100 * share:.0f}"


def _counts(count: Mapping[str, int]) -> str:
    """How often something failed, and what that is counted in."""
    return f"failed {_failed(count)} trials of {plural(count['cases'], 'case')}"


def _failed(count: Mapping[str, int]) -> str:
    return f"{count['trials'] - count['passed']} of {count['trials']}"
