"""JSON Schemas of users and models, with a time limit, and their formats."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from datetime import date, datetime, time
from fractions import Fraction
from functools import cache
from math import isfinite
from time import thread_time
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from regauge.errors import JudgeError, UsageError
from regauge.judges._types import Verdict, failed, passed, truncate_value
from regauge.judges.rules._text import compiled_pattern
from regauge.strict_json import is_sequence
from regauge.wording import quote

if TYPE_CHECKING:
    from regauge.digests import JSON


_DATE_TIME = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:\d{2})(?:\.\d+)?([Zz]|[+-]\d{2}:\d{2})"
)
_TIME = re.compile(r"(\d{2}:\d{2}:\d{2})(?:\.\d+)?([Zz]|[+-]\d{2}:\d{2})")
_DURATION = re.compile(
    r"P(?!$)(?:\d+W|(?:\d+Y)?(?:\d+M)?(?:\d+D)?(?:T(?=\d)(?:\d+H)?(?:\d+M)?(?:\d+S)?)?)"
)
_HOST = re.compile(
    r"(?=.{1,253}\Z)(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)*"
    r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
)
_EMAIL = re.compile(r"[^@\s\"(),:;<>\[\\\]]+@[^@\s\"(),:;<>\[\\\]]+")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`]*")
_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*")


def is_date_time(text: str) -> bool:
    """Return whether a text is a date and time of RFC 3339 with a zone.

    >>> is_date_time("2024-05-03T14:05:00Z"), is_date_time("2024-13-03T14:05:00Z")
    (True, False)
    """
    match = _DATE_TIME.fullmatch(text)
    return match is not None and _is_real_time(match[1], match[2], match[3])


def _is_time(text: str) -> bool:
    match = _TIME.fullmatch(text)
    return match is not None and _is_real_time("2000-01-01", match[1], match[2])


def _is_real_time(day: str, clock: str, zone: str) -> bool:
    # RFC 3339 has leap seconds and no hour 24; the standard library differs, the hour by version.
    if clock.startswith("24"):
        return False
    clock = clock[:-2] + "59" if clock.endswith("60") else clock
    try:
        date.fromisoformat(day)
        time.fromisoformat(clock)
        datetime.fromisoformat(f"{day}T{clock}{zone.upper().replace('Z', '+00:00')}")
    except ValueError:
        return False
    return True


def _is_uri(text: str) -> bool:
    try:
        return _URI.fullmatch(text) is not None and bool(urlsplit(text).scheme)
    except ValueError:
        return False


def _for_texts(check: Callable[[str], object]) -> Callable[[object], bool]:
    return lambda value: not isinstance(value, str) or bool(check(value))


_CHECKS: Mapping[str, Callable[[str], object]] = {
    "date-time": is_date_time,
    "time": _is_time,
    "duration": _DURATION.fullmatch,
    "hostname": _HOST.fullmatch,
    "email": _EMAIL.fullmatch,
    "uri": _is_uri,
    "json-pointer": _POINTER.fullmatch,
}


@functools.cache
def format_checker() -> Any:
    """Return a checker of the formats of draft 2020-12; other formats accept any text."""
    from jsonschema import Draft202012Validator, FormatChecker

    draft: Any = Draft202012Validator
    # Without names it has all checkers; they are replaced by a copy to leave those unchanged.
    checker: Any = FormatChecker(formats=())
    checker.checkers = dict(draft.FORMAT_CHECKER.checkers)
    for name, check in _CHECKS.items():
        checker.checks(name)(_for_texts(check))
    return checker


_LIMIT_S: Final = 1.0
"""The processor time limit for one value and one schema."""

_MESSAGE_CHARS: Final = 200
_RULE: Final = "json_matches_schema"
_deadline: Final[ContextVar[float]] = ContextVar("regauge_schema_deadline")


class _TooLongError(Exception):
    """The time limit was reached."""


def schema_validator(schema: JSON, *, formats: bool, kind: str = _RULE) -> Any:
    """Return a validator of a JSON Schema by its draft, by default 2020-12.

    Raises:
        UsageError: It is not a schema, or its draft is unknown.
    """
    import referencing
    from jsonschema.exceptions import SchemaError

    draft = _guarded_draft(_draft_of(schema, kind))
    try:
        draft.check_schema(schema, format_checker=_schema_formats(draft))
    except SchemaError as error:
        raise UsageError(
            f"{kind}: not a JSON Schema: {error.json_path}: {quote(error.message, _MESSAGE_CHARS)}"
        ) from error
    except RecursionError:
        raise UsageError(f"{kind}: not a JSON Schema: it is nested too deeply") from None
    checker = format_checker() if formats else None
    # An empty registry keeps the validator from fetching references over the network.
    empty: Any = referencing.Registry
    return draft(schema, format_checker=checker, registry=empty())


def schema_verdict(validator: Any, value: JSON) -> Verdict:
    """Validate a value against a schema; the reason has the path of the most relevant error.

    Raises:
        JudgeError: A reference cannot be resolved, or the schema takes too long.
    """
    import jsonschema.exceptions
    from referencing.exceptions import Unresolvable

    token = _deadline.set(thread_time() + _LIMIT_S)
    try:
        errors: Any = jsonschema.exceptions
        error = errors.best_match(validator.iter_errors(value))
    except Unresolvable as error:
        raise JudgeError(f"{_RULE}: a reference leads nowhere: {error}", judge=_RULE) from error
    except _TooLongError:
        raise JudgeError(
            f"{_RULE}: the schema took more than {_LIMIT_S:g} s of processor time on one output\n"
            "  fix: write its patterns without nested repetition, and fewer references in allOf,"
            " anyOf and oneOf",
            judge=_RULE,
        ) from None
    except RecursionError:
        return failed("nested too deeply for the schema", code="schema")
    finally:
        _deadline.reset(token)
    if error is None:
        return passed("satisfies the schema")
    message = error.message
    message = message if len(message) <= _MESSAGE_CHARS else quote(message, _MESSAGE_CHARS)
    return failed(
        f"{error.json_path}: {message}",
        code="schema",
        expected={str(error.validator): error.validator_value},
        actual=error.instance,
        details={"path": error.json_path, "keyword": str(error.validator)},
    )


_DRAFTS: Final = {
    "json-schema.org/draft-04/schema": "Draft4Validator",
    "json-schema.org/draft-06/schema": "Draft6Validator",
    "json-schema.org/draft-07/schema": "Draft7Validator",
    "json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "json-schema.org/draft/2020-12/schema": "Draft202012Validator",
    "json-schema.org/schema": "Draft202012Validator",
}


def _draft_of(schema: JSON, kind: str) -> str:
    """The name of the validator class for the `$schema` of a schema."""
    uri = schema.get("$schema") if isinstance(schema, Mapping) else None
    if uri is None:
        return "Draft202012Validator"
    draft = _DRAFTS.get(str(uri).partition("://")[2].rstrip("#"))
    if draft is None:
        raise UsageError(
            f"{kind}: unknown JSON Schema draft {uri!r}\n"
            f"  fix: set $schema to one of {', '.join(f'https://{uri}' for uri in _DRAFTS)}"
        )
    return draft


@cache
def _guarded_draft(name: str) -> Any:
    """Return a draft whose keywords and patterns have a time limit."""
    # The stubs of jsonschema have no dynamic schemas.
    draft: Any = getattr(importlib.import_module("jsonschema"), name)
    replacements: dict[str, Any] = {
        "multipleOf": _multiple_of,
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "unevaluatedProperties": _unevaluated_properties,
        "uniqueItems": _unique_items,
    }
    keywords: dict[str, Any] = {
        key: replacements.get(key, work) for key, work in draft.VALIDATORS.items()
    }
    validators: Any = importlib.import_module("jsonschema.validators")
    guarded = validators.extend(draft, {key: _within_time(work) for key, work in keywords.items()})
    evolve = guarded.evolve

    def evolve_guarded(self: Any, **changes: Any) -> Any:
        # For a part with `$schema`, jsonschema uses its own class without limits.
        evolved = evolve(self, **changes)
        drafts: Any = importlib.import_module("jsonschema")
        names = [key for key in _DRAFTS.values() if type(evolved) is getattr(drafts, key)]
        if not names:
            return evolved
        return _guarded_draft(names[0])(
            schema=evolved.schema,
            resolver=None,
            format_checker=evolved.format_checker,
            registry=evolved._registry,  # noqa: SLF001 - no public API copies one
            _resolver=evolved._resolver,  # noqa: SLF001
        )

    guarded.evolve = evolve_guarded
    return guarded


def _within_time(keyword: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
    def work(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        _left_s()
        yield from keyword(validator, value, instance, schema) or ()

    return work


def _left_s() -> float:
    """The remaining time, in seconds.

    Raises:
        _TooLongError: The time limit was reached.
    """
    left = _deadline.get(float("inf")) - thread_time()
    if left <= 0:
        raise _TooLongError
    return left


def _schema_formats(draft: Any) -> Any:
    r"""Return a checker of schemas themselves, with the patterns of `regex`, such as `\p{L}`."""
    from jsonschema import FormatChecker

    checker: Any = FormatChecker(formats=())
    checker.checkers = {**draft.FORMAT_CHECKER.checkers}
    checker.checks("regex", raises=JudgeError)(_for_texts(_compile))
    return checker


@cache
def _compile(pattern: str) -> Any:
    try:
        return compiled_pattern(pattern, ignore_case=False, kind=_RULE)
    except UsageError as error:
        raise JudgeError(str(error), judge=_RULE) from error


def _finds(pattern: str, text: str) -> bool:
    try:
        return _compile(pattern).search(text, timeout=min(_left_s(), _LIMIT_S)) is not None
    except TimeoutError:
        raise _TooLongError from None


def _validation_error(message: str) -> Any:
    from jsonschema import ValidationError

    return ValidationError(message)


def _multiple_of(validator: Any, divisor: float, instance: Any, _: Any) -> Iterator[Any]:
    if not validator.is_type(instance, "number"):
        return
    # Compared as decimals: the float 19.99 is not a multiple of 0.01.
    if not isfinite(instance) or Fraction(repr(instance)) % Fraction(repr(divisor)):
        yield _validation_error(f"{instance!r} is not a multiple of {divisor!r}")


def _pattern(validator: Any, pattern: str, instance: Any, _: Any) -> Iterator[Any]:
    if validator.is_type(instance, "string") and not _finds(pattern, instance):
        yield _validation_error(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(
    validator: Any, patterns: Mapping[str, Any], instance: Any, _: Any
) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    for pattern, subschema in patterns.items():
        for name, value in instance.items():
            if _finds(pattern, name):
                yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _additional_properties(
    validator: Any, subschema: Any, instance: Any, schema: Mapping[str, Any]
) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    from jsonschema import Draft202012Validator

    draft: Any = Draft202012Validator
    patterns: Mapping[str, Any] = schema.get("patternProperties", {})
    matched: dict[str, Any] = {
        name: {} for name in instance if any(_finds(part, name) for part in patterns)
    }
    extended_schema: dict[str, Any] = {"properties": {**schema.get("properties", {}), **matched}}
    yield from draft.VALIDATORS["additionalProperties"](
        validator, subschema, instance, extended_schema
    )


def _unevaluated_properties(
    validator: Any, subschema: Any, instance: Any, schema: Mapping[str, Any]
) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    rest = {name: part for name, part in schema.items() if name != "unevaluatedProperties"}
    evaluated = _evaluate(validator, instance, rest)
    wrong = [
        name
        for name, value in instance.items()
        if name not in evaluated and not _satisfies(validator, value, subschema)
    ]
    if wrong:
        names = ", ".join(map(repr, sorted(wrong)))
        yield _validation_error(f"Unevaluated properties are not allowed ({names})")


def _satisfies(validator: Any, value: Any, subschema: Any) -> bool:
    return next(iter(validator.descend(value, subschema)), None) is None


def _evaluate(validator: Any, instance: Mapping[str, Any], schema: Any) -> set[str]:
    """The properties that a schema and its applied subschemas evaluate."""
    from referencing.jsonschema import lookup_recursive_ref

    _left_s()
    if not isinstance(schema, Mapping):
        return set()
    table = cast("Mapping[str, Any]", schema)
    present = {name for name in instance if name in table.get("properties", {})}
    patterns: Mapping[str, Any] = table.get("patternProperties", {})
    present |= {name for name in instance if any(_finds(pattern, name) for pattern in patterns)}
    if "additionalProperties" in table or "unevaluatedProperties" in table:
        present |= set(instance)
    resolver = validator._resolver  # noqa: SLF001 - no public API resolves one
    targets = [resolver.lookup(table[name]) for name in ("$ref", "$dynamicRef") if name in table]
    if "$recursiveRef" in table:
        targets.append(lookup_recursive_ref(resolver))
    for target in targets:
        target_validator = validator.evolve(schema=target.contents, _resolver=target.resolver)
        present |= _evaluate(target_validator, instance, target.contents)
    for name, part in table.get("dependentSchemas", {}).items():
        present |= _evaluate(validator, instance, part) if name in instance else set()
    for part in _apply(validator, instance, table):
        present |= _evaluate(validator, instance, part)
    return present


def _apply(validator: Any, instance: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
    """The subschemas that apply to the same value and are satisfied."""
    for keyword in ("allOf", "anyOf", "oneOf"):
        for part in cast("Sequence[Any]", schema.get(keyword, [])):
            if _satisfies(validator, instance, part):
                yield part
    if "if" in schema:
        is_satisfied = _satisfies(validator, instance, schema["if"])
        if is_satisfied:
            yield schema["if"]
        branch = "then" if is_satisfied else "else"
        if branch in schema:
            yield schema[branch]


def _unique_items(validator: Any, required: bool, instance: Any, _: Any) -> Iterator[Any]:  # noqa: FBT001 - the signature of a keyword
    if required and validator.is_type(instance, "array"):
        seen = {_key(entry) for entry in instance}
        if len(seen) < len(instance):
            yield _validation_error(f"{truncate_value(instance)} has non-unique elements")


def _key(value: JSON) -> object:
    """A hashable key that is equal for values that are equal in JSON Schema."""
    if isinstance(value, Mapping):
        return ("object", frozenset((name, _key(part)) for name, part in value.items()))
    if is_sequence(value):
        return ("array", tuple(_key(part) for part in value))
    return (isinstance(value, bool), value)
