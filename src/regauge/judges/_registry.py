"""Judges by name: what YAML files and the command line ask for."""

from __future__ import annotations

import functools
import inspect
import pkgutil
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from regauge.errors import UsageError
from regauge.judges._answer import READING, Expected
from regauge.judges._rule import Rule, negated, negated_digest
from regauge.judges._rule_factory import RuleFactory, form_of, rule_digest
from regauge.judges.rules._combine import not_
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable

    from regauge.digests import JSON
    from regauge.judges._asking import UnboundJudge
    from regauge.judges._types import Judge

__all__ = ["ENTRY_POINTS", "changed_rule", "judge_from_spec", "judge_kinds", "rule_versions"]

_CALLING = (
    "as_judge",
    "command_judge",
    "deepeval",
    "each_turn",
    "http_judge",
    "in_turn",
    "means_like",
    "pairwise",
    "panel",
    "rubric",
    "verified_claims",
)
ENTRY_POINTS = "regauge.judges"
"""The entry point group in which other packages register judges."""


@functools.cache
def _own() -> Mapping[str, RuleFactory[...]]:
    import regauge.judges
    from regauge.judges import ifeval

    made = [getattr(module, name) for module in (regauge.judges, ifeval) for name in module.__all__]
    return {factory.kind: factory for factory in made if isinstance(factory, RuleFactory)}


@functools.cache
def _calling() -> Mapping[str, Callable[..., Judge | UnboundJudge]]:
    """The judges that call a function, a model, a program or a web service."""
    import regauge.judges

    return {name: getattr(regauge.judges, name) for name in _CALLING}


def judge_kinds(*, installed: bool = True) -> Mapping[str, Callable[..., Judge | UnboundJudge]]:
    """Every kind of judge by name: those of regauge, and those other packages register.

    Args:
        installed: Look for those of other packages too, which reads their metadata.

    Raises:
        UsageError: A registered judge cannot be loaded.
    """
    kinds: dict[str, Callable[..., Judge | UnboundJudge]] = {**_own(), "not": not_, **_calling()}
    if not installed:
        return kinds
    from importlib.metadata import entry_points

    for point in entry_points(group=ENTRY_POINTS):
        try:
            loaded: Callable[..., Judge | UnboundJudge] = point.load()
        except (ImportError, AttributeError) as error:
            raise UsageError(
                f"judge {point.name!r} ({point.value}) cannot be loaded: {error}"
            ) from error
        kinds.setdefault(point.name, loaded)
    return kinds


def rule_versions() -> Mapping[str, int]:
    """The versions of those of regauge's rules that are no longer at their first, by name."""
    return {kind: made.version for kind, made in _own().items() if made.version > 1}


def changed_rule(judge: object, digest: str) -> str:
    """The rule of regauge that once gave a judge this digest, with both versions; else empty.

    Only what regauge changed differs then: the rule is declared as before.
    """
    if not isinstance(judge, Rule):
        return ""
    negation = judge.kind.startswith("not_") and len(judge.parts) == 1
    judge = judge.parts[0] if negation else judge
    made = _own().get(judge.kind)
    for version in range(1, made.version + 1 if made else 0):
        for reading in range(1, READING + 1):
            before = rule_digest(judge.kind, judge.params, version=version, reading=reading)
            if made and digest == (negated_digest(before) if negation else before):
                return f"{judge.kind} (version {version}.{reading}, now {made.version}.{READING})"
    return ""


def judge_from_spec(spec: JSON) -> Judge | UnboundJudge:
    """Make a judge of what a YAML file says.

    A judge is its name, or a mapping of its name to its parameters: one value for the first of
    them, a list for the first ones, a mapping by name. `not` negates; `all_of`, `any_of` and
    `at_least` take judges; `{expected: path}` stands for a value of the case's `expected`.

    Raises:
        UsageError: There is no such judge, or its parameters make no sense.

    >>> judge_from_spec({"max_words": {"n": 40, "field": "reason"}}).name
    'max_words(40, field=reason)'
    >>> judge_from_spec({"not": {"contains": "TODO"}}).name
    'not contains(TODO)'
    """
    name, given = _named(spec)
    if name == "not":
        inner = judge_from_spec(given)
        if not isinstance(inner, Rule):
            raise UsageError(f"not: only rules can be negated, and {_named(given)[0]!r} is none")
        return negated(inner)
    kind = _kind(name)
    positional, keywords = _arguments(kind, given)
    try:
        return kind(*positional, **keywords)
    except TypeError as error:
        signature = _signature(kind)
        unknown = next((key for key in keywords if key not in signature.parameters), "")
        hint = did_you_mean(unknown, signature.parameters) if unknown else ""
        takes = f"\n  it takes {name}{form_of(signature)}" if signature.parameters else ""
        raise UsageError(f"{name}: {error}{'; ' + hint if hint else ''}{takes}") from error


