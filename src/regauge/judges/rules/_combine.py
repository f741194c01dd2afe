"""Rules made of rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.errors import UsageError
from regauge.judges._rule import Check, Rule, negated, rule
from regauge.judges._types import NO_ANSWER, Verdict, abstained, failed, passed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.judges._answer import Answer

__all__ = ["all_of", "any_of", "not_"]


def not_(judge: Rule) -> Rule:
    """The negation of a rule: it passes when the rule fails, and fails when it passes.

    An answer without any text fails both; an abstention stays one. `~rule` says the same.

    >>> from regauge.judges import contains
    >>> print(not_(contains("TODO")).check_text("Done."))
    pass: rightly does not hold: does not contain 'TODO'
    """
    return negated(judge)


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
    """Every one of these rules passes; the score is the lowest of theirs.

    Rules that abstain do not count; when all do, so does this.

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

    Rules that abstain do not count; when all do, so does this.

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
