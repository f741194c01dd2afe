"""Judges by name, for YAML files and the command line, and their descriptions."""

from __future__ import annotations

import functools
import inspect
import pkgutil
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from regauge.errors import UsageError
from regauge.judges._rule import Rule, negate, negated_digest
from regauge.judges._rule_factory import RuleFactory, form_of, rule_digest, split_sections
from regauge.judges.output import READING_VERSION, Expected
from regauge.judges.rules._combine import not_
from regauge.on_demand import (
    GROUPS,
    install_command,
    load_point,
    load_points,
    registered_points,
)
from regauge.strict_json import as_list, is_sequence
from regauge.wording import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable

    from regauge.digests import JSON
    from regauge.judges._types import Judge, UnboundJudge
    from regauge.prompts import Prompt


# Kinds of judges that are not rules, so in no `__all__` of the rules; add a new one here.
_OTHER_KINDS = """
as_judge command_judge deepeval each_turn http_judge in_turn means_like pairwise panel rubric
verified_claims
"""


@functools.cache
def _builtin_rules() -> Mapping[str, RuleFactory[...]]:
    import regauge.judges
    from regauge.judges import ifeval

    members = [
        getattr(module, name) for module in (regauge.judges, ifeval) for name in module.__all__
    ]
    return {factory.kind: factory for factory in members if isinstance(factory, RuleFactory)}


@functools.cache
def judge_kinds() -> Mapping[str, Callable[..., Judge | UnboundJudge]]:
    """All built-in kinds of judges by name."""
    import regauge.judges

    others_by_name = {name: getattr(regauge.judges, name) for name in _OTHER_KINDS.split()}
    return {**_builtin_rules(), "not": not_, **others_by_name}


def registered_judges() -> tuple[
    Mapping[str, Callable[..., Judge | UnboundJudge]], Sequence[UsageError]
]:
    """The judges of other packages by name, and the errors of those that cannot be loaded."""
    return load_points(registered_points(GROUPS["judge"]).values(), "judge")


def rule_versions() -> Mapping[str, int]:
    """The versions of built-in rules beyond version 1, by name."""
    return {
        kind: factory.version for kind, factory in _builtin_rules().items() if factory.version > 1
    }


def changed_rule(judge: object, digest: str, versions: Mapping[str, int]) -> str:
    """The built-in rule whose new version changed the digest of a judge; else empty.

    Args:
        judge: The current judge.
        digest: The earlier digest.
        versions: The earlier `check_versions`.
    """
    from regauge.judges._case_checks import changed_rules, is_case_checks

    if is_case_checks(judge):
        return changed_rules(judge, digest, versions)
    if not isinstance(judge, Rule):
        return ""
    negation = judge.kind.startswith("not_") and len(judge.parts) == 1
    judge = judge.parts[0] if negation else judge
    factory = _builtin_rules().get(judge.kind)
    for version in range(1, factory.version + 1 if factory else 0):
        for reading in range(1, READING_VERSION + 1):
            before = rule_digest(judge.kind, judge.params, version=version, reading=reading)
            if factory and digest == (negated_digest(before) if negation else before):
                now = f"{factory.version}.{READING_VERSION}"
                return f"{judge.kind} (version {version}.{reading}, now {now})"
    return ""


def judge_from_spec(spec: JSON) -> Judge | UnboundJudge:
    """Build a judge from its specification in a YAML file.

    A judge is its name, or a mapping of its name to its parameters: a value for the first one, a
    list for the first ones, or a mapping by name. `not` negates; `all_of`, `any_of` and `at_least`
    take judges; `{expected: path}` is a value of the case's `expected`.

    Raises:
        UsageError: There is no such judge, or its parameters are invalid.

    >>> judge_from_spec({"max_words": {"n": 40, "field": "reason"}}).name
    'max_words(40, field=reason)'
    >>> judge_from_spec({"not": {"contains": "TODO"}}).name
    'not contains(TODO)'
    """
    name, value = _split_spec(spec)
    if name == "not":
        inner = judge_from_spec(value)
        if not isinstance(inner, Rule):
            raise UsageError(
                f"not: only rules can be negated, and {_split_spec(value)[0]!r} is none"
            )
        return negate(inner)
    kind = _kind(name)
    positional, keywords = _arguments(kind, value)
    try:
        return kind(*positional, **keywords)
    except (TypeError, AttributeError) as error:
        wrong_type = isinstance(error, AttributeError)
        reason = "a parameter is of a type that it does not take" if wrong_type else error
        signature = _signature(kind) or inspect.Signature()
        unknown = next((key for key in keywords if key not in signature.parameters), "")
        hint = did_you_mean(unknown, signature.parameters) if unknown else ""
        usage = f"\n  it takes {name}{form_of(signature)}" if signature.parameters else ""
        raise UsageError(f"{name}: {reason}{'; ' + hint if hint else ''}{usage}") from error