def _named(spec: JSON) -> tuple[str, JSON]:
    if isinstance(spec, str):
        return spec, None
    if isinstance(spec, Mapping) and len(spec) == 1:
        return next(iter(spec.items()))
    raise UsageError(
        f"not a judge: {spec!r}\n  write its name, or its name with parameters: "
        "{max_words: 40} or {max_words: {n: 40, field: reason}}"
    )


def _kind(name: str) -> Callable[..., Judge | UnboundJudge]:
    own: Callable[..., Judge | UnboundJudge] | None = _own().get(name) or _calling().get(name)
    if own is not None:
        return own
    kinds = judge_kinds()
    if name in kinds:
        return kinds[name]
    hint = did_you_mean(name, kinds) or "`regauge judges` lists them"
    raise UsageError(f"no judge {name!r}; {hint}")


def _arguments(
    kind: Callable[..., Judge | UnboundJudge], given: JSON
) -> tuple[list[Any], dict[str, Any]]:
    """What a kind of judge is called with."""
    if given is None:
        return [], {}
    parameters = list(_signature(kind).parameters.values())
    if isinstance(given, Mapping) and not _is_expected(given):
        return _by_name(parameters, given)
    first = [part for part in parameters if part.kind is not part.KEYWORD_ONLY]
    if isinstance(given, str) or not isinstance(given, Sequence):
        return [_parameter(first[0].name if first else "", given)], {}
    if first and first[0].kind is first[0].POSITIONAL_OR_KEYWORD:
        if first[0].name == "judges":
            return [_parameter("judges", given)], {}
        if len(first) == 1:
            return [_value(given)], {}
    names = [part.name for part in first]
    return [
        _parameter(names[min(place, len(names) - 1)] if names else "", value)
        for place, value in enumerate(given)
    ], {}


def _signature(kind: Callable[..., Judge | UnboundJudge]) -> inspect.Signature:
    if isinstance(kind, RuleFactory):
        return kind.signature
    try:
        return inspect.signature(kind)
    except (TypeError, ValueError):  # written in C: it says nothing of its parameters
        return inspect.Signature()


def _by_name(
    parameters: Sequence[inspect.Parameter], given: Mapping[str, JSON]
) -> tuple[list[Any], dict[str, Any]]:
    named: dict[str, Any] = {key: _parameter(key, value) for key, value in given.items()}
    several = next((part for part in parameters if part.kind is part.VAR_POSITIONAL), None)
    if several is None or several.name not in named:
        return [], named
    values = named.pop(several.name)
    before = [
        named.pop(part.name)
        for part in parameters
        if part.kind is part.POSITIONAL_OR_KEYWORD and part.name in named
    ]
    many = isinstance(values, Sequence) and not isinstance(values, str)
    return [*before, *(values if many else [values])], named


def _parameter(name: str, value: JSON) -> Any:
    """A parameter by its name: some are judges themselves."""
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    match name:
        case "judge":
            return judge_from_spec(value)
        case "judges" if is_list:
            return [judge_from_spec(part) for part in cast("Sequence[JSON]", value)]
        case "judges":
            return judge_from_spec(value)
        case "function" if isinstance(value, str):
            return _function(value)
        case "weights" if is_list:
            return dict(_weighted(part) for part in cast("Sequence[JSON]", value))
        case _:
            return _value(value)


def _function(name: str) -> object:
    """The function that YAML names as `package.module:function`.

    Raises:
        UsageError: It cannot be imported.
    """
    if ":" not in name:
        raise UsageError(
            f"as_judge: {name!r} does not name a function\n  fix: write package.module:function"
        )
    try:
        return pkgutil.resolve_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(
            f"as_judge: {name!r} cannot be imported: {error}\n"
            "  fix: name a module of an installed package, or add its directory to `pythonpath`"
            " in the pytest settings"
        ) from error


def _weighted(part: JSON) -> tuple[Judge | UnboundJudge, JSON]:
    if not isinstance(part, Mapping) or set(part) != {"judge", "weight"}:
        raise UsageError(f"weighted: write {{judge: ..., weight: ...}}, not {part!r}")
    return judge_from_spec(part["judge"]), part["weight"]


def _is_expected(value: JSON) -> bool:
    return (
        isinstance(value, Mapping)
        and set(value) == {"expected"}
        and isinstance(value["expected"], str)
    )


def _value(value: JSON) -> Any:
    """A parameter in which `{expected: path}` is a value of the case, at any depth."""
    if isinstance(value, Mapping):
        if _is_expected(value):
            return Expected(str(value["expected"]))
        return {key: _value(part) for key, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_value(part) for part in value]
    return value
