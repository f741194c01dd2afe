"""`Rule`: a judge that is a pure function of the answer, and `@rule`, which makes them.

A rule is written as one function that takes its parameters, complains about senseless ones, and
returns the check. The decorator adds what all rules share: name, digest, negation, registration.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Generic, ParamSpec, cast

from regauge.digests import digest_of
from regauge.errors import UsageError
from regauge.judges._answer import Answer, Expected
from regauge.judges._evidence import quote
from regauge.judges._path import MISSING, Missing, parse_path
from regauge.judges._types import NO_ANSWER, Verdict, failed, passed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from regauge.datasets import GoldenCase
    from regauge.digests import JSON
    from regauge.judges._advice_kinds import Criterion
    from regauge.providers import Completion

__all__ = [
    "Check",
    "Rule",
    "RuleFactory",
    "first_sentence",
    "form_of",
    "negated",
    "on_answer",
    "on_text",
    "rule",
]

P = ParamSpec("P")
Check = Callable[[Answer], Verdict]


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
    """

    kind: str
    params: Mapping[str, JSON]
    name: str
    digest: str
    examine: Check
    description: str = ""
    parts: tuple[Rule, ...] = ()
    instruction: str = ""

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
    def criterion(self) -> Criterion:
        """What kind of quality it is about: `format` for shape and length, and so on."""
        from regauge.judges._advice import criterion_of

        return criterion_of(self)

    def __invert__(self) -> Rule:
        """`~rule` is its negation."""
        return negated(self)

    def __repr__(self) -> str:
        return f"<Rule {self.name}>"


class RuleFactory(Generic[P]):
    """Makes rules of one kind; call it with the rule's parameters.

    Attributes:
        kind: The name of the rule.
        codes: The stable words its failures carry.
        group: The chapter of the reference it stands in.
        build: The function that takes the parameters and returns the check.
    """

    def __init__(
        self, build: Callable[P, Check], *, codes: Sequence[str], version: int, group: str
    ) -> None:
        self.kind = build.__name__.rstrip("_")
        self.codes = tuple(codes)
        self.group = group
        self.build = build
        self._version = version
        functools.update_wrapper(self, build)

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        """The parameters, with their defaults."""
        return inspect.signature(self.build)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Rule:
        """Make a rule.

        Raises:
            UsageError: A parameter makes no sense.
        """
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise UsageError(f"{self.kind}: {error}\n  it takes {self.kind}{self.form}") from None
        examine = self.build(*args, **kwargs)
        name = _name(self.kind, bound)
        bound.apply_defaults()
        params: dict[str, JSON] = {
            key: plain(value, of=self.kind) for key, value in bound.arguments.items()
        }
        try:
            digest = digest_of({"kind": self.kind, "version": self._version, "params": params})
        except ValueError as error:
            raise UsageError(f"{self.kind}: a parameter is no JSON value: {error}") from None
        return Rule(
            kind=self.kind,
            params=params,
            name=name,
            digest=digest,
            examine=examine,
            description=first_sentence(self.build.__doc__),
            parts=tuple(_rules_in(tuple(bound.arguments.values()))),
        )

    @functools.cached_property
    def form(self) -> str:
        """The parameters as one writes them, without types."""
        return form_of(self.signature)


def form_of(signature: inspect.Signature) -> str:
    """A signature without types."""
    bare = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
    ]
    return str(inspect.Signature(bare))


def rule(
    *, codes: Sequence[str] = (), version: int = 1
) -> Callable[[Callable[P, Check]], RuleFactory[P]]:
    """Turn a function from parameters to a check into a kind of rule.

    Args:
        codes: The stable words for its failures, besides those of a missing text or field.
        version: Raised whenever the rule may judge an answer differently than before.
    """

    def wrap(build: Callable[P, Check]) -> RuleFactory[P]:
        group = build.__module__.rpartition(".")[2].lstrip("_")
        return RuleFactory(build, codes=codes, version=version, group=group)

    return wrap