def _split_spec(spec: JSON) -> tuple[str, JSON]:
    if isinstance(spec, str):
        return spec, None
    if isinstance(spec, Mapping) and len(spec) == 1:
        return next(iter(spec.items()))
    raise UsageError(
        f"not a judge: {spec!r}\n  write its name, or its name with parameters: "
        "{max_words: 40} or {max_words: {n: 40, field: reason}}"
    )


def _kind(name: str) -> Callable[..., Judge | UnboundJudge]:
    kinds = judge_kinds()
    if name in kinds:
        return kinds[name]
    points = registered_points(GROUPS["judge"])
    if name in points:  # no other one: it may be broken
        return cast("Callable[..., Judge | UnboundJudge]", load_point(points[name], "judge"))
    hint = did_you_mean(name, [*kinds, *points]) or "`regauge judges list` lists them"
    raise UsageError(f"no judge {name!r}; {hint}")


def _arguments(
    kind: Callable[..., Judge | UnboundJudge], document: JSON
) -> tuple[list[Any], dict[str, Any]]:
    """The positional and keyword arguments of a kind of judge."""
    if document is None:
        return [], {}
    signature = _signature(kind)
    parameters = list(signature.parameters.values()) if signature else []
    if isinstance(document, Mapping) and not _is_expected(document):
        return _keyword_arguments(parameters, document)
    first = [part for part in parameters if part.kind is not part.KEYWORD_ONLY]
    if not is_sequence(document):
        return [_parameter(first[0].name if first else "", document)], {}
    only = first and first[0].kind is first[0].POSITIONAL_OR_KEYWORD
    if only and (len(first) == 1 or first[0].name == "judges"):
        return [_parameter(first[0].name, document)], {}
    names = [part.name for part in first]
    return [
        _parameter(names[min(place, len(names) - 1)] if names else "", value)
        for place, value in enumerate(document)
    ], {}


def _signature(kind: object) -> inspect.Signature | None:
    """The parameters of a kind of judge; None for a C function without a signature."""
    if isinstance(kind, RuleFactory):
        return kind.signature
    try:
        return inspect.signature(kind) if callable(kind) else None
    except (TypeError, ValueError):
        return None


def _keyword_arguments(
    parameters: Sequence[inspect.Parameter], pairs: Mapping[str, JSON]
) -> tuple[list[Any], dict[str, Any]]:
    # With a `file`, `function` is a name; otherwise the imported function.
    of_file = any(part.name == "file" for part in parameters)
    keywords: dict[str, Any] = {
        key: _parameter("" if of_file and key == "function" else key, value)
        for key, value in pairs.items()
    }
    several = next((part for part in parameters if part.kind is part.VAR_POSITIONAL), None)
    if several is None or several.name not in keywords:
        return [], keywords
    values = keywords.pop(several.name)
    before = [
        keywords.pop(part.name)
        for part in parameters
        if part.kind is part.POSITIONAL_OR_KEYWORD and part.name in keywords
    ]
    return [*before, *as_list(values)], keywords


def _parameter(name: str, value: JSON) -> Any:
    """Convert the value of a parameter; some parameters are judges."""
    match name:
        case "judge":
            return judge_from_spec(value)
        case "judges" if is_sequence(value):
            return [judge_from_spec(part) for part in value]
        case "judges":
            return judge_from_spec(value)
        case "function" if isinstance(value, str):
            return _function(value)
        case "weights" if is_sequence(value):
            return dict(map(_weighted, value))
        case _:
            return _value(value)


