"""The `checks` of golden cases, as one judge of the eval."""

from __future__ import annotations

import asyncio
import json
import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias, TypeGuard, cast, get_args

from regauge.datasets import Tier
from regauge.digests import digest_of
from regauge.errors import DatasetError, Diagnostic, PromptError, UsageError
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
    format_number,
    is_number,
    is_semantic,
    judge_status,
    passed,
)
from regauge.judges.output import READING_VERSION, JudgedOutput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.judges._types import JudgeCalls, JudgeContext, Verdict
    from regauge.judges.model._rubric import RubricJudge
    from regauge.judges.rules._similarity import SemanticJudge
    from regauge.project import Criterion, Project
    from regauge.providers import Completion


CHECKS: Final = "checks"
_READING: Final = "reading"
_OPTIONS: Final = ("weight", "tier", "metric")
_TIERS: Final = get_args(Tier)


@dataclass(frozen=True, slots=True, kw_only=True)
class _CaseCheck:
    """One entry of a case's `checks`.

    Attributes:
        weight: Its share of `pass_at`, above 0.
        tier: A critical check must pass whatever `pass_at` is; a tracked one never blocks.
        metric: Its name in reports; by default the judge's name.
        part: The criterion of a judge with several; empty for the whole verdict.
        uncalibrated: The reason for each of its judges without a valid calibration. If there is
            any, the check is advisory.
    """

    judge: Rule | ModelJudge | SemanticJudge
    weight: float
    tier: Tier
    metric: str
    uncalibrated: Mapping[str, str]
    part: str = ""

    @property
    def advisory_reason(self) -> str:
        """The reason for an advisory check; empty for any other."""
        return next(iter(self.uncalibrated.values()), "")

    @property
    def decides(self) -> bool:
        """Return whether the verdict of the case depends on it."""
        return self.tier != "tracked" and not self.advisory_reason


_Checks: TypeAlias = "tuple[tuple[_CaseCheck, ...], float]"
"""The checks of one case, and the share that must pass."""


def build_checks_judge(
    cases: Iterable[GoldenCase], context: JudgeContext
) -> Rule | CaseChecks | None:
    """Build the judge that applies the `checks` of each case; None if no case has any.

    It is a rule if all checks are. It abstains for cases without checks. Its digest does not
    depend on the cases, whose own digests include their checks.

    Raises:
        DatasetError: Invalid checks, all of them, each with its place.
    """
    cases_with_checks = [case for case in cases if _check_specs(case)]
    if not cases_with_checks:
        return None
    judge_cache = _JudgeCache(context)
    checks_by_case = _bind_checks(cases_with_checks, judge_cache)
    if any(not isinstance(judge, Rule) for judge in judge_cache.judges.values()):
        checks = [check for checks, _ in checks_by_case.values() for check in checks]
        judges = {id(check.judge): check.judge for check in checks}
        calibrated = {
            calibrated.digest: calibrated
            for judge in judges.values()
            if isinstance(judge, ModelJudge)
            for calibrated in calibrated_judges(judge)
        }
        return CaseChecks(
            checks_by_case=checks_by_case,
            calibrated=tuple(calibrated.values()),
            functions=judge_cache.functions,
        )

    def examine(output: JudgedOutput) -> Verdict:
        bound = checks_by_case.get(output.case.id) if output.case is not None else None
        if bound is None:
            return abstained("the case has no checks", code="no_checks")
        checks, pass_at = bound
        return _verdict(
            [(check, cast("Rule", check.judge).examine(output)) for check in checks], pass_at
        )

    return Rule(
        kind=CHECKS,
        params={},
        name=CHECKS,
        digest=digest_of(_build_identity(judge_cache.functions, check_versions())),
        examine=examine,
        description="Applies the checks of the golden case.",
        is_builtin=all(
            judge.is_builtin for judge in judge_cache.judges.values() if isinstance(judge, Rule)
        ),
    )


