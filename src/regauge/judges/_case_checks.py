"""The `checks` of golden cases: judges that a case brings of its own, as one judge of the suite."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast, get_args

from regauge.datasets import Tier
from regauge.digests import digest_of
from regauge.errors import DatasetError, Fault, UsageError
from regauge.judges._answer import READING
from regauge.judges._evidence import number
from regauge.judges._registry import judge_from_spec, rule_versions
from regauge.judges._rule import Rule
from regauge.judges._types import abstained, failed, passed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.judges._answer import Answer
    from regauge.judges._types import Verdict

__all__ = ["judge_of_checks"]

_NAME: Final = "checks"
_OPTIONS: Final = ("weight", "tier", "metric")
_TIERS: Final = get_args(Tier)


@dataclass(frozen=True, slots=True, kw_only=True)
class _CaseCheck:
    """One entry of a case's `checks`.

    Attributes:
        weight: How much it counts towards `pass_at`, above 0.
        tier: A critical check must pass whatever `pass_at` says; a tracked one decides nothing.
        metric: What reports call it; its judge's name by default.
    """

    rule: Rule
    weight: float
    tier: Tier
    metric: str


def judge_of_checks(cases: Iterable[GoldenCase]) -> Rule | None:
    """One rule that applies to each case its own `checks`; None where no case has any.

    The rule abstains for cases without checks. Its digest does not depend on the cases: what a
    case checks is part of the digest of the case.

    Raises:
        DatasetError: Checks that make no sense, all of them together, each with its place.
    """
    made: dict[str, Rule] = {}
    faults: list[Fault] = []
    of_case: dict[str, tuple[tuple[_CaseCheck, ...], float]] = {}
    for case in cases:
        if not case.checks:
            continue
        try:
            checks = tuple(_check(spec, made) for spec in case.checks)
        except UsageError as error:
            message, _, fix = str(error).partition("\n  fix: ")
            path, _, line = case.at.rpartition(":")
            faults.append(
                Fault(
                    path=Path(path),
                    line=int(line) if line.isdigit() else None,
                    message=f"checks of {case.id}: {message}",
                    fix=fix,
                )
            )
        else:
            of_case[case.id] = (checks, 1.0 if case.pass_at is None else case.pass_at)
    if faults:
        raise DatasetError(faults)
    if not of_case:
        return None

    def examine(answer: Answer) -> Verdict:
        found = of_case.get(answer.case.id) if answer.case is not None else None
        if found is None:
            return abstained("the case has no checks", code="no_checks")
        return _verdict(*found, answer)

    return Rule(
        kind=_NAME,
        params={},
        name=_NAME,
        digest=digest_of(
            {"kind": _NAME, "version": 1, "reading": READING, "rules": rule_versions()}
        ),
        examine=examine,
        description="Applies the checks that the golden case brings.",
        own=all(rule.own for rule in made.values()),
    )


def _check(spec: JSON, made: dict[str, Rule]) -> _CaseCheck:
    """The check that a case asks for; equal rules are made once.

    Raises:
        UsageError: It makes no sense.
    """
    options: dict[str, JSON] = {}
    if isinstance(spec, Mapping):
        options = {key: spec[key] for key in _OPTIONS if key in spec}
        spec = {key: value for key, value in spec.items() if key not in options}
    weight, tier, metric = (options.get(key) for key in _OPTIONS)
    if weight is None:
        weight = 1
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < math.inf:
        raise UsageError(f"the weight {weight!r} is not a number above 0")
    if tier is not None and tier not in _TIERS:
        raise UsageError(f"no such tier: {tier!r}\n  fix: one of {', '.join(_TIERS)}")
    if metric is not None and not (isinstance(metric, str) and metric.strip()):
        raise UsageError(f"the metric {metric!r} is not a name")
    key = json.dumps(spec, sort_keys=True)
    if key not in made:
        judge = judge_from_spec(spec)
        if not isinstance(judge, Rule):
            raise UsageError(
                f"{judge.name!r} is not a rule\n"
                "  fix: give it to the eval: golden(..., judges=[...])"
            )
        made[key] = judge
    return _CaseCheck(
        rule=made[key],
        weight=weight,
        tier=cast("Tier", tier or "required"),
        metric=metric or made[key].name,
    )


def _verdict(checks: Sequence[_CaseCheck], pass_at: float, answer: Answer) -> Verdict:
    """The verdict on the checks of one case: the weighted share that passes, against `pass_at`."""
    opinions = [(check, check.rule.examine(answer)) for check in checks]
    deciding = [
        (check, verdict)
        for check, verdict in opinions
        if verdict.outcome != "abstain" and check.tier != "tracked"
    ]
    if not deciding:
        return abstained("every check abstains or is tracked", code="all_abstain")
    total = math.fsum(check.weight for check, _ in deciding)
    good = math.fsum(check.weight for check, verdict in deciding if verdict.outcome == "pass")
    bad = [(check, verdict) for check, verdict in deciding if verdict.outcome == "fail"]
    score = good / total
    critical = any(check.tier == "critical" for check, _ in bad)
    # A sum of weights such as 0.1 + 0.7 misses 0.8 by less than this.
    enough = score >= pass_at or math.isclose(score, pass_at, abs_tol=1e-12)
    share = f"{number(good)} of {number(total)} by weight, {number(pass_at * total)} wanted"
    reasons = "; ".join(f"{check.metric}: {verdict.reason}" for check, verdict in bad)
    if enough and not critical:
        return passed(f"{share}; {reasons}" if bad else "every check passes", score=score)
    codes = {verdict.code for _, verdict in bad}
    only = bad[0][1] if len(bad) == 1 else None
    return failed(
        f"{share}; {reasons}" if pass_at < 1 else reasons,
        code=codes.pop() if len(codes) == 1 else "not_all",
        score=score,
        expected=only.expected if only else None,
        actual=only.actual if only else None,
        details={"failed": [check.metric for check, _ in bad]},
    )
