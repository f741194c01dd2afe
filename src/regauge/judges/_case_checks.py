"""The `checks` of golden cases: judges that a case brings of its own, as one judge of the suite."""

from __future__ import annotations

import asyncio
import json
import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, TypeGuard, cast, get_args

from regauge.datasets import Tier
from regauge.digests import digest_of
from regauge.errors import DatasetError, Fault, PromptError, UsageError
from regauge.judges._output import READING, JudgedOutput
from regauge.judges._registry import judge_from_spec, rule_versions, with_prompt_schema
from regauge.judges._rule import Rule
from regauge.judges._types import (
    JudgeStatus,
    ModelJudge,
    RunOnlyJudge,
    UnboundJudge,
    abstained,
    calibrated_judges,
    failed,
    is_number,
    is_semantic,
    number,
    passed,
    standing_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from regauge.criteria import Criterion
    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.judges._types import JudgeCalls, JudgeContext, Verdict
    from regauge.judges.model._rubric import RubricJudge
    from regauge.judges.rules._similarity import SemanticJudge
    from regauge.project import Project
    from regauge.providers import Completion


_NAME: Final = "checks"
_READING: Final = "reading"
_OPTIONS: Final = ("weight", "tier", "metric")
_TIERS: Final = get_args(Tier)


@dataclass(frozen=True, slots=True, kw_only=True)
class _CaseCheck:
    """One entry of a case's `checks`.

    Attributes:
        weight: How much it counts towards `pass_at`, above 0.
        tier: A critical check must pass whatever `pass_at` says; a tracked one decides nothing.
        metric: What reports call it; its judge's name by default.
        part: Which of the criteria that its judge states it is about; empty for all of it.
        uncalibrated: Its judges without a valid calibration, each with the reason. With any, the
            check is advisory.
    """

    judge: Rule | ModelJudge | SemanticJudge
    weight: float
    tier: Tier
    metric: str
    uncalibrated: Mapping[str, str]
    part: str = ""

    @property
    def advisory(self) -> str:
        """The reason why the check is advisory; empty where it is not."""
        return next(iter(self.uncalibrated.values()), "")

    @property
    def decides(self) -> bool:
        """Return whether the verdict of the case depends on it."""
        return self.tier != "tracked" and not self.advisory


_Checks: TypeAlias = "tuple[tuple[_CaseCheck, ...], float]"
"""The checks of one case, and the share that must pass."""


def judge_of_checks(cases: Iterable[GoldenCase], context: JudgeContext) -> Rule | CaseChecks | None:
    """One judge that applies to each case its own `checks`; None where no case has any.

    It is a rule where all checks are. It abstains for cases without checks. Its digest does not
    depend on the cases: what a case checks is part of the digest of the case.

    Raises:
        DatasetError: Checks that make no sense, all of them together, each with its place.
    """
    checked = [case for case in cases if _specs_of(case)]
    if not checked:
        return None
    made = _MadeJudges(context)
    of_case = _checks_of(checked, made)
    if any(not isinstance(judge, Rule) for judge in made.judges.values()):
        return CaseChecks(
            of_case=of_case, calibrated=_find_calling(of_case), functions=made.functions
        )

    def examine(answer: JudgedOutput) -> Verdict:
        bound = of_case.get(answer.case.id) if answer.case is not None else None
        if bound is None:
            return abstained("the case has no checks", code="no_checks")
        checks, pass_at = bound
        return _verdict(
            [(check, cast("Rule", check.judge).examine(answer)) for check in checks], pass_at
        )

    return Rule(
        kind=_NAME,
        params={},
        name=_NAME,
        digest=digest_of(_made_of(made.functions, versions_of_checks())),
        examine=examine,
        description="Applies the checks that the golden case brings.",
        own=all(judge.own for judge in made.judges.values() if isinstance(judge, Rule)),
    )


def _checks_of(cases: Iterable[GoldenCase], made: _MadeJudges) -> dict[str, _Checks]:
    """The checks of cases, each of which has some.

    Raises:
        DatasetError: Checks that make no sense.
    """
    faults: list[Fault] = []
    of_case: dict[str, _Checks] = {}
    for case in cases:
        try:
            checks = _find_sharing(
                [_check(spec, made, turn=turn) for turn, spec in _specs_of(case)], made
            )
        except (UsageError, PromptError) as error:
            problem = error.faults[0] if isinstance(error, PromptError) else error
            path, _, line = case.location.rpartition(":")
            faults.append(
                Fault(
                    path=Path(path),
                    line=int(line) if line.isdigit() else None,
                    message=f"checks of {case.id}: {problem.message}",
                    fix=problem.fix,
                )
            )
        else:
            of_case[case.id] = (checks, 1.0 if case.pass_at is None else case.pass_at)
    if faults:
        raise DatasetError(faults)
    return of_case


def _specs_of(case: GoldenCase) -> list[tuple[int, JSON]]:
    """The checks of a case: of the whole (0), and of each turn, counted from 1."""
    turns = case.script.turns if case.script is not None else ()
    own: list[tuple[int, JSON]] = [(0, spec) for spec in case.checks]
    return own + [
        (number, spec) for number, turn in enumerate(turns, start=1) for spec in turn.checks
    ]


def _find_sharing(checks: list[_CaseCheck], made: _MadeJudges) -> tuple[_CaseCheck, ...]:
    """The checks, those for one stated criterion each in one call.

    Calls about several criteria have a calibration of their own, `criteria`. Where it is missing,
    checks that are blocking on their own stay so.
    """
    if all(isinstance(check.judge, Rule) for check in checks):
        return tuple(checks)
    from regauge.judges.model._rubric import RubricJudge, merge_criteria

    alike: dict[str, list[int]] = {}
    for place, check in enumerate(checks):
        judge = check.judge
        if isinstance(judge, RubricJudge) and len(judge.criteria) == 1:
            alike.setdefault(replace(judge, name="", criteria=()).digest, []).append(place)
    for places in alike.values():
        judges = [cast("RubricJudge", checks[place].judge) for place in places]
        shared = merge_criteria(judges)
        if shared is None:
            continue
        uncalibrated = made.uncalibrated(shared)
        if uncalibrated and not checks[places[0]].uncalibrated:
            continue
        for place, judge in zip(places, judges, strict=True):
            checks[place] = replace(
                checks[place], judge=shared, part=judge.criteria[0], uncalibrated=uncalibrated
            )
    return tuple(checks)


def _find_calling(of_case: Mapping[str, _Checks]) -> tuple[ModelJudge, ...]:
    """The judges whose calibration checks that call a model rest on, each once."""
    judges = {id(check.judge): check.judge for checks, _ in of_case.values() for check in checks}
    named = (
        judge
        for asking in judges.values()
        if isinstance(asking, ModelJudge)
        for judge in calibrated_judges(asking)
    )
    return tuple({judge.digest: judge for judge in named}.values())


def _made_of(functions: Sequence[str], versions: Mapping[str, int]) -> dict[str, JSON]:
    rules = dict(versions)
    own: dict[str, JSON] = {
        "kind": _NAME,
        "version": 1,
        "reading": rules.pop(_READING),
        "rules": rules,
    }
    return {**own, "functions": [*functions]} if functions else own


def versions_of_checks() -> dict[str, int]:
    """The versions in the digest of checks: of reading outputs, and of rules beyond their first."""
    return {_READING: READING, **rule_versions()}


def is_case_checks(judge: object) -> TypeGuard[Rule | CaseChecks]:
    """Return whether a judge applies the checks of cases."""
    return isinstance(judge, CaseChecks) or (isinstance(judge, Rule) and judge.kind == _NAME)


def changed_rules(judge: Rule | CaseChecks, digest: str, versions: Mapping[str, int]) -> str:
    """The rules that regauge changed since checks had a digest; empty if more than that differs.

    Args:
        judge: The checks of today.
        digest: That of a baseline.
        versions: What `versions_of_checks` gave then; empty if the baseline does not have it.
    """
    if _READING not in versions or (isinstance(judge, Rule) and not judge.own):
        return ""
    document = _made_of((), versions) if isinstance(judge, Rule) else judge.made_of(versions)
    if digest_of(document) != digest:
        return ""
    now = versions_of_checks()
    return ", ".join(
        f"{name} (version {versions.get(name, 1)}, now {now.get(name, 1)})"
        for name in sorted({*now, *versions})
        if versions.get(name, 1) != now.get(name, 1)
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class CaseChecks(RunOnlyJudge):
    """The checks of cases, where some of them call a model or an embedding model.

    Attributes:
        of_case: By the case's id.
        calibrated: The judges whose calibration the checks rest on, each once.
        functions: The digests of functions and of rules of other packages.
    """

    of_case: Mapping[str, _Checks]
    calibrated: tuple[ModelJudge, ...]
    functions: tuple[str, ...] = ()
    name: str = _NAME
    criterion: Criterion = "correctness"

    @property
    def models(self) -> tuple[str, ...]:
        """The models of all checks, each once."""
        return tuple(dict.fromkeys(model for judge in self.calibrated for model in judge.models))

    @property
    def usual_calls(self) -> int:
        """The most calls of a judgement; vectors need none."""
        return max(
            len({id(check.judge) for check in checks if isinstance(check.judge, ModelJudge)})
            for checks, _ in self.of_case.values()
        )

    def semantic_judges(self, case: str) -> list[SemanticJudge]:
        """The judges of a case that compare vectors."""
        checks, _ = self.of_case.get(case, ((), 1.0))
        judges = {id(check.judge): check.judge for check in checks}
        return [judge for judge in judges.values() if is_semantic(judge)]

    def with_vectors(self, give: Callable[[SemanticJudge], SemanticJudge]) -> CaseChecks:
        """The same checks, with an embedder for each judge that compares vectors."""
        by_place: dict[int, SemanticJudge] = {}

        def embedded(check: _CaseCheck) -> _CaseCheck:
            judge = check.judge
            if not is_semantic(judge):
                return check
            return replace(check, judge=by_place.setdefault(id(judge), give(judge)))

        of_case = {
            case: (tuple(map(embedded, checks)), pass_at)
            for case, (checks, pass_at) in self.of_case.items()
        }
        return replace(self, of_case=of_case)

    def _made_of(self) -> dict[str, JSON]:
        return self.made_of(versions_of_checks())

    def made_of(self, versions: Mapping[str, int]) -> dict[str, JSON]:
        """The contents of the digest, with these versions of the rules."""
        judges = sorted({calibrated.digest for calibrated in self.calibrated})
        return {**_made_of(self.functions, versions), "judges": judges}

    def standing_in(self, project: Project) -> JudgeStatus:
        """Blocking: checks of uncalibrated judges are left out of each verdict instead."""
        del project
        return JudgeStatus(gates=True, reason="checks of calibrated judges and of rules decide")

    async def judge_with(
        self, completion: Completion, case: GoldenCase, calls: JudgeCalls
    ) -> Verdict:
        """Apply the checks of a case; those that call a model do so at the same time.

        Raises:
            JudgeError: A check has no verdict.
            UnmeasuredError: A model could not be called.
        """
        from regauge.judges.model._ask import gather_all

        bound = self.of_case.get(case.id)
        if bound is None:
            return abstained("the case has no checks", code="no_checks")
        checks, pass_at = bound
        answer = JudgedOutput.from_completion(completion, case)

        in_parts = {id(check.judge) for check in checks if check.part}

        async def verdicts_of(judge: Rule | ModelJudge | SemanticJudge) -> dict[str, Verdict]:
            if isinstance(judge, Rule):
                return {"": judge.examine(answer)}
            if is_semantic(judge):
                # Vectors are read and requested in an event loop of their own.
                return {"": await asyncio.to_thread(asyncio.run, judge.judge(completion, case))}
            if id(judge) in in_parts:
                several = cast("RubricJudge", judge)
                return await several.verdicts_with(completion, case, calls)
            return {"": await cast("ModelJudge", judge).judge_with(completion, case, calls)}

        judges = {id(check.judge): check.judge for check in checks}
        verdicts = await gather_all(map(verdicts_of, judges.values()))
        by_judge = dict(zip(judges, verdicts, strict=True))
        opinions = [(check, by_judge[id(check.judge)][check.part]) for check in checks]
        verdict = _verdict(opinions, pass_at)
        rows: list[JSON] = [
            {
                "check": check.metric,
                "outcome": opinion.outcome,
                "score": opinion.score,
                "reason": opinion.reason,
                "decides": check.decides,
                **({"advisory": check.advisory} if check.advisory else {}),
            }
            for check, opinion in opinions
        ]
        aside = [
            f"advisory: {check.metric}: {opinion.outcome}: {opinion.reason} ({check.advisory})"
            for check, opinion in opinions
            if check.advisory
        ]
        return replace(
            verdict,
            reason="; ".join([verdict.reason, *aside]),
            details={**verdict.details, "checks": rows},
        )


class _MadeJudges:
    """The judges of checks: equal specifications make one judge."""

    def __init__(self, context: JudgeContext) -> None:
        self._context = context
        self._standings: dict[str, JudgeStatus] = {}
        self.judges: dict[str, Rule | ModelJudge | SemanticJudge] = {}

    @property
    def functions(self) -> tuple[str, ...]:
        """The digests of functions and of rules of other packages: no case states their source."""
        rules = [judge for judge in self.judges.values() if isinstance(judge, Rule)]
        return tuple(sorted(rule.digest for rule in rules if not rule.own))

    def make(self, spec: JSON) -> Rule | ModelJudge | SemanticJudge:
        """The judge that a specification asks for.

        Raises:
            UsageError: It makes no sense.
        """
        key = json.dumps(spec, sort_keys=True)
        if key not in self.judges:
            self.judges[key] = self._make(spec)
        return self.judges[key]

    def uncalibrated(self, judge: Rule | ModelJudge | SemanticJudge) -> dict[str, str]:
        """The judges that keep a check from deciding, each with the reason."""
        if not isinstance(judge, ModelJudge):
            return {}
        standings = {
            calibrated.name: self._standing(calibrated) for calibrated in calibrated_judges(judge)
        }
        return {name: status.reason for name, status in standings.items() if not status.gates}

    def _make(self, spec: JSON) -> Rule | ModelJudge | SemanticJudge:
        judge = judge_from_spec(spec)
        if isinstance(judge, Rule):
            return with_prompt_schema(judge, self._context.prompt)
        if is_semantic(judge):
            return judge
        if isinstance(judge, UnboundJudge):
            judge = judge.bind(self._context)
        if not isinstance(judge, ModelJudge):
            fix = "give it to the eval: golden(..., judges=[...])"
            raise UsageError(f"{judge.name!r} is no rule, and calls no model", fix=fix)
        return judge

    def _standing(self, judge: ModelJudge) -> JudgeStatus:
        if judge.digest not in self._standings:
            self._standings[judge.digest] = standing_of(judge, self._context.project)
        return self._standings[judge.digest]


def _check(spec: JSON, made: _MadeJudges, *, turn: int) -> _CaseCheck:
    """The check that a case asks for.

    Args:
        spec: Its judge, with its options.
        made: The judges that were made before.
        turn: The turn that it is about; 0 for the whole.

    Raises:
        UsageError: It makes no sense.
    """
    options: dict[str, JSON] = {}
    if isinstance(spec, Mapping):
        options = {key: spec[key] for key in _OPTIONS if key in spec}
        spec = {key: value for key, value in spec.items() if key not in options}
    if turn:
        spec = {"in_turn": {"turn": turn, "judge": spec}}
    weight, tier, metric = (options.get(key) for key in _OPTIONS)
    if weight is None:
        weight = 1
    if not is_number(weight) or not 0 < weight < math.inf:
        raise UsageError(f"the weight {weight!r} is not a number above 0")
    if tier is not None and tier not in _TIERS:
        raise UsageError(f"no such tier: {tier!r}\n  fix: one of {', '.join(_TIERS)}")
    if metric is not None and not (isinstance(metric, str) and metric.strip()):
        raise UsageError(f"the metric {metric!r} is not a name")
    judge = made.make(spec)
    return _CaseCheck(
        judge=judge,
        weight=weight,
        tier=cast("Tier", tier or "required"),
        metric=metric or judge.name,
        uncalibrated=made.uncalibrated(judge),
    )


def _nothing_decides(checks: Sequence[_CaseCheck]) -> Verdict:
    """The abstention from a case without a check that decides."""
    advisory = [check for check in checks if check.advisory]
    if len(advisory) < len(checks):
        reason = "every check abstains, is tracked or advisory"
    else:
        reason = "every check is advisory"
    if not advisory:
        return abstained(reason, code="all_abstain")
    verdict = abstained(reason, code="all_advisory")
    named = dict.fromkeys(f"{check.metric} ({check.advisory})" for check in advisory)
    judges = dict.fromkeys(name for check in advisory for name in check.uncalibrated)
    fix = " && ".join(f"regauge judges calibrate {shlex.quote(name)}" for name in judges)
    return replace(
        verdict, details={**verdict.details, "why": f"{reason}: {', '.join(named)}\n  fix: {fix}"}
    )


def _verdict(opinions: Sequence[tuple[_CaseCheck, Verdict]], pass_at: float) -> Verdict:
    """The verdict on the checks of one case: the weighted share that passes, against `pass_at`."""
    deciding = [
        (check, verdict)
        for check, verdict in opinions
        if verdict.outcome != "abstain" and check.decides
    ]
    if not deciding:
        return _nothing_decides([check for check, _ in opinions])
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