def _bind_checks(cases: Iterable[GoldenCase], judge_cache: _JudgeCache) -> dict[str, _Checks]:
    """Build the checks of cases that have some, by case id.

    Raises:
        DatasetError: Invalid checks.
    """
    diagnostics: list[Diagnostic] = []
    checks_by_case: dict[str, _Checks] = {}
    for case in cases:
        checks: list[_CaseCheck] = []
        for turn, spec in _check_specs(case):
            try:
                checks.append(_check(spec, judge_cache, turn=turn))
            except (UsageError, PromptError) as error:
                problem = error.diagnostics[0] if isinstance(error, PromptError) else error
                message = f"checks of {case.id}: {problem.message}"
                diagnostics.append(Diagnostic.at_location(case.location, message, problem.fix))
        pass_at = 1.0 if case.pass_at is None else case.pass_at
        checks_by_case[case.id] = (_share_calls(checks, judge_cache), pass_at)
    if diagnostics:
        raise DatasetError(diagnostics)
    return checks_by_case


def _check_specs(case: GoldenCase) -> list[tuple[int, JSON]]:
    """The specifications of a case's checks, each with its turn from 1, or 0 for the whole."""
    turns = case.script.turns if case.script is not None else ()
    case_specs: list[tuple[int, JSON]] = [(0, spec) for spec in case.checks]
    return case_specs + [
        (number, spec) for number, turn in enumerate(turns, start=1) for spec in turn.checks
    ]


def _share_calls(checks: list[_CaseCheck], judge_cache: _JudgeCache) -> tuple[_CaseCheck, ...]:
    """Judge checks of one criterion each in a shared call.

    Shared calls have their own calibration, `criteria`. Without it, blocking checks keep a call of
    their own.
    """
    if all(isinstance(check.judge, Rule) for check in checks):
        return tuple(checks)
    from regauge.judges.model._rubric import RubricJudge, merge_criteria

    groups: dict[str, list[int]] = {}
    for place, check in enumerate(checks):
        judge = check.judge
        if isinstance(judge, RubricJudge) and len(judge.criteria) == 1:
            groups.setdefault(replace(judge, name="", criteria=()).digest, []).append(place)
    for places in groups.values():
        judges = [cast("RubricJudge", checks[place].judge) for place in places]
        shared = merge_criteria(judges)
        if shared is None:
            continue
        uncalibrated = judge_cache.uncalibrated(shared)
        if uncalibrated and not checks[places[0]].uncalibrated:
            continue
        for place, judge in zip(places, judges, strict=True):
            checks[place] = replace(
                checks[place], judge=shared, part=judge.criteria[0], uncalibrated=uncalibrated
            )
    return tuple(checks)


def _build_identity(functions: Sequence[str], versions: Mapping[str, int]) -> dict[str, JSON]:
    rules = dict(versions)
    identity: dict[str, JSON] = {
        "kind": CHECKS,
        "version": 1,
        "reading": rules.pop(_READING),
        "rules": rules,
    }
    return {**identity, "functions": [*functions]} if functions else identity


def check_versions() -> dict[str, int]:
    """The versions in the digest of checks: of output parsing, and of rules beyond version 1."""
    return {_READING: READING_VERSION, **rule_versions()}


def is_case_checks(judge: object) -> TypeGuard[Rule | CaseChecks]:
    """Return whether a judge applies the checks of cases."""
    return isinstance(judge, CaseChecks) or (isinstance(judge, Rule) and judge.kind == CHECKS)


