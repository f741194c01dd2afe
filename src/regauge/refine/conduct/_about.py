"""What the first line of an audit trail says, and what of it must be so again to go on."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from regauge.digests import digest_of
from regauge.refine.loop import goals_digest
from regauge.refine.trail import text_to_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from regauge.digests import JSON
    from regauge.judges import Judge
    from regauge.refine.attempts import Memory
    from regauge.refine.loop import Setting
    from regauge.refine.workbench import RunOptions, Subject

__all__ = ["about", "changes", "warnings_of"]

_OF_EARLIER_RUNS = frozenset({"holdout_looks", "prior"})


def about(
    subject: Subject, setting: Setting, options: RunOptions, memory: Memory
) -> dict[str, JSON]:
    """What the first line of an audit trail says: everything that decides how a run goes."""
    goals: dict[str, JSON] = {
        "digest": goals_digest(setting),
        "goals": [goal.to_json() for goal in setting.goals],
    }
    suites = {id(member.suite): member.suite for member in subject.members.values()}
    cases: list[JSON] = [[name, m.case.digest] for name, m in subject.members.items()]
    judges: dict[str, JSON] = {name: judge.digest for name, judge in subject.judges().items()}
    refiner = options.model or str(next(iter(suites.values())).model)
    return {
        "prompt": subject.prompt.name,
        "version": str(subject.prompt.version or ""),
        "prompt_digest": subject.prompt.digest,
        "base": text_to_json(subject.text),
        "models": sorted({str(suite.model) for suite in suites.values()}),
        "judges": judges,
        "cases": digest_of(cases),
        "train": len(setting.train),
        "holdout": len(setting.holdout),
        "holdout_looks": sorted(setting.looked_before),
        "prior": dict(setting.prior),
        "calls_max": setting.policy.limits.calls,
        **({"judging": dict(setting.judging)} if setting.judging else {}),
        "criteria": {
            "test": asdict(setting.policy.test),
            "guard": asdict(setting.policy.guard),
            "checks": {name: check.criterion for name, check in setting.checks.items()},
        },
        **({"goals": goals} if setting.goals else {}),
        "options": options.to_json(),
        "warnings": list(warnings_of(subject.judges(), refiner, critics=bool(setting.critics))),
        "replaceable": [
            [mark.section, mark.message, mark.words] for mark in subject.prompt.replaceable
        ],
        "people": _people(subject, setting),
        "released": digest_of(list(subject.released)),
        "examples": digest_of([[e.id, e.input, e.output] for e in subject.examples]),
        "memory": [entry.to_json() for entry in memory.tried],
    }


def _people(subject: Subject, setting: Setting) -> JSON:
    """What people said, in words; labels, of which there may be many, by their digest alone."""
    if not setting.heard:
        return None
    labels = [one.to_json() for one in subject.heard.said if one.kind == "label"]
    said = [one.to_json() for one in subject.heard.said if one.kind != "label"]
    return {"said": said, "labels": digest_of(labels), "left_out": list(subject.heard.left_out)}


def warnings_of(judges: Mapping[str, Judge], refiner: str, *, critics: bool) -> tuple[str, ...]:
    """What a reader of the evidence should know before reading it.

    Args:
        judges: Those that decide.
        refiner: The model that may propose, as `provider:model`.
        critics: Whether any proposer asks it.
    """
    same = [name for name, judge in judges.items() if refiner in getattr(judge, "models", ())]
    if not critics or not same:
        return ()
    return (f"{refiner} proposes and judges ({', '.join(same)}): a model may favour its own words",)


def changes(began: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What is no longer what it was when a run began; a run may go on with another budget."""

    def told(about: Mapping[str, Any], key: str) -> Any:
        return {**about[key], "usd": None} if key == "options" else about.get(key)

    # The trail itself says what was known of earlier runs.
    found = [k for k in now if k not in _OF_EARLIER_RUNS and told(began, k) != told(now, k)]
    if not {"judges", "cases"} & {*found}:
        return found
    # Checks and goals follow from judges and cases: what was not touched is not named.
    kept = all(began["criteria"].get(key) == now["criteria"][key] for key in ("test", "guard"))
    return [k for k in found if k != "goals" and not (k == "criteria" and kept)]
