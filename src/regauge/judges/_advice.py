"""Instructions for a prompt so that a rule passes, made of the templates of each rule."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from regauge.criteria import Criterion
    from regauge.digests import JSON
    from regauge.judges._rule import AdviceTemplate, Rule
    from regauge.judges._rule_factory import RuleFactory

__all__ = ["advice_of", "criterion_of"]

_SLOT = re.compile(r"\{(\w+)(?::(\w+))?\}")
_MARKED = re.compile(r"\{\{\s*[\w.-]+\s*\}\}")
_ONE = re.compile(r"(?<= )(1 (?:tool )?[a-z]+)s\b")
_WHETHER = re.compile(r"(?:whether|if)\s+", re.IGNORECASE)


class _CaseOnlyError(Exception):
    """What is wanted is in the golden cases, so a prompt cannot say it."""


class _EmptyError(Exception):
    """A parameter that was left out, with the sentence about it."""


def advice_of(judge: Rule, *, field: str | None = None, negated: bool = False) -> str:
    """The instruction a prompt should hold for a rule; empty where there is none to give.

    It is made of the rule's kind and parameters alone, never of a case, so that it gives no
    expected value away.

    Args:
        judge: The rule.
        field: The field the rule is applied to by another rule.
        negated: What the prompt should say for the rule to fail.
    """
    if judge.instruction:
        return "" if negated else judge.instruction
    combined = _COMBINED.get(judge.kind) or (_not if judge.kind.startswith("not_") else None)
    if combined is not None and judge.parts:
        return combined(judge, field, negated)
    if judge.kind == "function":
        return "" if negated else _as_order(judge.description)
    if judge.kind == "string":
        return _string(judge, negated)
    if judge.template is None:
        return ""
    params = dict(judge.params) if field is None else {**judge.params, "field": field}
    return fill_template(judge.template, params, negated=negated)


def criterion_of(judge: Rule) -> Criterion:
    """What a rule is about; one made of several goes by them, where they agree."""
    if judge.about is not None:
        return judge.about
    if judge.template is not None:
        return judge.template.criterion
    kinds: set[Criterion] = {criterion_of(part) for part in judge.parts}
    return kinds.pop() if len(kinds) == 1 else "correctness"


def _as_order(text: str) -> str:
    """What a function's docstring says it looks at, as something to be done.

    >>> _as_order("Whether the answer names the alert")
    'The answer names the alert.'
    """
    said = _WHETHER.sub("", text, count=1) if _WHETHER.match(text) else text
    if not said:
        return ""
    return said[0].upper() + said[1:] + ("" if said[-1] in ".!?" else ".")


def fill_template(template: AdviceTemplate, params: Mapping[str, JSON], *, negated: bool) -> str:
    """The instruction of a rule with these parameters; empty where there is none to give."""
    text = template.denied if negated else template.wanted
    sentences: list[str] = []
    for place, sentence in enumerate(text.split(" | ")):
        try:
            sentences.append(_filled(sentence, params))
        except _CaseOnlyError:
            return ""
        except _EmptyError:
            if place == 0:
                return ""
    return " ".join(filter(None, sentences))


def _filled(sentence: str, params: Mapping[str, JSON]) -> str:
    filled = _SLOT.sub(lambda slot: _value(slot[1], slot[2] or "", params), sentence)
    filled = _ONE.sub(r"\1", filled)
    return filled[:1].upper() + filled[1:]


def _value(name: str, form: str, params: Mapping[str, JSON]) -> str:
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
    if form in _EVEN_EMPTY:
        return _EVEN_EMPTY[form](value)
    if value is None or value in ("", []):
        raise _EmptyError
    return _FORMS[form](value)


def _bounds(params: Mapping[str, JSON], *, outside: bool) -> str:
    least, most = params.get("at_least"), params.get("at_most")
    exactly = params.get("exactly")
    if exactly is not None:
        return f"more or fewer than {exactly}" if outside else f"exactly {exactly}"
    words = ("fewer than", "more than") if outside else ("at least", "at most")
    said = [f"{word} {n}" for word, n in zip(words, (least, most), strict=True) if n is not None]
    if not said:
        raise _EmptyError
    return (" or " if outside else " and ").join(said)


def _listing(last: str, mark: str) -> Callable[[JSON], str]:
    """A list in words, each part between marks."""

    def written(value: JSON) -> str:
        many = isinstance(value, Sequence) and not isinstance(value, str)
        parts = [
            _shown(part, mark) for part in (cast("Sequence[JSON]", value) if many else [value])
        ]
        return f" {last} ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))

    return written


def _shown(value: JSON, mark: str) -> str:
    import json

    if isinstance(value, Mapping) and set(value) & {"expected", "default"}:
        raise _CaseOnlyError
    if not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if _MARKED.search(value):  # it would be an input of the prompt
        raise _CaseOnlyError
    return f"{mark}{' '.join(value.split())}{mark}"


def _keys_of(value: JSON) -> str:
    """The keys of a JSON Schema, those that are required first."""
    if not isinstance(value, Mapping):
        raise _EmptyError
    required, known = value.get("required"), value.get("properties")
    names = [str(name) for name in required] if isinstance(required, list) else []
    if isinstance(known, Mapping):
        names += [name for name in known if name not in names]
    if not names:
        raise _EmptyError
    return _listing("and", "`")([*names])


def _choice(value: JSON) -> str:
    """One text, or one of several."""
    several = isinstance(value, Sequence) and not isinstance(value, str) and len(value) > 1
    return ("one of " if several else "") + _listing("or", '"')(value)


def _plural(value: JSON) -> str:
    """The ending of the noun before a list."""
    return "s" if isinstance(value, Sequence) and len(value) > 1 else ""


def _arguments(value: JSON) -> str:
    """Arguments of a call, as `name is value`."""
    if not isinstance(value, Mapping):
        raise _EmptyError
    return _listing("and", "")([f"{key} is {_shown(part, chr(34))}" for key, part in value.items()])


def _calls(value: JSON) -> str:
    """Calls of tools with their arguments."""
    described: list[JSON] = []
    for part in cast("Sequence[JSON]", value):
        name, args = (part["name"], part.get("args")) if isinstance(part, Mapping) else (part, None)
        described.append(f"`{name}`" + (f" ({_arguments(args)})" if args else ""))
    return _listing("and", "")(described)


_FORMS: Mapping[str, Callable[[JSON], str]] = {
    "": str,
    "bare": _listing("and", ""),
    "choice": _listing("or", ""),
    "code": _listing("and", "`"),
    "and": _listing("and", '"'),
    "or": _listing("or", '"'),
    "one": _choice,
    "s": _plural,
    "keys": _keys_of,
    "args": _arguments,
    "calls": _calls,
}


def _flag(value: JSON) -> str:
    """Nothing to be said, but only where it is so."""
    if value is not True:
        raise _EmptyError
    return ""


def _hosts(before: str) -> Callable[[JSON], str]:
    return lambda hosts: f"{before}{_listing('or', '')(hosts)}" if hosts else ""


_EVEN_EMPTY: Mapping[str, Callable[[JSON], str]] = {
    "flag": _flag,
    "json": lambda kind: str(kind or "value"),
    "level": lambda level: f" of level {level}" if level else "",
    "except": _hosts(" except of "),
    "besides": _hosts(" of another host than "),
}


def _not(judge: Rule, field: str | None, negated: bool) -> str:  # noqa: FBT001 - a table's row
    return advice_of(judge.parts[0], field=field, negated=not negated)


def _every(judge: Rule, field: str | None, negated: bool) -> str:  # noqa: FBT001
    """All parts at once; to deny it, one of them is to be denied."""
    said = [advice_of(part, field=field, negated=negated) for part in judge.parts]
    return _either(said) if negated else " ".join(filter(None, said))


def _some(judge: Rule, field: str | None, negated: bool) -> str:  # noqa: FBT001
    said = [advice_of(part, field=field, negated=negated) for part in judge.parts]
    return " ".join(filter(None, said)) if negated else _either(said)


def _several(judge: Rule, field: str | None, negated: bool) -> str:  # noqa: FBT001
    said = [advice_of(part, field=field) for part in judge.parts]
    if not all(said):
        return ""
    least = (
        f"fewer than {judge.params.get('k')}" if negated else f"at least {judge.params.get('k')}"
    )
    return f"Do {least} of the following. {' '.join(said)}"


def _in_field(judge: Rule, field: str | None, negated: bool) -> str:  # noqa: FBT001
    path = judge.params.get("path")
    inner = str(path) if path else field
    return advice_of(judge.parts[0], field=inner, negated=negated)


def _in_fence(judge: Rule, field: str | None, negated: bool) -> str:  # noqa: FBT001
    inner = advice_of(judge.parts[0], field=field, negated=negated)
    languages = judge.params.get("languages")
    named = f" marked {_listing('or', '`')(languages)}" if languages else ""
    inner = inner.replace(", no Markdown", "").replace(", no code fence", "")
    return f"Put it into a code fence{named}. {inner}".rstrip()


def _either(said: Sequence[str]) -> str:
    if not all(said):
        return ""
    return said[0] if len(said) == 1 else f"Do one of the following. {' Or: '.join(said)}"


def _string(judge: Rule, negated: bool) -> str:  # noqa: FBT001
    """The `string` evaluator of prompt files; a template of the case's values says nothing."""
    from regauge.judges.rules._text import contains, ends_with, equals, starts_with

    made: Mapping[str, RuleFactory[...]] = {
        "equals": equals, "contains": contains, "startsWith": starts_with, "endsWith": ends_with,
    }  # fmt: skip
    sentences: list[str] = []
    for key, value in judge.params.items():
        template = made[key].template if key in made else None
        if template is not None:
            params = {"text": value, "texts": [value], "value": value}
            sentences.append(fill_template(template, params, negated=negated))
    return " ".join(filter(None, sentences))


_COMBINED: Mapping[str, Callable[[Rule, str | None, bool], str]] = {
    "all_of": _every,
    "any_of": _some,
    "at_least": _several,
    "weighted": _every,
    "field": _in_field,
    "in_fence": _in_fence,
}