def changed_rules(judge: Rule | CaseChecks, digest: str, versions: Mapping[str, int]) -> str:
    """The rules that regauge changed since a baseline; empty if anything else differs.

    Args:
        judge: The current checks.
        digest: The digest of the checks in the baseline.
        versions: The `check_versions` of the baseline; empty if it has none.
    """
    if _READING not in versions or (isinstance(judge, Rule) and not judge.is_builtin):
        return ""
    document = (
        _build_identity((), versions) if isinstance(judge, Rule) else judge.identity(versions)
    )
    if digest_of(document) != digest:
        return ""
    now = check_versions()
    return ", ".join(
        f"{name} (version {versions.get(name, 1)}, now {now.get(name, 1)})"
        for name in sorted({*now, *versions})
        if versions.get(name, 1) != now.get(name, 1)
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class CaseChecks(RunOnlyJudge):
    """The checks of cases, some of which call a model or an embedding model.

    Attributes:
        checks_by_case: The checks and the share that must pass, by case id.
        calibrated: The judges whose calibration applies to the checks, each once.
        functions: The digests of function judges and of other packages' rules.
    """

    checks_by_case: Mapping[str, _Checks]
    calibrated: tuple[ModelJudge, ...]
    functions: tuple[str, ...] = ()
    name: str = CHECKS
    criterion: Criterion = "correctness"

    @property
    def models(self) -> tuple[str, ...]:
        """The models of all checks, each once."""
        return tuple(dict.fromkeys(model for judge in self.calibrated for model in judge.models))

    @property
    def usual_calls(self) -> int:
        """The largest number of calls per judgement; vectors need none."""
        return max(
            len({id(check.judge) for check in checks if isinstance(check.judge, ModelJudge)})
            for checks, _ in self.checks_by_case.values()
        )

    def semantic_judges(self, case: str) -> list[SemanticJudge]:
        """The judges of a case that compare embeddings."""
        checks, _ = self.checks_by_case.get(case, ((), 1.0))
        judges = {id(check.judge): check.judge for check in checks}
        return [judge for judge in judges.values() if is_semantic(judge)]

    def with_vectors(self, give: Callable[[SemanticJudge], SemanticJudge]) -> CaseChecks:
        """Add an embedder to each judge that compares embeddings.

        Args:
            give: Called with each such judge, for the same judge with its embedder.
        """
        by_place: dict[int, SemanticJudge] = {}

        def embedded(check: _CaseCheck) -> _CaseCheck:
            judge = check.judge
            if not is_semantic(judge):
                return check
            return replace(check, judge=by_place.setdefault(id(judge), give(judge)))

        checks_by_case = {
            case: (tuple(map(embedded, checks)), pass_at)
            for case, (checks, pass_at) in self.checks_by_case.items()
        }
        return replace(self, checks_by_case=checks_by_case)

    def _identity(self) -> dict[str, JSON]:
        return self.identity(check_versions())

    def identity(self, versions: Mapping[str, int]) -> dict[str, JSON]:
        """The content of the digest, with these versions of the rules."""
        judges = sorted({calibrated.digest for calibrated in self.calibrated})
        return {**_build_identity(self.functions, versions), "judges": judges}

    def status_in(self, project: Project) -> JudgeStatus:
        """Blocking: verdicts leave checks of uncalibrated judges out instead."""
        del project
        return JudgeStatus(blocking=True, reason="checks of calibrated judges and of rules decide")

    async def judge_with(
        self, completion: Completion, case: GoldenCase, calls: JudgeCalls
    ) -> Verdict:
        """Apply the checks of a case; calls of models run concurrently.

        Raises:
            JudgeError: A check has no verdict.
            UnmeasuredError: A model could not be called.
        """
        from regauge.judges.model.requests import gather_all

        bound = self.checks_by_case.get(case.id)
        if bound is None:
            return abstained("the case has no checks", code="no_checks")
        checks, pass_at = bound
        output = JudgedOutput.from_completion(completion, case)

        in_parts = {id(check.judge) for check in checks if check.part}

        async def verdicts_of(judge: Rule | ModelJudge | SemanticJudge) -> dict[str, Verdict]:
            if isinstance(judge, Rule):
                return {"": judge.examine(output)}
            if is_semantic(judge):
                # Embeddings are read and requested in another event loop.
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
                **({"advisory": check.advisory_reason} if check.advisory_reason else {}),
            }
            for check, opinion in opinions
        ]
        advisory_notes = [
            f"advisory: {check.metric}: {opinion.outcome}: {opinion.reason}"
            f" ({check.advisory_reason})"
            for check, opinion in opinions
            if check.advisory_reason
        ]
        return replace(
            verdict,
            reason="; ".join([verdict.reason, *advisory_notes]),
            details={**verdict.details, "checks": rows},
        )


