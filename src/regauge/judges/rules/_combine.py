"""Rules made of rules."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

from regauge.errors import UsageError
from regauge.judges._evidence import number
from regauge.judges._function import as_rule
from regauge.judges._rule import Check, Rule, negated
from regauge.judges._rule_factory import rule
from regauge.judges._types import NO_ANSWER, Verdict, abstained, failed, graded, passed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.judges._answer import Answer

__all__ = [
    "all_of",
    "any_of",
    "at_least",
    "not_",
    "weighted",
]


def not_(judge: Rule) -> Rule:
    """The negation of a rule: passes if it fails, and fails if it passes.

    An output without text fails both; an abstention stays one. `~rule` is the same.

    Args:
        judge: The rule, or a function.

    >>> from regauge.judges import contains
    >>> print(not_(contains("TODO")).check_text("Done."))
    pass: rightly does not hold: does not contain 'TODO'
    """
    return negated(cast("Rule", as_rule(judge)))


def _opinions(judges: Sequence[Rule], answer: Answer) -> list[tuple[Rule, Verdict]]:
    verdicts = [(judge, judge.examine(answer)) for judge in judges]
    return [(judge, verdict) for judge, verdict in verdicts if verdict.outcome != "abstain"]


def _some(judges: Sequence[Rule], kind: str) -> None:
    if not judges:
        raise UsageError(f"{kind}: name at least one judge")
    for judge in judges:
        if not isinstance(judge, Rule):  # pyright: ignore[reportUnnecessaryIsInstance] - untyped callers
            raise UsageError(f"{kind}: takes rules, not {judge!r}")


def _reasons(verdicts: Sequence[tuple[Rule, Verdict]]) -> str:
    return "; ".join(f"{judge.name}: {verdict.reason}" for judge, verdict in verdicts[:4])


def _code(verdicts: Sequence[tuple[Rule, Verdict]], otherwise: str) -> str:
    codes = {verdict.code for _, verdict in verdicts}
    return codes.pop() if len(codes) == 1 and codes <= NO_ANSWER else otherwise


@rule(codes=("not_all",))
def all_of(*judges: Rule) -> Check:
    """All of these rules pass; the score is the lowest of theirs.

    Rules that abstain do not count; if all do, this abstains.

    Args:
        judges: The rules.

    >>> from regauge.judges import contains, max_words
    >>> print(all_of(contains("disk"), max_words(2)).check_text("The disk is full."))
    fail (0.50): max_words(2): 4 words, at most 2 wanted
    """
    _some(judges, "all_of")

    def check(answer: Answer) -> Verdict:
        opinions = _opinions(judges, answer)
        if not opinions:
            return abstained("every judge abstains", code="all_abstain")
        score = min(verdict.score for _, verdict in opinions)
        bad = [opinion for opinion in opinions if opinion[1].outcome == "fail"]
        if bad:
            return failed(_reasons(bad), code=_code(bad, "not_all"), score=score)
        return passed(_reasons(opinions), score=score)

    return check


@rule(codes=("none_of",))
def any_of(*judges: Rule) -> Check:
    """At least one of these rules passes; the score is the highest of theirs.

    Rules that abstain do not count; if all do, this abstains.

    Args:
        judges: The rules.

    >>> from regauge.judges import contains
    >>> print(any_of(contains("disk"), contains("memory")).check_text("The disk is full."))
    pass: contains(disk): contains 'disk': 'The disk is full.'
    """
    _some(judges, "any_of")

    def check(answer: Answer) -> Verdict:
        opinions = _opinions(judges, answer)
        if not opinions:
            return abstained("every judge abstains", code="all_abstain")
        score = max(verdict.score for _, verdict in opinions)
        good = [opinion for opinion in opinions if opinion[1].outcome == "pass"]
        if good:
            return passed(_reasons(good[:1]), score=score)
        return failed(_reasons(opinions), code=_code(opinions, "none_of"), score=score)

    return check


@rule(codes=("too_few",))
def at_least(k: int, *judges: Rule) -> Check:
    """At least `k` of these rules pass; the score is the share that passes.

    Rules that abstain do not count; if fewer than `k` decide, this abstains.

    Args:
        k: The number that must pass.
        judges: The rules.

    >>> from regauge.judges import contains
    >>> print(at_least(2, contains("a"), contains("b"), contains("c")).check_text("a b"))
    pass (0.67): 2 of 3 pass, at least 2 wanted
    """
    _some(judges, "at_least")
    if isinstance(k, bool) or not 1 <= k <= len(judges):
        raise UsageError(f"at_least: of {len(judges)} rules, {k!r} cannot be wanted")

    def check(answer: Answer) -> Verdict:
        opinions = _opinions(judges, answer)
        if len(opinions) < k:
            return abstained(f"{len(opinions)} have an opinion, {k} wanted", code="all_abstain")
        good = sum(1 for _, verdict in opinions if verdict.outcome == "pass")
        reason = f"{good} of {len(opinions)} pass, at least {k} wanted"
        share = good / len(opinions)
        if good >= k:
            return passed(reason, score=share)
        bad = [opinion for opinion in opinions if opinion[1].outcome == "fail"]
        return failed(f"{reason}; {_reasons(bad)}", code=_code(bad, "too_few"), score=share)

    return check


@rule(codes=("too_low",))
def weighted(weights: Mapping[Rule, float], *, at_least: float = 0.5) -> Check:
    """The weighted mean of the scores of several rules reaches a threshold.

    Rules that abstain do not count; if all do, this abstains.

    Args:
        weights: The rules and their weights, above 0.
        at_least: The least that passes.

    >>> from regauge.judges import contains, max_words
    >>> print(weighted({contains("disk"): 3, max_words(2): 1}).check_text("The disk is full."))
    pass (0.88): contains(disk) 1 x 3, max_words(2) 0.5 x 1: 0.875, 0.5 wanted
    """
    _some(tuple(weights), "weighted")
    bad = [weight for weight in weights.values() if not 0 < weight < math.inf]
    if bad or not 0 <= at_least <= 1:
        raise UsageError("weighted: weights are above 0, and at_least is a number from 0 to 1")

    def check(answer: Answer) -> Verdict:
        opinions = _opinions(tuple(weights), answer)
        if not opinions:
            return abstained("every judge abstains", code="all_abstain")
        total = sum(weights[judge] for judge, _ in opinions)
        mean = sum(verdict.score * weights[judge] for judge, verdict in opinions) / total
        parts = ", ".join(
            f"{judge.name} {number(verdict.score)} x {number(weights[judge])}"
            for judge, verdict in opinions
        )
        nothing = all(verdict.code in NO_ANSWER for _, verdict in opinions)
        return graded(
            mean,
            at_least=at_least,
            reason=f"{parts}: {number(mean)}, {number(at_least)} wanted",
            code=_code(opinions, "too_low") if nothing else "too_low",
        )

    return check
