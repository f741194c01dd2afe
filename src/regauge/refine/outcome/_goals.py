"""How far goals are reached, and how each criterion does: counted for a result, and in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from regauge.criteria import CRITERIA
from regauge.gate import NONE_DRAWN
from regauge.refine.evidence import passed_all
from regauge.refine.loop import goals_digest, standings
from regauge.refine.outcome._words import code, plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from regauge.refine.evidence import Tally
    from regauge.refine.loop import Setting, State

__all__ = ["criteria_of", "goal_lines", "goals", "goals_of"]


def goals_of(setting: Setting, state: State, *, revised: bool) -> dict[str, Any] | None:
    """Each goal, held to the prompt as it was and to what is proposed; None without goals."""
    if not setting.goals:
        return None
    before = standings(setting, state, revised=False)
    after = standings(setting, state, revised=True) if revised else [None for _ in before]
    return {
        "digest": goals_digest(setting),
        "reached": [
            {
                **was.goal.to_json(),
                "before": was.to_json(),
                "after": now.to_json() if now is not None else None,
            }
            for was, now in zip(before, after, strict=True)
        ],
    }


def criteria_of(setting: Setting, state: State, *, revised: bool) -> list[dict[str, Any]]:
    """How often the checks of a criterion all passed, before and with what is proposed."""
    found: list[dict[str, Any]] = []
    for criterion in CRITERIA:
        checks = [name for name, one in setting.checks.items() if one.criterion == criterion]
        if not checks:
            continue
        found.append(
            {
                "criterion": criterion,
                "checks": checks,
                "before": _over(setting, state.tally, setting.base.digest, checks),
                "after": _over(setting, state.fresh, state.text.digest, checks)
                if revised
                else None,
            }
        )
    return found


def goals(result: Mapping[str, Any]) -> Iterator[str]:
    """A table of goals, as Markdown; nothing where none was set."""
    said = result.get("goals")
    if said is None:
        return
    yield "## Goals"
    columns = ["before", "after"] if result["revision"] is not None else ["before"]
    heads = {"before": "the prompt as it was", "after": "with the revision"}
    rows = [["goal", *(heads[column] for column in columns)], ["-"] * (1 + len(columns))]
    rows += [
        [f"`{code(one['name'])}`", *(_standing(one[column]) for column in columns)]
        for one in said["reached"]
    ]
    yield "\n".join(f"| {' | '.join(row)} |" for row in rows)
    yield (
        "Met: the lower bound of the 95 % interval reaches the goal. Missed: the upper bound does"
        f" not. Unsettled: more trials would tell. What was asked is `{said['digest'][:12]}`."
    )


def goal_lines(result: Mapping[str, Any]) -> list[str]:
    """A line for each goal: how far what is proposed reaches it."""
    said = result.get("goals")
    reached: Sequence[Mapping[str, Any]] = said["reached"] if said is not None else ()
    return [f"goal {one['name']}: {_standing(one['after'] or one['before'])}" for one in reached]


def _over(setting: Setting, tally: Tally, text: str, checks: list[str]) -> dict[str, int]:
    counts = [
        passed_all(checks, tally.since(text, case, 0))
        for case in (*setting.train, *setting.holdout)
    ]
    total = sum(counts, NONE_DRAWN)
    drawn = sum(count.trials > 0 for count in counts)
    return {"passed": total.passed, "trials": total.trials, "cases": drawn}


def _standing(one: Mapping[str, Any]) -> str:
    counts = f"passed {one['passed']} of {one['trials']}"
    low, high = (f"{100 * one[bound]:.1f}" for bound in ("low", "high"))
    undrawn = f", {one['undrawn']} cases undrawn" if one["undrawn"] else ""
    return plain(f"{one['standing']}: {counts}, {low} to {high} %{undrawn}")
