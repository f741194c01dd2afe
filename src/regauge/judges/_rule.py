"""`Rule`: a judge that is a pure function of the answer; its negation and its advice."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from regauge.digests import digest_of
from regauge.errors import UsageError
from regauge.judges._output import MISSING, JudgedOutput, MissingValue, parse_path
from regauge.judges._types import NO_OUTPUT_CODES, Verdict, failed, parse_criterion, passed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from regauge.criteria import Criterion
    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.providers import Completion


Check = Callable[[JudgedOutput], Verdict]


class AdviceTemplate(NamedTuple):
    """The quality that one kind of rule is about, and its instructions for a prompt.

    `{n}` stands for the parameter n, `{it}` for the answer or the field that is judged, `{inside}`
    for its place, `{fill}` for "answer with" or "fill `field` with". A sentence behind ` | ` is
    left out without the parameter that it names. Where a sentence names a value that each case
    brings itself, the instruction is empty.

    Attributes:
        criterion: None where the rule states none.
        advice: The instruction so that the rule passes.
        negated_advice: So that its negation passes.
    """

    criterion: Criterion | None
    advice: str = ""
    negated_advice: str = ""


class Compose(Protocol):
    """Makes the advice of a rule that is no template of its parameters, as one made of rules."""

    def __call__(self, judge: Rule, *, field: str | None, negated: bool) -> str: ...


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
        is_builtin: All of it comes with regauge, so it has no side effects.
        opposite: Set where the rule has no negation: the fix, for the error.
        about: The criterion its author counts it under; None for that of its kind. No part of the
            digest.
        template: Criterion and instructions of its kind; no part of the digest.
        compose: Makes the advice where a template cannot; no part of the digest.
    """

    kind: str
    params: Mapping[str, JSON]
    name: str
    digest: str
    examine: Check
    description: str = ""
    parts: tuple[Rule, ...] = ()
    instruction: str = ""
    is_builtin: bool = False
    opposite: str = ""
    about: Criterion | None = None
    template: AdviceTemplate | None = None
    compose: Compose | None = None

    def check(self, completion: Completion, case: GoldenCase) -> Verdict:
        """Judge one completion of one case, at once.

        Raises:
            JudgeError: The case does not say what the rule compares with.
        """
        return self.examine(JudgedOutput.from_completion(completion, case))

    async def judge(self, completion: Completion, case: GoldenCase) -> Verdict:
        """`check`, for those who await judges."""
        return self.examine(JudgedOutput.from_completion(completion, case))

    def check_text(
        self,
        text: str | None,
        *,
        expected: JSON | MissingValue = MISSING,
        inputs: Mapping[str, JSON] | None = None,
    ) -> Verdict:
        """Judge a text that no model wrote, to try a rule out."""
        return self.examine(JudgedOutput(text, expected=expected, inputs=inputs))

    def with_name(self, name: str) -> Rule:
        """The same rule under a name of your choice."""
        return replace(self, name=name)

    def with_instruction(self, instruction: str) -> Rule:
        """The same rule with your own words for what a prompt should say for it."""
        return replace(self, instruction=instruction)

    def with_criterion(self, criterion: str) -> Rule:
        """The same rule, counted under another criterion.

        >>> from regauge.judges import max_words
        >>> max_words(40).criterion, max_words(40).with_criterion("relevance").criterion
        ('format', 'relevance')

        Args:
            criterion: `correctness`, `completeness`, `format` or `relevance`.

        Raises:
            UsageError: It is none of them.
        """
        return replace(self, about=parse_criterion(criterion, judge=self.name))

    def advice(self, *, field: str | None = None, negated: bool = False) -> str:
        """The instruction a prompt should hold for this rule; empty where there is none to give.

        It comes from the rule's parameters alone, never from a case, so it gives no expected value
        away.

        Args:
            field: The field that another rule applies this one to.
            negated: Return the instruction for the rule to fail.

        >>> from regauge.judges import field_equals, max_words
        >>> max_words(40, field="reason").advice()
        'Keep `reason` to at most 40 words.'
        >>> (~max_words(40)).advice()
        'Write more than 40 words.'
        >>> field_equals("severity").advice()
        ''
        """
        if self.instruction:
            return "" if negated else self.instruction
        if self.compose is not None:
            return self.compose(self, field=field, negated=negated)
        if self.template is None:
            return ""
        params = dict(self.params) if field is None else {**self.params, "field": field}
        return fill_template(self.template, params, negated=negated)

    @property
    def reference(self) -> JSON:
        """The name as a parameter of another rule."""
        return {"judge": self.kind, "name": self.name, "digest": self.digest}

    @property
    def criterion(self) -> Criterion:
        """The kind of quality it is about: its author's, else that of its kind or of its parts."""
        if self.about is not None:
            return self.about
        if self.template is not None and self.template.criterion:
            return self.template.criterion
        kinds: set[Criterion] = {part.criterion for part in self.parts}
        return kinds.pop() if len(kinds) == 1 else "correctness"

    def __invert__(self) -> Rule:
        """`~rule` is its negation."""
        return negate(self)

    def __repr__(self) -> str:
        return f"<Rule {self.name}>"