def plain(value: object, *, of: str) -> JSON:  # noqa: PLR0911 - one per type
    """A parameter as JSON, for digests and reports.

    Raises:
        UsageError: The parameter is of a type that no rule takes.
    """
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Expected():
            return {"expected": value.path}
        case Missing():
            return {"default": True}
        case Rule():
            return {"judge": value.kind, "name": value.name, "digest": value.digest}
        case PurePath():
            return value.as_posix()
        case Mapping():
            pairs = cast("Mapping[object, object]", value).items()
            if any(isinstance(key, Rule) for key, _ in pairs):
                return [{"of": plain(key, of=of), "is": plain(part, of=of)} for key, part in pairs]
            return {str(key): plain(part, of=of) for key, part in pairs}
        case list() | tuple():
            return [plain(part, of=of) for part in cast("Sequence[object]", value)]
        case set() | frozenset():
            parts = cast("AbstractSet[object]", value)
            return sorted((plain(part, of=of) for part in parts), key=str)
        case _:
            raise UsageError(f"{of}: a parameter cannot be a {type(value).__name__}: {value!r}")


def _rules_in(value: object) -> Iterator[Rule]:
    match value:
        case Rule():
            yield value
        case Mapping():
            for key, part in cast("Mapping[object, object]", value).items():
                yield from _rules_in((key, part))
        case list() | tuple():
            for part in cast("Sequence[object]", value):
                yield from _rules_in(part)
        case _:
            pass


def first_sentence(doc: str | None) -> str:
    """The first line of a docstring."""
    return (doc or "").strip().partition("\n")[0].strip()


def _name(kind: str, bound: inspect.BoundArguments) -> str:
    words: list[str] = []
    for key, value in bound.arguments.items():
        parameter = bound.signature.parameters[key]
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            words.extend(_word(part) for part in value)
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            words.extend(f"{name}={_word(part)}" for name, part in value.items())
        elif value != parameter.default or isinstance(value, bool) != isinstance(
            parameter.default, bool
        ):
            keyword = parameter.kind is inspect.Parameter.KEYWORD_ONLY
            words.append(f"{key}={_word(value)}" if keyword else _word(value))
    return f"{kind}({', '.join(words)})" if words else kind


def _word(value: object) -> str:  # noqa: PLR0911 - one per type
    match value:
        case Rule():
            return value.name
        case str() if value.replace("_", "").replace("-", "").replace(".", "").isalnum():
            return value if len(value) <= 40 else quote(value, 40)  # noqa: PLR2004 - a line's share
        case str():
            return quote(value, 40)
        case Mapping():
            return "{…}" if value else "{}"
        case list() | tuple():
            parts = cast("Sequence[object]", value)
            shown = ", ".join(_word(part) for part in parts[:3])
            return f"[{shown}{', …' if len(parts) > 3 else ''}]"  # noqa: PLR2004
        case PurePath():
            return value.name
        case _:
            return str(value)


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
            return failed(f"field {field!r} is null", code="null_field", details={"field": field})
        return check(found)

    return part


def on_text(field: str | None, check: Callable[[str], Verdict]) -> Check:
    """`on_answer`, for a check that needs the text alone."""

    def text_only(answer: Answer) -> Verdict:
        text = answer.text
        return check(text) if text is not None else answer.nothing()

    return text_only if field is None else on_answer(field, text_only)


def negated(judge: Rule) -> Rule:
    """The rule that passes when another fails, and fails when it passes.

    An answer without any text fails both: there is nothing to judge. An abstention stays one.
    """
    code = f"not_{judge.kind}"

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

    digest = digest_of({"kind": "not", "version": 1, "params": {"judge": judge.digest}})
    described = f"Must not hold: {judge.description}" if judge.description else ""
    return Rule(
        kind=code,
        params={"judge": plain(judge, of="not_")},
        name=f"not {judge.name}",
        digest=digest,
        examine=check,
        description=described,
        parts=(judge,),
    )