class _JudgeCache:
    """The judges of checks, one for equal specifications."""

    def __init__(self, context: JudgeContext) -> None:
        self._context = context
        self._statuses: dict[str, JudgeStatus] = {}
        self.judges: dict[str, Rule | ModelJudge | SemanticJudge] = {}

    @property
    def functions(self) -> tuple[str, ...]:
        """The digests of function judges and of other packages' rules, which no case states."""
        rules = [judge for judge in self.judges.values() if isinstance(judge, Rule)]
        return tuple(sorted(rule.digest for rule in rules if not rule.is_builtin))

    def make(self, spec: JSON) -> Rule | ModelJudge | SemanticJudge:
        """Return the judge of a specification, built on first use.

        Raises:
            UsageError: The specification is invalid.
        """
        key = json.dumps(spec, sort_keys=True)
        if key in self.judges:
            return self.judges[key]
        judge = judge_from_spec(spec)
        if isinstance(judge, Rule):
            judge = with_prompt_schema(judge, self._context.prompt)
        elif isinstance(judge, UnboundJudge) and not is_semantic(judge):
            judge = judge.bind(self._context)
        if not (isinstance(judge, Rule | ModelJudge) or is_semantic(judge)):
            fix = "give it to the eval: golden(..., judges=[...])"
            raise UsageError(f"{judge.name!r} is not a rule, and calls no model", fix=fix)
        self.judges[key] = judge
        return judge

    def uncalibrated(self, judge: Rule | ModelJudge | SemanticJudge) -> dict[str, str]:
        """The judges without a valid calibration, each with the reason."""
        if not isinstance(judge, ModelJudge):
            return {}
        reasons: dict[str, str] = {}
        for calibrated in calibrated_judges(judge):
            status = self._statuses.get(calibrated.digest)
            if status is None:
                status = judge_status(calibrated, self._context.project)
                self._statuses[calibrated.digest] = status
            if not status.blocking:
                reasons[calibrated.name] = status.reason
        return reasons


def _check(spec: JSON, judge_cache: _JudgeCache, *, turn: int) -> _CaseCheck:
    """Build a check.

    Args:
        spec: The judge and its options, as in the case.
        judge_cache: The judges so far.
        turn: The turn to check; 0 for the whole.

    Raises:
        UsageError: The specification is invalid.
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
    judge = judge_cache.make(spec)
    return _CaseCheck(
        judge=judge,
        weight=weight,
        tier=cast("Tier", tier or "required"),
        metric=metric or judge.name,
        uncalibrated=judge_cache.uncalibrated(judge),
    )


def _abstain_undecided(checks: Sequence[_CaseCheck]) -> Verdict:
    """Abstain, as no check of the case decides."""
    advisory = [check for check in checks if check.advisory_reason]
    if len(advisory) < len(checks):
        reason = "every check abstains, is tracked or advisory"
    else:
        reason = "every check is advisory"
    if not advisory:
        return abstained(reason, code="all_abstain")
    verdict = abstained(reason, code="all_advisory")
    advisory_names = dict.fromkeys(
        f"{check.metric} ({check.advisory_reason})" for check in advisory
    )
    names = ", ".join(advisory_names)
    judges = dict.fromkeys(name for check in advisory for name in check.uncalibrated)
    fix = " && ".join(f"regauge judges calibrate {shlex.quote(name)}" for name in judges)
    return replace(
        verdict,
        details={**verdict.details, "why": f"{reason}: {names}\n  fix: {fix}"},
    )


def _verdict(opinions: Sequence[tuple[_CaseCheck, Verdict]], pass_at: float) -> Verdict:
    """Compare the weighted share of passing checks with `pass_at`."""
    deciding = [
        (check, verdict)
        for check, verdict in opinions
        if verdict.outcome != "abstain" and check.decides
    ]
    if not deciding:
        return _abstain_undecided([check for check, _ in opinions])
    total = math.fsum(check.weight for check, _ in deciding)
    good = math.fsum(check.weight for check, verdict in deciding if verdict.outcome == "pass")
    bad = [(check, verdict) for check, verdict in deciding if verdict.outcome == "fail"]
    score = good / total
    critical = any(check.tier == "critical" for check, _ in bad)
    # A sum of weights such as 0.1 + 0.7 misses 0.8 by less than this.
    enough = score >= pass_at or math.isclose(score, pass_at, abs_tol=1e-12)
    goal = format_number(pass_at * total)
    share = f"{format_number(good)} of {format_number(total)} by weight, {goal} wanted"
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