def _function(name: str) -> object:
    """Import the function `package.module:function`.

    Raises:
        UsageError: It cannot be imported.
    """
    if ":" not in name:
        fix = "write package.module:function"
        raise UsageError(f"as_judge: {name!r} does not name a function", fix=fix)
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
    """Convert `{expected: path}` to a placeholder, at any depth."""
    if isinstance(value, Mapping):
        if _is_expected(value):
            return Expected(str(value["expected"]))
        return {key: _value(part) for key, part in value.items()}
    if is_sequence(value):
        return [*map(_value, value)]
    if isinstance(value, str) and (call := re.fullmatch(r"expected\((['\"]?)(.*)\1\)", value)):
        path = call[2] or '""'
        raise UsageError(f"{value!r} is a text here\n  fix: write {{expected: {path}}}")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterDescription:
    """One parameter of a judge.

    Attributes:
        default: The default in Python; empty without one.
        text: The description.
    """

    name: str
    default: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeDescription:
    """One kind of judge.

    Attributes:
        group: Its group in the reference.
        form: The parameters, without types.
        summary: One sentence.
        text: The rest of the description.
        criterion: The criterion; empty if that depends on its parts.
        codes: The codes of its failures.
        install: The command that installs the required extra; empty for none.
        example: An example as a Python session.
    """

    name: str
    group: str
    form: str
    summary: str
    text: str
    parameters: tuple[ParameterDescription, ...]
    criterion: str
    codes: tuple[str, ...]
    install: str
    example: str


_ARGUMENT = re.compile(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)


def describe(name: str, kind: object) -> JudgeDescription:
    """Describe a kind of judge, by its signature and docstring."""
    build = getattr(kind, "build", kind)
    doc, _ = split_sections(inspect.getdoc(build) or "")
    body, _, example = doc.partition("\n>>> ")
    text, _, arguments = body.partition("\nArgs:\n")
    summary, _, rest = text.partition("\n")
    texts = {match[1]: " ".join(match[2].split()) for match in _ARGUMENT.finditer(arguments)}
    factory = kind if isinstance(kind, RuleFactory) else None
    signature = _signature(kind)
    parameters = [
        ParameterDescription(
            name="*" * (parameter.kind is parameter.VAR_POSITIONAL) + parameter.name,
            default="" if parameter.default is parameter.empty else repr(parameter.default),
            text=texts.get(parameter.name, ""),
        )
        for parameter in (signature.parameters.values() if signature else ())
    ]
    package, _, module = str(getattr(build, "__module__", "")).rpartition(".")
    module = module.lstrip("_")
    return JudgeDescription(
        name=name,
        group=_GROUPS.get(module, module) if package.startswith("regauge.") else "installed",
        form=form_of(signature) if signature else "(...)",
        summary=summary.strip(),
        text=rest.strip(),
        parameters=tuple(parameters),
        criterion=(factory.about if factory else None) or "",
        codes=factory.codes if factory else (),
        install=install_command(factory.required_module)
        if factory and factory.required_module
        else "",
        example=f">>> {example}".strip() if example else "",
    )


_GROUPS = {
    "claims": "model",
    "deepeval": "model",
    "function": "external",
    "panel": "model",
    "promptfoo": "external",
    "rubric": "model",
    "semantic": "similarity",
}


def with_prompt_schema(judge: Rule, prompt: Prompt | None) -> Rule:
    """Add the prompt's schema to `json_matches_schema()`; return any other rule unchanged.

    Raises:
        UsageError: There is no schema.
    """
    if judge.kind != "json_matches_schema" or judge.params["schema"] is not None:
        return judge
    schema = prompt.output_schema if prompt is not None else None
    if not isinstance(schema, Mapping):
        problem = (
            f"{prompt.name} has no `jsonSchema`" if prompt is not None else "no prompt is judged"
        )
        raise UsageError(
            f"json_matches_schema() has no schema: {problem}\n"
            "  fix: add `responseFormat: json_schema` and `jsonSchema` to the prompt file, or name"
            " the schema: json_matches_schema('schema.json')"
        )
    from regauge.judges.rules._json import json_matches_schema

    params = judge.params
    bound = json_matches_schema(
        schema, formats=bool(params["formats"]), field=cast("str | None", params["field"])
    )
    return replace(judge, params=bound.params, digest=bound.digest, examine=bound.examine)
