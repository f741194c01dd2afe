"""One accepted edit in a result: what it changed, and the trials before and after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from regauge.refine.edits import changed_lines
from regauge.refine.evidence import better_p, gain_of
from regauge.refine.loop import fresh_steadiness

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.gate import Count
    from regauge.refine.edits import PromptText
    from regauge.refine.evidence import Cluster, Tally
    from regauge.refine.loop import Accepted, Setting, State

__all__ = ["change_of", "counted", "failing"]


def change_of(setting: Setting, state: State, one: Accepted, before: PromptText) -> dict[str, Any]:
    """One accepted edit of the text before, with the evidence on trials that chose nothing."""
    check, base, new = one.cluster.check, setting.base.digest, state.text.digest
    evidence: dict[str, Any] = {}
    for split, cases in (("train", setting.train), ("holdout", setting.holdout)):
        evidence[split] = {
            "before": _of_cases(state.tally, base, cases, check),
            "after": _of_cases(state.fresh, new, cases, check),
        }
    cases = (*setting.train, *setting.holdout)
    added, removed = changed_lines(before, one.text)
    return {
        **failing(one.cluster),
        "strategy": one.edit.strategy,
        "proposer": one.edit.proposer,
        "rationale": one.edit.rationale,
        "added": added,
        "removed": removed,
        "calls": sum(state.tally.trials(one.text.digest, case) for case in cases),
        "chosen_by": {
            "before": counted(one.before),
            "after": counted(one.after),
            "p": one.p,
            "effect": one.effect,
        },
        "fresh": evidence,
        "redrawn": _redrawn(setting, state, check),
        "steadier": _steadier(setting, state, one),
        "fresh_p": better_p(state.fresh, new, base, cases, check),
    }


def _steadier(setting: Setting, state: State, one: Accepted) -> dict[str, Any] | None:
    """How much less verdicts vary, of an edit that is there to make them steady."""
    if not one.cluster.unsteady:
        return None
    found = fresh_steadiness(setting, state, one)
    return None if found is None else found.numbers()


def _of_cases(tally: Tally, text: str, cases: Sequence[str], check: str) -> dict[str, int]:
    drawn = sum(tally.check(text, case, check).trials > 0 for case in cases)
    return {**counted(tally.over(text, cases, check)), "cases": drawn}


def _redrawn(setting: Setting, state: State, check: str) -> dict[str, Any] | None:
    """Both texts on the same cases, drawn anew: what the p-value is about."""
    cases = (*setting.train, *setting.holdout)
    gain = gain_of(state.fresh, state.text.digest, setting.base.digest, cases, check)
    if gain is None:
        return None
    return {
        "before": {**counted(gain.before), "cases": gain.cases},
        "after": {**counted(gain.after), "cases": gain.cases},
        "gain": round(gain.mean, 4),
        "interval": [round(gain.low, 4), round(gain.high, 4)],
    }


def counted(count: Count) -> dict[str, int]:
    """A count, as documents have it."""
    return {"passed": count.passed, "trials": count.trials}


def failing(cluster: Cluster) -> dict[str, Any]:
    """What fails, and in which cases."""
    return {
        "check": cluster.check,
        "code": cluster.code,
        "failures": cluster.failures,
        "trials": cluster.trials,
        "cases": list(cluster.failing),
    }
