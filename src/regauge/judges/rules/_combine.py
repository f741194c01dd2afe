"""Judges of judges: combinations of rules, and judges of one turn or every turn."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, cast, overload

from regauge.errors import JudgeError, UsageError
from regauge.judges._function import as_rule
from regauge.judges._rule import Check, Rule, negate
from regauge.judges._rule_factory import RANGES, Place, Share, rule
from regauge.judges._types import (
    NO_OUTPUT_CODES,
    DeclaredJudge,
    ModelJudge,
    RunOnlyJudge,
    UnboundJudge,
    Verdict,
    abstained,
    calibrated_judges,
    criterion_of,
    failed,
    format_number,
    graded,
    passed,
    usual_calls,
)
from regauge.judges.output import JudgedOutput
from regauge.judges.rules._run import completion_of
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.judges._function import JudgeFunction
    from regauge.judges._types import JudgeCalls, JudgeContext
    from regauge.providers import Completion

__all__ = ["all_of", "any_of", "at_least", "each_turn", "in_turn", "not_", "unmeasured", "weighted"]


def not_(judge: Rule) -> Rule:
    """The negation of a rule: passes if it fails, and fails if it passes.

    An output without text fails both; an abstention stays one. `~rule` is the same.

    Args:
        judge: The rule, or a function.

    >>> from regauge.judges import contains
    >>> print(not_(contains("TODO")).check_text("Done."))
    pass: rightly does not hold: does not contain 'TODO'
    """
    return negate(cast("Rule", as_rule(judge)))


def _combine(
    kind: str,
    judges: Sequence[Rule],
    decide: Callable[[list[tuple[Rule, Verdict]]], Verdict],
    *,
    least: int = 1,
) -> Check:
    """Combine rules to a check, without those that abstain.

    Args:
        kind: The kind of the combination, for errors.
        judges: The rules.
        decide: Called with the rules that do not abstain and their verdicts.
        least: The number of verdicts without which the check abstains.

    Raises:
        UsageError: There is no rule, or one is not a rule.
    """
    if not judges:
        raise UsageError(f"{kind}: name at least one judge")
    for judge in judges:
        if not isinstance(judge, Rule):  # pyright: ignore[reportUnnecessaryIsInstance] - untyped callers
            raise UsageError(f"{kind}: takes rules, not {judge!r}")

    def check(output: JudgedOutput) -> Verdict:
        verdicts = [(judge, judge.examine(output)) for judge in judges]
        opinions = [opinion for opinion in verdicts if opinion[1].outcome != "abstain"]
        if len(opinions) >= least:
            return decide(opinions)
        few = f"{len(opinions)} have an opinion, {least} wanted"
        return abstained(
            "every judge abstains" if least == 1 and kind != "at_least" else few, code="all_abstain"
        )

    return check


def _reasons(verdicts: Sequence[tuple[Rule, Verdict]]) -> str:
    return "; ".join(f"{judge.name}: {verdict.reason}" for judge, verdict in verdicts[:4])


def _code(verdicts: Sequence[tuple[Rule, Verdict]], otherwise: str) -> str:
    codes = {verdict.code for _, verdict in verdicts}
    return codes.pop() if len(codes) == 1 and codes <= NO_OUTPUT_CODES else otherwise


def _advise(judge: Rule, *, field: str | None, negated: bool, one_if_negated: bool) -> str:
    """The advice of all parts, or of one of them."""
    advice = [part.advice(field=field, negated=negated) for part in judge.parts]
    if negated is not one_if_negated:
        return " ".join(filter(None, advice))
    if not all(advice):
        return ""
    return advice[0] if len(advice) == 1 else f"Do one of the following. {' Or: '.join(advice)}"


_advise_all: Final = functools.partial(_advise, one_if_negated=True)
_advise_any: Final = functools.partial(_advise, one_if_negated=False)


def _advise_some(judge: Rule, *, field: str | None, negated: bool) -> str:
    advice = [part.advice(field=field) for part in judge.parts]
    if not all(advice):
        return ""
    least = (
        f"fewer than {judge.params.get('k')}" if negated else f"at least {judge.params.get('k')}"
    )
    return f"Do {least} of the following. {' '.join(advice)}"


@rule(compose=_advise_all)
def all_of(*judges: Rule) -> Check:
    """All of these rules pass; the score is the lowest of theirs.

    Rules that abstain do not count; if all do, this abstains.

    Args:
        judges: The rules.

    Fails as: not_all

    >>> from regauge.judges import contains, max_words
    >>> print(all_of(contains("disk"), max_words(2)).check_text("The disk is full."))
    fail (0.50): max_words(2): 4 words, at most 2 wanted
    """

    def decide(opinions: list[tuple[Rule, Verdict]]) -> Verdict:
        score = min(verdict.score for _, verdict in opinions)
        bad = [opinion for opinion in opinions if opinion[1].outcome == "fail"]
        if bad:
            return failed(_reasons(bad), code=_code(bad, "not_all"), score=score)
        return passed(_reasons(opinions), score=score)

    return _combine("all_of", judges, decide)


@rule(compose=_advise_any)
def any_of(*judges: Rule) -> Check:
    """At least one of these rules passes; the score is the highest of theirs.

    Rules that abstain do not count; if all do, this abstains.

    Args:
        judges: The rules.

    Fails as: none_of

    >>> from regauge.judges import contains
    >>> print(any_of(contains("disk"), contains("memory")).check_text("The disk is full."))
    pass: contains(disk): contains 'disk': 'The disk is full.'
    """

    def decide(opinions: list[tuple[Rule, Verdict]]) -> Verdict:
        score = max(verdict.score for _, verdict in opinions)
        good = [opinion for opinion in opinions if opinion[1].outcome == "pass"]
        if good:
            return passed(_reasons(good[:1]), score=score)
        return failed(_reasons(opinions), code=_code(opinions, "none_of"), score=score)

    return _combine("any_of", judges, decide)


@rule(compose=_advise_some)
def at_least(k: int, *judges: Rule) -> Check:
    """At least `k` of these rules pass; the score is the share that passes.

    Rules that abstain do not count; if fewer than `k` decide, this abstains.

    Args:
        k: The number that must pass.
        judges: The rules.

    Fails as: too_few

    >>> from regauge.judges import contains
    >>> print(at_least(2, contains("a"), contains("b"), contains("c")).check_text("a b"))
    pass (0.67): 2 of 3 pass, at least 2 wanted
    """
    if isinstance(k, bool) or not 1 <= k <= len(judges):
        raise UsageError(f"at_least: of {len(judges)} rules, {k!r} cannot be wanted")

    def decide(opinions: list[tuple[Rule, Verdict]]) -> Verdict:
        good = sum(1 for _, verdict in opinions if verdict.outcome == "pass")
        reason = f"{good} of {len(opinions)} pass, at least {k} wanted"
        share = good / len(opinions)
        if good >= k:
            return passed(reason, score=share)
        bad = [opinion for opinion in opinions if opinion[1].outcome == "fail"]
        return failed(f"{reason}; {_reasons(bad)}", code=_code(bad, "too_few"), score=share)

    return _combine("at_least", judges, decide, least=k)


@rule(compose=_advise_all)
def weighted(weights: Mapping[Rule, float], *, at_least: Share = 0.5) -> Check:
    """The weighted mean of the scores of several rules reaches a threshold.

    Rules that abstain do not count; if all do, this abstains.

    Args:
        weights: The rules and their weights, above 0; in YAML a list of
            `{judge: ..., weight: ...}`.
        at_least: The least that passes.

    Fails as: too_low

    >>> from regauge.judges import contains, max_words
    >>> print(weighted({contains("disk"): 3, max_words(2): 1}).check_text("The disk is full."))
    pass (0.88): contains(disk) 1 x 3, max_words(2) 0.5 x 1: 0.875, 0.5 wanted
    """
    if not all(0 < weight < math.inf for weight in weights.values()):
        raise UsageError("weighted: weights are numbers above 0")

    def decide(opinions: list[tuple[Rule, Verdict]]) -> Verdict:
        total = sum(weights[judge] for judge, _ in opinions)
        mean = sum(verdict.score * weights[judge] for judge, verdict in opinions) / total
        parts = ", ".join(
            f"{judge.name} {format_number(verdict.score)} x {format_number(weights[judge])}"
            for judge, verdict in opinions
        )
        all_without_output = all(verdict.code in NO_OUTPUT_CODES for _, verdict in opinions)
        return graded(
            mean,
            at_least=at_least,
            reason=f"{parts}: {format_number(mean)}, {format_number(at_least)} wanted",
            code=_code(opinions, "too_low") if all_without_output else "too_low",
        )

    return _combine("weighted", tuple(weights), decide)


def case_of_turn(case: GoldenCase, turn: int, completion: Completion) -> GoldenCase:
    """The case of one turn: with its input and its `expected`.

    Args:
        case: The case of the conversation.
        turn: The number of the turn, from 1.
        completion: The completion of the turn.
    """
    turns = case.script.turns if case.script is not None else ()
    contents = [message.get("content") for message in completion.messages[:1]]
    inputs = {"input": contents[0], **case.inputs} if contents else case.inputs
    expected = turns[turn - 1].expected if turn <= len(turns) else None
    place = f"{case.location}, turn {turn}"
    return replace(case, inputs=inputs, expected=expected, location=place)


def _no_turn(turn: int, count: int) -> Verdict:
    reason = f"no turn {turn}: the conversation has {plural(count, 'turn')}"
    return failed(reason, code="no_turn", expected=turn, actual=count)


def _over_turns(verdicts: Sequence[Verdict]) -> Verdict:
    """Combine the verdicts on all turns: each must pass; abstentions do not count."""
    opinions = [
        (turn, verdict)
        for turn, verdict in enumerate(verdicts, start=1)
        if verdict.outcome != "abstain"
    ]
    if not opinions:
        return abstained("the judge abstains in every turn", code="all_abstain")
    score = min(verdict.score for _, verdict in opinions)
    bad = [(turn, verdict) for turn, verdict in opinions if verdict.outcome == "fail"]
    if not bad:
        return passed(f"passes in {plural(len(opinions), 'turn')}", score=score)
    first = bad[0][1]
    return failed(
        "; ".join(f"turn {turn}: {verdict.reason}" for turn, verdict in bad[:4]),
        code=first.code or "turn_failed",
        score=score,
        expected=first.expected,
        actual=first.actual,
        details={"turns": [turn for turn, _ in bad]},
    )


def _turns(output: JudgedOutput, kind: str) -> list[JudgedOutput]:
    """The output of each turn."""
    from regauge.providers import Conversation

    completion = completion_of(output, kind)
    case = output.case
    return [
        JudgedOutput(turn_completion.text, completion=turn_completion)
        if case is None
        else JudgedOutput.from_completion(
            turn_completion, case_of_turn(case, turn, turn_completion)
        )
        for turn, turn_completion in enumerate(Conversation(completion).turns, start=1)
    ]


@rule()
def in_turn_(turn: Place, judge: Rule) -> Check:
    """Apply any rule to one turn of a conversation.

    Fails as: no_turn
    """
    examine = judge.examine

    def check(output: JudgedOutput) -> Verdict:
        turns = _turns(output, "in_turn")
        if len(turns) < turn:
            return _no_turn(turn, len(turns))
        verdict = examine(turns[turn - 1])
        return replace(verdict, reason=f"turn {turn}: {verdict.reason}")

    return check


@rule()
def each_turn_(judge: Rule) -> Check:
    """Apply any rule to every turn of a conversation.

    Fails as: turn_failed
    """
    examine = judge.examine
    return lambda output: _over_turns([examine(turn) for turn in _turns(output, "each_turn")])


@overload
def in_turn(turn: int, judge: Rule | JudgeFunction) -> Rule: ...
@overload
def in_turn(turn: int, judge: UnboundJudge | ModelJudge) -> DeclaredJudge[TurnsJudge]: ...
def in_turn(
    turn: int, judge: Rule | JudgeFunction | UnboundJudge | ModelJudge
) -> Rule | DeclaredJudge[TurnsJudge]:
    """Judge one turn of a conversation: its last text, and its tool calls.

    The judge compares with the `expected` of the turn. A conversation without that turn fails.

    Args:
        turn: The number of the turn, from 1; a turn begins with a user message.
        judge: A rule, a function or an LLM judge.

    Raises:
        UsageError: The judge or the turn is invalid.

    >>> from regauge.judges import contains
    >>> in_turn(2, contains("refund")).name
    'in_turn(2, contains(refund))'
    """
    if not (place := RANGES["Place"]).contains(turn):
        raise UsageError(f"in_turn: turn is {place.words}, not {turn!r}")
    inner = _rule_or_judge("in_turn", judge)
    if isinstance(inner, Rule):
        return in_turn_(turn, inner)
    return _declare_turns("in_turn", inner, turn)


@overload
def each_turn(judge: Rule | JudgeFunction) -> Rule: ...
@overload
def each_turn(judge: UnboundJudge | ModelJudge) -> DeclaredJudge[TurnsJudge]: ...
def each_turn(
    judge: Rule | JudgeFunction | UnboundJudge | ModelJudge,
) -> Rule | DeclaredJudge[TurnsJudge]:
    """Judge every turn of a conversation; all of them must pass.

    The judge compares with the `expected` of each turn. Turns in which it abstains do not count.

    Args:
        judge: A rule, a function or an LLM judge.

    Raises:
        UsageError: The judge is invalid.

    >>> from regauge.judges import max_words
    >>> each_turn(max_words(60)).name
    'each_turn(max_words(60))'
    """
    inner = _rule_or_judge("each_turn", judge)
    if isinstance(inner, Rule):
        return each_turn_(inner)
    return _declare_turns("each_turn", inner)


def _rule_or_judge(kind: str, judge: object) -> Rule | UnboundJudge | ModelJudge:
    inner = as_rule(judge)
    if isinstance(inner, Rule | UnboundJudge | ModelJudge):
        return inner
    fix = "give a rule, a function or a rubric"
    raise UsageError(f"{kind}: {judge!r} is not a judge", fix=fix)


def _declare_turns(
    kind: str, inner: UnboundJudge | ModelJudge, turn: int | None = None
) -> DeclaredJudge[TurnsJudge]:
    """Declare an LLM judge of one turn, or of all turns if `turn` is None."""
    place = f"{turn}, " if turn else ""
    name = f"{kind}({place}{getattr(inner, 'name', '?')})"

    def make(judge_name: str, context: JudgeContext) -> TurnsJudge:
        judge = inner.bind(context) if isinstance(inner, UnboundJudge) else inner
        if not isinstance(judge, ModelJudge):
            fix = "give a rule, a function or a rubric"
            raise UsageError(f"{judge_name}: {judge.name!r} cannot judge single turns", fix=fix)
        return TurnsJudge(name=judge_name, criterion=criterion_of(judge), inner=judge, turn=turn)

    return DeclaredJudge(name=name, criterion=None, make=make)


@dataclass(frozen=True, kw_only=True)
class TurnsJudge(RunOnlyJudge):
    """An LLM judge of turns that is ready to judge.

    Attributes:
        inner: The judge of each turn.
        turn: The judged turn, from 1; None for all.
    """

    inner: ModelJudge
    turn: int | None

    @property
    def models(self) -> tuple[str, ...]:
        """The models of the inner judge."""
        return self.inner.models

    @property
    def calibrated(self) -> tuple[ModelJudge, ...]:
        """The judges whose calibration applies: those of the inner judge."""
        return calibrated_judges(self.inner)

    @property
    def usual_calls(self) -> int:
        """The calls of the inner judge; for two turns if it judges all."""
        return usual_calls(self.inner) * (1 if self.turn else 2)

    def _identity(self) -> dict[str, JSON]:
        return {"kind": "turns", "version": 1, "judge": self.inner.digest, "turn": self.turn}

    async def judge_with(
        self, completion: Completion, case: GoldenCase, calls: JudgeCalls
    ) -> Verdict:
        """Judge the turn, or all turns concurrently.

        Raises:
            JudgeError: A turn has no verdict.
            UnmeasuredError: A model could not be called.
        """
        from regauge.judges.model.requests import gather_all
        from regauge.providers import Conversation

        turns = Conversation(completion).turns
        if self.turn is not None and len(turns) < self.turn:
            return _no_turn(self.turn, len(turns))
        verdicts = await gather_all(
            self.inner.judge_with(
                turn_completion, case_of_turn(case, number, turn_completion), calls
            )
            for number, turn_completion in enumerate(turns, start=1)
            if self.turn in {None, number}
        )
        if self.turn is None:
            return _over_turns(verdicts)
        return replace(verdicts[0], reason=f"turn {self.turn}: {verdicts[0].reason}")


@rule(opposite="remove it: it has no verdict")
def unmeasured(reason: str) -> Check:
    """A placeholder for a missing check: it leaves its case unmeasured.

    Args:
        reason: The missing work.

    >>> unmeasured("add the expected total").name
    "unmeasured('add the expected total')"
    """

    def check(output: JudgedOutput) -> Verdict:
        del output
        raise JudgeError(f"unmeasured: {reason}", judge="unmeasured")

    return check
