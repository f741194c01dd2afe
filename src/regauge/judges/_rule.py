"""`Rule`: a judge that is a pure function of the answer, its negation, and checks of a part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from regauge.digests import digest_of
from regauge.errors import UsageError
from regauge.judges._answer import MISSING, Answer, Missing, parse_path
from regauge.judges._asking import criterion_named
from regauge.judges._types import NO_ANSWER, Verdict, failed, passed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from regauge.criteria import Criterion
    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.providers import Completion

__all__ = [
    "AdviceTemplate",
    "Check",
    "Rule",
    "first_sentence",
    "negated",
    "negated_digest",
    "on_answer",
    "on_text",
]

Check = Callable[[Answer], Verdict]


class AdviceTemplate(NamedTuple):
    """The quality that one kind of rule is about, and its instructions for a prompt.

    `{n}` stands for the parameter n, `{it}` for the answer or the field that is judged, `{inside}`
    for its place, `{fill}` for "answer with" or "fill `field` with". A sentence behind ` | ` is
    left out without the parameter that it names. Where a sentence names a value that each case
    brings itself, the instruction is empty.

    Attributes:
        wanted: So that the rule passes.
        denied: So that its negation passes.
    """

    criterion: Criterion
    wanted: str = ""
    denied: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rule:
    """A deterministic judge that costs nothing.

    Attributes:
        kind: The name it is registered under, such as `max_words`.
        params: Its parameters, as JSON.
        name: What people read, such as `max_words(40, field=reason)`.
        digest: Over kind, parameters and the rule's own version.
        examine: The check itself: one answer, one verdict. Never raises for what a model wrote.
        description: What it looks at, in a sentence; no part of the digest.
        parts: The rules it is made of.
        instruction: What a prompt should say for it, in its author's words; no part of the digest.
        own: Whether all of it comes with regauge, so that it is known to do nothing but judge;
            what others wrote may print, wait or count.
        opposite: Set where the rule has no negation: the fix, for the error.
        about: The criterion its author counts it under; None for that of its kind. No part of the
            digest.
        template: Criterion and instructions of its kind; no part of the digest.
    """

    kind: str
    params: Mapping[str, JSON]
    name: str
    digest: str
    examine: Check
    description: str = ""
    parts: tuple[Rule, ...] = ()
    instruction: str = ""
    own: bool = False
    opposite: str = ""
    about: Criterion | None = None
    template: AdviceTemplate | None = None

    def check(self, completion: Completion, case: GoldenCase) -> Verdict:
        """Judge one completion of one case, at once.

        Raises:
            JudgeError: The case does not say what the rule compares with.
        """
        return self.examine(Answer.of(completion, case))

    async def judge(self, completion: Completion, case: GoldenCase) -> Verdict:
        """`check`, for those who await judges."""
        return self.examine(Answer.of(completion, case))

    def check_text(
        self,
        text: str | None,
        *,
        expected: JSON | Missing = MISSING,
        inputs: Mapping[str, JSON] | None = None,
    ) -> Verdict:
        """Judge a text that no model wrote, to try a rule out."""
        return self.examine(Answer(text, expected=expected, inputs=inputs))

    def named(self, name: str) -> Rule:
        """The same rule under a name of your choice."""
        return replace(self, name=name)

    def advising(self, instruction: str) -> Rule:
        """The same rule with your own words for what a prompt should say for it."""
        return replace(self, instruction=instruction)

    def judging(self, criterion: str) -> Rule:
        """The same rule, counted under another criterion.

        >>> from regauge.judges import max_words
        >>> max_words(40).criterion, max_words(40).judging("relevance").criterion
        ('format', 'relevance')

        Args:
            criterion: `correctness`, `completeness`, `format` or `relevance`.

        Raises:
            UsageError: It is none of them.
        """
        return replace(self, about=criterion_named(criterion, judge=self.name))

    def advice(self) -> str:
        """The instruction a prompt should hold for this rule; empty where nobody can say.

        It comes from the rule's parameters alone, so it gives no expected value away.

        >>> from regauge.judges import field_equals, max_words
        >>> max_words(40, field="reason").advice()
        'Keep `reason` to at most 40 words.'
        >>> (~max_words(40)).advice()
        'Write more than 40 words.'
        >>> field_equals("severity").advice()
        ''
        """
        from regauge.judges._advice import advice_of

        return advice_of(self)

    @property
    def reference(self) -> JSON:
        """What names it as a parameter of another rule."""
        return {"judge": self.kind, "name": self.name, "digest": self.digest}

    @property
    def criterion(self) -> Criterion:
        """What kind of quality it is about: as its author says, else by its kind."""
        from regauge.judges._advice import criterion_of

        return criterion_of(self)

    def __invert__(self) -> Rule:
        """`~rule` is its negation."""
        return negated(self)

    def __repr__(self) -> str:
        return f"<Rule {self.name}>"


def on_answer(field: str | None, check: Check) -> Check:
    """Apply a check to the answer, or to the part of it at `field`, once there is any text."""
    if field is None:

        def whole(answer: Answer) -> Verdict:
            return check(answer) if answer.text is not None else answer.nothing()

        return whole
    steps = parse_path(field)

    def part(answer: Answer) -> Verdict:
        found = answer.at(field, steps)
        if isinstance(found, Verdict):
            return found
        if found.text is None:
            return failed(
                f"field {field!r} is null",
                code="null_field",
                details={"field": field},
            )
        return check(found)

    return part


def on_text(field: str | None, check: Callable[[str], Verdict]) -> Check:
    """`on_answer`, for a check that needs the text alone."""

    def text_only(answer: Answer) -> Verdict:
        text = answer.text
        return check(text) if text is not None else answer.nothing()

    return text_only if field is None else on_answer(field, text_only)


def all_parts(judge: Rule) -> Iterator[Rule]:
    """A rule and all rules in it."""
    yield judge
    for part in judge.parts:
        yield from all_parts(part)


def negated_digest(digest: str) -> str:
    """The digest of the negation of a rule with this digest."""
    return digest_of({"kind": "not", "version": 1, "params": {"judge": digest}})


def negated(judge: Rule) -> Rule:
    """The rule that passes when another fails, and fails when it passes.

    An output without any text fails both: there is nothing to judge. An abstention stays one.

    Raises:
        UsageError: The rule is not a question of yes or no.
    """
    code = f"not_{judge.kind}"
    if without := next((rule for rule in all_parts(judge) if rule.opposite), None):
        raise UsageError(
            f"not {judge.name}: the negation of {without.kind} is ambiguous\n"
            f"  fix: {without.opposite}"
        )

    def check(answer: Answer) -> Verdict:
        verdict = judge.examine(answer)
        match verdict.outcome:
            case "abstain":
                return verdict
            case "pass":
                return failed(
                    f"must not hold: {verdict.reason}",
                    code=code,
                    score=1 - verdict.score if verdict.score > 0 else 0.0,
                    actual=verdict.actual,
                )
            case "fail" if verdict.code in NO_ANSWER:
                return verdict
            case "fail":
                return passed(
                    f"rightly does not hold: {verdict.reason}",
                    score=1 - verdict.score,
                    actual=verdict.actual,
                )

    described = f"Must not hold: {judge.description}" if judge.description else ""
    return Rule(
        kind=code,
        params={"judge": judge.reference},
        name=f"not {judge.name}",
        digest=negated_digest(judge.digest),
        examine=check,
        description=described,
        parts=(judge,),
        own=judge.own,
    )


def first_sentence(doc: str | None) -> str:
    """The first line of a docstring."""
    return (doc or "").strip().partition("\n")[0].strip()
