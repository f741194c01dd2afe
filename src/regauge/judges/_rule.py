"""`Rule`: a judge that is a pure function of the output; its negation and its advice."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from regauge.digests import digest_of
from regauge.errors import UsageError
from regauge.judges._types import NO_OUTPUT_CODES, Verdict, failed, parse_criterion, passed
from regauge.judges.output import MISSING, JudgedOutput, MissingValue, parse_path
from regauge.strict_json import as_list, is_sequence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.project import Criterion
    from regauge.providers import Completion


Check = Callable[[JudgedOutput], Verdict]


class AdviceTemplate(NamedTuple):
    """The instructions of one kind of rule for a prompt.

    `{n}` is the parameter n, `{it}` the output or the judged field, `{inside}` its place.
    `{fill}` is "answer with" or "fill `field` with". A sentence after ` | ` is omitted without the
    parameter that it names. An instruction with a value of the case is empty.

    Attributes:
        advice: The instruction that makes the rule pass.
        negated_advice: The instruction that makes its negation pass.
    """

    advice: str = ""
    negated_advice: str = ""


_NO_ADVICE = AdviceTemplate()


class Compose(Protocol):
    """Builds advice that no template can express, such as that of combined rules."""

    def __call__(self, judge: Rule, *, field: str | None, negated: bool) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rule:
    """A deterministic judge that costs nothing.

    Attributes:
        kind: The registered name, such as `max_words`.
        params: The parameters, as JSON.
        name: The name in reports, such as `max_words(40, field=reason)`.
        digest: The digest of kind, parameters and version.
        examine: Called with each output, for its verdict; any text of a model has one.
        description: One sentence; no part of the digest.
        parts: The rules that it combines.
        instruction: The author's instruction for a prompt; no part of the digest.
        is_builtin: All of it comes with regauge, so it has no side effects.
        opposite: The fix in the error for a negation; empty if the rule has a negation.
        about: The criterion of its author, else of its kind; None for that of its parts. No part
            of the digest.
        template: The instructions of its kind; no part of the digest.
        compose: The builder of advice that no template can express; no part of the digest.
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
    template: AdviceTemplate = _NO_ADVICE
    compose: Compose | None = None

    def check(self, completion: Completion, case: GoldenCase) -> Verdict:
        """Judge one completion of one case.

        Raises:
            JudgeError: The case has no value to compare with.
        """
        return self.examine(JudgedOutput.from_completion(completion, case))

    async def judge(self, completion: Completion, case: GoldenCase) -> Verdict:
        """`check`, as a coroutine."""
        return self.check(completion, case)

    def check_text(
        self,
        text: str | None,
        *,
        expected: JSON | MissingValue = MISSING,
        inputs: Mapping[str, JSON] | None = None,
    ) -> Verdict:
        """Judge a text, to try out a rule."""
        return self.examine(JudgedOutput(text, expected=expected, inputs=inputs))

    def with_name(self, name: str) -> Rule:
        """Rename the rule in reports."""
        return replace(self, name=name)

    def with_instruction(self, instruction: str) -> Rule:
        """Set the instruction for a prompt."""
        return replace(self, instruction=instruction)

    def with_criterion(self, criterion: str) -> Rule:
        """Count the rule under another criterion.

        >>> from regauge.judges import max_words
        >>> max_words(40).criterion, max_words(40).with_criterion("relevance").criterion
        ('format', 'relevance')

        Args:
            criterion: `correctness`, `completeness`, `format` or `relevance`.

        Raises:
            UsageError: There is no such criterion.
        """
        return replace(self, about=parse_criterion(criterion, judge=self.name))

    def advice(self, *, field: str | None = None, negated: bool = False) -> str:
        """The instruction that a prompt should have for this rule; empty for none.

        It is built from the parameters only, so it reveals no expected value of a case.

        Args:
            field: The field that another rule applies this one to.
            negated: Return the instruction that makes the rule fail.

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
        params = dict(self.params) if field is None else {**self.params, "field": field}
        return fill_template(self.template, params, negated=negated)

    @property
    def reference(self) -> JSON:
        """The rule as a parameter of another rule."""
        return {"judge": self.kind, "name": self.name, "digest": self.digest}

    @property
    def criterion(self) -> Criterion:
        """The criterion of its author, else of its kind, else of its parts."""
        if self.about is not None:
            return self.about
        kinds: set[Criterion] = {part.criterion for part in self.parts}
        return kinds.pop() if len(kinds) == 1 else "correctness"

    def __invert__(self) -> Rule:
        """Negate the rule."""
        return negate(self)

    def __repr__(self) -> str:
        return f"<Rule {self.name}>"


def on_output(field: str | None, check: Check) -> Check:
    """Apply a check to the output or to its part at `field`; an output without text fails."""
    if field is None:

        def check_output(output: JudgedOutput) -> Verdict:
            return check(output) if output.text is not None else output.no_text_verdict()

        return check_output
    steps = parse_path(field)

    def check_field(output: JudgedOutput) -> Verdict:
        part = output.part_at(field, steps)
        if isinstance(part, Verdict):
            return part
        if part.text is None:
            return failed(f"field {field!r} is null", code="null_field", details={"field": field})
        return check(part)

    return check_field


def on_text(field: str | None, check: Callable[[str], Verdict]) -> Check:
    """`on_output`, for a check of the text only."""

    def text_only(output: JudgedOutput) -> Verdict:
        text = output.text
        return check(text) if text is not None else output.no_text_verdict()

    return text_only if field is None else on_output(field, text_only)


def all_parts(judge: Rule) -> Iterator[Rule]:
    """A rule and its parts, at any depth."""
    yield judge
    for part in judge.parts:
        yield from all_parts(part)


def negated_digest(digest: str) -> str:
    """The digest of a negation, from the digest of the rule."""
    return digest_of({"kind": "not", "version": 1, "params": {"judge": digest}})


def negate(judge: Rule) -> Rule:
    """Negate a rule: pass if it fails, and fail if it passes.

    An output without text fails both. An abstention stays one.

    Raises:
        UsageError: The negation is ambiguous.
    """
    code = f"not_{judge.kind}"
    if ambiguous := next((rule for rule in all_parts(judge) if rule.opposite), None):
        raise UsageError(
            f"not {judge.name}: the negation of {ambiguous.kind} is ambiguous\n"
            f"  fix: {ambiguous.opposite}"
        )

    def check(output: JudgedOutput) -> Verdict:
        verdict = judge.examine(output)
        failing = verdict.outcome == "fail"
        if verdict.outcome == "abstain" or (failing and verdict.code in NO_OUTPUT_CODES):
            return verdict
        if failing:
            reason = f"rightly does not hold: {verdict.reason}"
            return passed(reason, score=1 - verdict.score, actual=verdict.actual)
        return failed(
            f"must not hold: {verdict.reason}",
            code=code,
            score=1 - verdict.score if verdict.score > 0 else 0.0,
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
    """A parameter is a value of the case, which a prompt cannot contain."""


class _EmptyError(Exception):
    """A parameter is unset, so its sentence is omitted."""


def advice_of_docstring(judge: Rule, *, field: str | None, negated: bool) -> str:
    """The advice of a function: its docstring without "Whether" or "If"."""
    del field
    text = _WHETHER.sub("", judge.description, count=1)
    if not text or negated:
        return ""
    return text[0].upper() + text[1:] + ("" if text[-1] in ".!?" else ".")


def fill_template(template: AdviceTemplate, params: Mapping[str, JSON], *, negated: bool) -> str:
    """Fill the instruction of a rule with its parameters; empty if it has none."""
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
    if value is None or value in ("", [], {}):
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
    """Return a function that writes a list as words, each between marks.

    Args:
        last: The word before the last part.
        mark: The mark around each part.
    """

    def join(value: JSON) -> str:
        parts = [_quote_part(part, mark) for part in as_list(value)]
        return f" {last} ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))

    return join


def _quote_part(value: JSON, mark: str) -> str:
    if isinstance(value, Mapping) and set(value) & {"expected", "default"}:
        raise _CaseOnlyError
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if _PLACEHOLDER.search(value):  # a placeholder would be an input of the prompt
        raise _CaseOnlyError
    return f"{mark}{' '.join(value.split())}{mark}"


def _keys_of(value: JSON) -> str:
    """The keys of a JSON Schema, required ones first."""
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
    """A text, or "one of" several."""
    several = is_sequence(value) and len(value) > 1
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
    """Tool calls, with their arguments."""
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
    """An empty text if the flag is set, so that its sentence is kept."""
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