def on_output(field: str | None, check: Check) -> Check:
    """Apply a check to the answer, or to the part of it at `field`, once there is any text."""
    if field is None:

        def check_output(answer: JudgedOutput) -> Verdict:
            return check(answer) if answer.text is not None else answer.no_text_verdict()

        return check_output
    steps = parse_path(field)

    def check_field(answer: JudgedOutput) -> Verdict:
        part = answer.part_at(field, steps)
        if isinstance(part, Verdict):
            return part
        if part.text is None:
            return failed(f"field {field!r} is null", code="null_field", details={"field": field})
        return check(part)

    return check_field


def on_text(field: str | None, check: Callable[[str], Verdict]) -> Check:
    """`on_output`, for a check that needs the text alone."""

    def text_only(answer: JudgedOutput) -> Verdict:
        text = answer.text
        return check(text) if text is not None else answer.no_text_verdict()

    return text_only if field is None else on_output(field, text_only)


def all_parts(judge: Rule) -> Iterator[Rule]:
    """A rule and all rules in it."""
    yield judge
    for part in judge.parts:
        yield from all_parts(part)


def negated_digest(digest: str) -> str:
    """The digest of the negation of a rule with this digest."""
    return digest_of({"kind": "not", "version": 1, "params": {"judge": digest}})


def negate(judge: Rule) -> Rule:
    """The rule that passes when another fails, and fails when it passes.

    An output without any text fails both: there is nothing to judge. An abstention stays one.

    Raises:
        UsageError: The rule is not a question of yes or no.
    """
    code = f"not_{judge.kind}"
    if ambiguous := next((rule for rule in all_parts(judge) if rule.opposite), None):
        raise UsageError(
            f"not {judge.name}: the negation of {ambiguous.kind} is ambiguous\n"
            f"  fix: {ambiguous.opposite}"
        )

    def check(answer: JudgedOutput) -> Verdict:
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
            case "fail" if verdict.code in NO_OUTPUT_CODES:
                return verdict
            case "fail":
                return passed(
                    f"rightly does not hold: {verdict.reason}",
                    score=1 - verdict.score,
                    actual=verdict.actual,
                )

    description = f"Must not hold: {judge.description}" if judge.description else ""
    return Rule(
        kind=code,
        params={"judge": judge.reference},
        name=f"not {judge.name}",
        digest=negated_digest(judge.digest),
        examine=check,
        description=description,
        parts=(judge,),
        is_builtin=judge.is_builtin,
        compose=_advice_of_negation,
    )


def _advice_of_negation(judge: Rule, *, field: str | None, negated: bool) -> str:
    return judge.parts[0].advice(field=field, negated=not negated)


def first_sentence(doc: str | None) -> str:
    """The first line of a docstring."""
    return (doc or "").strip().partition("\n")[0].strip()


_SLOT = re.compile(r"\{(\w+)(?::(\w+))?\}")
_PLACEHOLDER = re.compile(r"\{\{\s*[\w.-]+\s*\}\}")
_SINGULAR = re.compile(r"(?<= )(1 (?:tool )?[a-z]+)s\b")
_WHETHER = re.compile(r"(?:whether|if)\s+", re.IGNORECASE)


class _CaseOnlyError(Exception):
    """A value that only golden cases have, so a prompt cannot state it."""


class _EmptyError(Exception):
    """A parameter that was left out, with the sentence about it."""


def advice_of_docstring(judge: Rule, *, field: str | None, negated: bool) -> str:
    """The advice of a function: its docstring without "Whether" or "If"."""
    del field
    text = _WHETHER.sub("", judge.description, count=1)
    if not text or negated:
        return ""
    return text[0].upper() + text[1:] + ("" if text[-1] in ".!?" else ".")


def fill_template(template: AdviceTemplate, params: Mapping[str, JSON], *, negated: bool) -> str:
    """The instruction of a rule with these parameters; empty where there is none to give."""
    text = template.negated_advice if negated else template.advice
    sentences: list[str] = []
    for place, sentence in enumerate(text.split(" | ")):
        try:
            sentences.append(_fill(sentence, params))
        except _CaseOnlyError:
            return ""
        except _EmptyError:
            if place == 0:
                return ""
    return " ".join(filter(None, sentences))


def _fill(sentence: str, params: Mapping[str, JSON]) -> str:
    text = _SLOT.sub(lambda slot: _fill_slot(slot[1], slot[2] or "", params), sentence)
    text = _SINGULAR.sub(r"\1", text)
    return text[:1].upper() + text[1:]


def _fill_slot(name: str, form: str, params: Mapping[str, JSON]) -> str:
    field = params.get("field")
    match name:
        case "it":
            return f"`{field}`" if field else "the answer"
        case "inside":
            return f" in `{field}`" if field else ""
        case "fill":
            return f"fill `{field}` with" if field else "answer with"
        case "bounds" | "unbounded":
            return _bounds(params, outside=name == "unbounded")
        case _:
            value = params.get(name)
    if isinstance(value, Mapping) and (set(value) & {"expected", "default"}):
        raise _CaseOnlyError
    if form in _OPTIONAL_FORMS:
        return _OPTIONAL_FORMS[form](value)
    if value is None or value in ("", []):
        raise _EmptyError
    return _FORMS[form](value)


def _bounds(params: Mapping[str, JSON], *, outside: bool) -> str:
    minimum, maximum = params.get("at_least"), params.get("at_most")
    exactly = params.get("exactly")
    if exactly is not None:
        return f"more or fewer than {exactly}" if outside else f"exactly {exactly}"
    words = ("fewer than", "more than") if outside else ("at least", "at most")
    limits = [
        f"{word} {n}" for word, n in zip(words, (minimum, maximum), strict=True) if n is not None
    ]
    if not limits:
        raise _EmptyError
    return (" or " if outside else " and ").join(limits)


def listing(last: str, mark: str) -> Callable[[JSON], str]:
    """A list in words, each part between marks."""

    def join(value: JSON) -> str:
        is_list = isinstance(value, Sequence) and not isinstance(value, str)
        parts = [
            _quote_part(part, mark)
            for part in (cast("Sequence[JSON]", value) if is_list else [value])
        ]
        return f" {last} ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))

    return join


def _quote_part(value: JSON, mark: str) -> str:
    if isinstance(value, Mapping) and set(value) & {"expected", "default"}:
        raise _CaseOnlyError
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if _PLACEHOLDER.search(value):  # it would be an input of the prompt
        raise _CaseOnlyError
    return f"{mark}{' '.join(value.split())}{mark}"


def _keys_of(value: JSON) -> str:
    """The keys of a JSON Schema, those that are required first."""
    if not isinstance(value, Mapping):
        raise _EmptyError
    required, properties = value.get("required"), value.get("properties")
    names = [str(name) for name in required] if isinstance(required, list) else []
    if isinstance(properties, Mapping):
        names += [name for name in properties if name not in names]
    if not names:
        raise _EmptyError
    return listing("and", "`")([*names])


def _choice(value: JSON) -> str:
    """One text, or one of several."""
    several = isinstance(value, Sequence) and not isinstance(value, str) and len(value) > 1
    return ("one of " if several else "") + listing("or", '"')(value)


def _plural(value: JSON) -> str:
    """The ending of the noun before a list."""
    return "s" if isinstance(value, Sequence) and len(value) > 1 else ""


def _argument_list(value: JSON) -> str:
    """Arguments of a call, as `name is value`."""
    if not isinstance(value, Mapping):
        raise _EmptyError
    return listing("and", "")(
        [f"{key} is {_quote_part(part, chr(34))}" for key, part in value.items()]
    )


def _calls(value: JSON) -> str:
    """Calls of tools with their arguments."""
    descriptions: list[JSON] = []
    for part in cast("Sequence[JSON]", value):
        name, args = (part["name"], part.get("args")) if isinstance(part, Mapping) else (part, None)
        descriptions.append(f"`{name}`" + (f" ({_argument_list(args)})" if args else ""))
    return listing("and", "")(descriptions)


_FORMS: Mapping[str, Callable[[JSON], str]] = {
    "": str,
    "bare": listing("and", ""),
    "choice": listing("or", ""),
    "code": listing("and", "`"),
    "and": listing("and", '"'),
    "or": listing("or", '"'),
    "one": _choice,
    "s": _plural,
    "keys": _keys_of,
    "args": _argument_list,
    "calls": _calls,
}


def _flag(value: JSON) -> str:
    """Nothing to be said, but only where it is so."""
    if value is not True:
        raise _EmptyError
    return ""


def _hosts(before: str) -> Callable[[JSON], str]:
    return lambda hosts: f"{before}{listing('or', '')(hosts)}" if hosts else ""


_OPTIONAL_FORMS: Mapping[str, Callable[[JSON], str]] = {
    "flag": _flag,
    "json": lambda kind: str(kind or "value"),
    "level": lambda level: f" of level {level}" if level else "",
    "except": _hosts(" except of "),
    "besides": _hosts(" of another host than "),
}
