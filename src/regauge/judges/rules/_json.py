"""JSON values: complete, by field, and in part."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from regauge.digests import JSON
from regauge.errors import JudgeError, UsageError
from regauge.files import read_regular
from regauge.judges._rule import Check, Rule, on_output, on_text
from regauge.judges._rule_factory import Amount, Name, Share, resolve_in, rule
from regauge.judges._types import (
    Verdict,
    abstained,
    failed,
    format_number,
    is_number,
    passed,
    quote_list,
    quote_value,
)
from regauge.judges.output import (
    MISSING,
    Expected,
    JsonProblem,
    JudgedOutput,
    MissingValue,
    Steps,
    expected,
    find_json,
    json_equal,
    kind_of,
    parse_json,
    parse_path,
    value_at,
)
from regauge.judges.rules._schema import schema_validator, schema_verdict
from regauge.judges.rules._text import normaliser, verdict_on_parts
from regauge.strict_json import is_sequence, read_json
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "contains_json",
    "field",
    "field_equals",
    "field_in",
    "has_keys",
    "json_like",
    "json_matches_schema",
    "json_parses",
]

Schema = Mapping[str, JSON] | str | Path
_FENCE_START = re.compile(r"\A`{3,}[ \t]*(?:json[5cl]?\b)?", re.IGNORECASE)
_FENCE_END = re.compile(r"`{3,}\Z")
JsonKind = Literal["object", "array", "string", "number", "boolean", "null"]


@rule(version=2, about="format")
def json_parses(
    *, kind: JsonKind | None = None, fenced: bool = False, field: str | None = None
) -> Check:
    """The whole output is one JSON value, without prose or code fence.

    Args:
        kind: The JSON type, such as `object`; by default any.
        fenced: Remove a code fence of backticks around it, even an unclosed one.
        field: Judge this part of a JSON output.

    Fails as: json_invalid, wrong_type
    Advice: {fill} one JSON {kind:json} only: no prose around it, no Markdown, no code fence.
    Negated: Do not {fill} a JSON {kind:json} alone.

    >>> print(json_parses(kind="object").check_text('{"ok": true}'))
    pass: an object of JSON
    >>> print(json_parses().check_text('Sure: {"ok": true}'))
    fail: not JSON: Expecting value at line 1, column 1
    """

    def check(output: JudgedOutput) -> Verdict:
        value = parse_json(_unfence(output.text or "")) if fenced else output.json
        if isinstance(value, JsonProblem):
            return failed(f"not JSON: {value.message}", code="json_invalid", actual=output.text)
        actual_kind = kind_of(value)
        if kind is not None and actual_kind != kind:
            return failed(
                f"JSON, but {_with_article(actual_kind)} instead of {_with_article(kind)}",
                code="wrong_type",
                expected=kind,
                actual=actual_kind,
            )
        return passed(f"{_with_article(actual_kind)} of JSON")

    return on_output(field, check)


def _with_article(kind: str) -> str:
    return f"an {kind}" if kind in {"object", "array"} else f"a {kind}"


def _unfence(text: str) -> str:
    """Remove the code fence around a text."""
    return _FENCE_END.sub("", _FENCE_START.sub("", text.strip(), count=1)).strip()


def _schema(schema: Schema) -> JSON:
    if isinstance(schema, Mapping):
        return schema
    try:
        path = Path(schema)
    except TypeError:
        message = f"a schema is a mapping or the path of its file, not {schema!r}"
        raise UsageError(f"json_matches_schema: {message}") from None
    try:
        text = read_regular(path).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"json_matches_schema: cannot read {schema!s}: {error}\n"
            f"  a path is taken from the working directory, {Path.cwd()}"
        ) from error
    try:
        loaded: JSON = read_json(text)
    except ValueError as error:
        raise UsageError(f"json_matches_schema: {path} is not JSON: {error}") from error
    return loaded


@rule(version=2, about="format")
def json_matches_schema(
    schema: Schema | None = None, *, formats: bool = True, field: str | None = None
) -> Check:
    """The output is JSON that satisfies a JSON schema.

    Drafts from draft-04 to 2020-12, by `$schema`; by default 2020-12. A schema that takes too long
    gives no verdict.

    Args:
        schema: A JSON schema, or the path of its file; by default the prompt's `jsonSchema`.
        formats: Check `format` too: date, email, uri, uuid and others.
        field: Judge this part of a JSON output.

    Fails as: json_invalid, schema
    Advice: {fill} one JSON object only: no prose around it, no Markdown, no code fence. | Give it
        the keys {schema:keys}.

    >>> severity = {"type": "object", "properties": {"severity": {"enum": ["critical", "info"]}}}
    >>> print(json_matches_schema(severity).check_text('{"severity": "high"}'))
    fail: $.severity: 'high' is not one of ['critical', 'info']
    """
    if schema is None:
        return _without_schema
    validator = schema_validator(_schema(schema), formats=formats)

    def check(output: JudgedOutput) -> Verdict:
        value = output.json
        if isinstance(value, JsonProblem):
            return failed(f"not JSON: {value.message}", code="json_invalid", actual=output.text)
        return schema_verdict(validator, value)

    return on_output(field, check)


def _without_schema(_: JudgedOutput) -> Verdict:
    raise JudgeError(
        "json_matches_schema() takes the prompt's schema as a judge of an eval or of a case\n"
        "  fix: inside another rule, name the schema: json_matches_schema('schema.json')",
        judge="json_matches_schema",
    )


@rule(version=2, about="format")
def contains_json(
    *,
    kind: Literal["object", "array"] | None = None,
    schema: Schema | None = None,
    field: str | None = None,
) -> Check:
    """The output contains a JSON object or array, in prose or in a code fence.

    Args:
        kind: `object` or `array`; either by default.
        schema: A JSON schema, or the path of its file.
        field: Judge this part of a JSON output.

    Fails as: json_missing, schema
    Advice: Include JSON{inside}. | It has the keys {schema:keys}.
    Negated: Do not include any JSON{inside}.

    >>> print(contains_json().check_text('Here it is: {"severity": "info"}. Done.'))
    pass: contains '{"severity": "info"}'
    """
    validator = schema_validator(_schema(schema), formats=True) if schema is not None else None

    def check(text: str) -> Verdict:
        first: Verdict | None = None
        for value in find_json(text):
            if kind is not None and kind_of(value) != kind:
                continue
            if validator is None:
                return passed(f"contains {quote_value(value)}")
            verdict = schema_verdict(validator, value)
            if verdict.outcome == "pass":
                return passed(f"contains {quote_value(value)}, which satisfies the schema")
            first = first or verdict
        return first or failed(f"contains no JSON {kind or 'object or array'}", code="json_missing")

    return on_text(field, check)


@rule(about="format")
def has_keys(*paths: Name, field: str | None = None) -> Check:
    """The output is JSON with these fields, whatever their values.

    Args:
        paths: The fields; null counts. `steps[*].command` must exist in every entry of a non-empty
            list.
        field: Judge this part of a JSON output.

    Fails as: missing_field
    Advice: Give the JSON object the key{paths:s} {paths:code}.
    Negated: Leave the key{paths:s} {paths:code} out of the JSON object.

    >>> print(has_keys("severity", "reason").check_text('{"severity": "info"}'))
    fail (0.50): no field 'reason'
    """
    if not paths:
        raise UsageError("has_keys: name at least one field")
    required = [(path, [parse_path(part) for part in path.split("[*]")]) for path in paths]

    def check(output: JudgedOutput) -> Verdict:
        document = output.json
        if isinstance(document, JsonProblem):
            return failed(f"not JSON: {document.message}", code="json_invalid")
        missing = [
            path
            for path, parts in required
            if any(isinstance(entry, MissingValue) for _, entry in _entries(document, parts))
        ]
        return verdict_on_parts(paths, missing, has="has", lacks="no field", code="missing_field")

    return on_output(field, check)


@rule(about="correctness")
def field_equals(
    path: str,
    expected: JSON | Expected | MissingValue = MISSING,
    *,
    ignore_case: bool = False,
    ignore_space: bool = False,
    ignore_punctuation: bool = False,
    absent: Literal["error", "abstain"] = "error",
) -> Check:
    """A field of the JSON output has the expected value.

    1 equals 1.0; true does not equal 1; null equals only null; a missing field fails.

    Args:
        path: The field, such as `steps[0].command`; `steps[*].status` means every entry of a
            non-empty list.
        expected: The value, for `[*]` of every entry; by default the value at the same path of the
            case's `expected`.
        ignore_case: Ignore case, by Unicode case folding.
        ignore_space: Treat runs of white space as one space; strip the ends.
        ignore_punctuation: Ignore Unicode punctuation.
        absent: If the case has no such expected value: `error`, or `abstain`.

    Fails as: wrong_value
    Advice: Set {path:code} to {expected:or}.
    Negated: Never set {path:code} to {expected:or}.

    >>> print(field_equals("severity").check_text(
    ...     '{"severity": "info"}', expected={"severity": "critical"}))
    fail: severity is 'info', not 'critical'
    """
    alike = _comparison(
        normaliser(
            ignore_case=ignore_case,
            ignore_space=ignore_space,
            ignore_punctuation=ignore_punctuation,
        )
    )
    if "[*]" in path:
        return _each_equals(path, expected, alike, absent=absent)
    steps = parse_path(path)
    wanted_at = Expected(path) if isinstance(expected, MissingValue) else expected
    wanted_steps = parse_path(wanted_at.path) if isinstance(wanted_at, Expected) else ()

    def check(output: JudgedOutput) -> Verdict:
        if isinstance(wanted_at, Expected):
            expected_value = output.expected_at(wanted_steps)
            if isinstance(expected_value, MissingValue):
                if absent == "abstain":
                    return abstained(f"the case has no {wanted_at}", code="no_expectation")
                raise output.missing_error(str(wanted_at), judge=f"field_equals({path})")
        else:
            expected_value = wanted_at
        actual = output.value_at(path, steps)
        if isinstance(actual, Verdict):
            return replace(actual, expected=expected_value)
        if alike(actual, expected_value):
            return passed(f"{path} is {quote_value(actual)}", expected=expected_value)
        return failed(
            f"{path} is {quote_value(actual)}, not {quote_value(expected_value)}",
            code="wrong_value",
            expected=expected_value,
            actual=actual,
            details={"field": path},
        )

    return check


ValueComparison: TypeAlias = "Callable[[JSON | MissingValue, JSON | MissingValue], bool]"


def _comparison(normalise: Callable[[str], str]) -> ValueComparison:
    """Return a function that compares two values, with normalised texts."""

    def alike(actual: JSON | MissingValue, expected: JSON | MissingValue) -> bool:
        if isinstance(actual, MissingValue) or isinstance(expected, MissingValue):
            return False
        if isinstance(actual, str) and isinstance(expected, str):
            return actual == expected or normalise(actual) == normalise(expected)
        return json_equal(actual, expected)

    return alike


def _each_equals(
    path: str, expected: JSON | Expected | MissingValue, alike: ValueComparison, *, absent: str
) -> Check:
    """Build a check of one field in every list entry."""
    parts = [parse_path(part) for part in path.split("[*]")]
    judge = f"field_equals({path})"

    def check(output: JudgedOutput) -> Verdict:
        document = output.value_at(path, ())
        if isinstance(document, Verdict):
            return document
        entries = dict(_entries(document, parts))
        if isinstance(expected, MissingValue):
            root = output.expected_at(())
            expected_entries = {} if isinstance(root, MissingValue) else dict(_entries(root, parts))
            if not expected_entries or any(
                isinstance(value, MissingValue) for value in expected_entries.values()
            ):
                if absent == "abstain":
                    return abstained(f"the case has no expected.{path}", code="no_expectation")
                raise output.missing_error(f"expected.{path}", judge=judge)
        else:
            expected_entries = dict.fromkeys(entries, output.resolve(expected, judge=judge))
        places = dict.fromkeys([*expected_entries, *entries])
        wrong = [
            place
            for place in places
            if not alike(entries.get(place, MISSING), expected_entries.get(place, MISSING))
        ]
        if not wrong:
            return passed(f"{path} is right in {plural(len(entries), 'entry', 'entries')}")
        first = entries.get(wrong[0], MISSING)
        actual_text = "missing" if isinstance(first, MissingValue) else quote_value(first)
        right = expected_entries.get(wrong[0], MISSING)
        instead = "" if isinstance(right, MissingValue) else f", not {quote_value(right)}"
        return failed(
            f"{wrong[0]} is {actual_text}{instead}",
            code="missing_field" if isinstance(first, MissingValue) else "wrong_value",
            score=1 - len(wrong) / len(places),
            details={"field": path, "wrong": wrong[:20]},
        )

    return check


def _entries(
    value: JSON | MissingValue, parts: Sequence[Steps], path: str = ""
) -> Iterator[tuple[str, JSON | MissingValue]]:
    """The values at a path with `[*]` between its parts, each with its full path."""
    actual = MISSING if isinstance(value, MissingValue) else value_at(value, parts[0])
    for step in parts[0]:
        path += f"[{step}]" if isinstance(step, int) else f"{'.' if path else ''}{step}"
    if len(parts) == 1:
        yield path, actual
    elif isinstance(actual, list) and actual:
        for place, entry in enumerate(actual):
            yield from _entries(entry, parts[1:], f"{path}[{place}]")
    else:
        yield f"{path}[*]", MISSING


@rule(about="format")
def field_in(path: str, values: Sequence[JSON] | Expected, *, ignore_case: bool = False) -> Check:
    """A field of the JSON output has one of the allowed values.

    Args:
        path: The field, such as `steps[0].command`; `steps[*].status` means every entry of a
            non-empty list.
        values: The allowed values.
        ignore_case: Ignore case, by Unicode case folding.

    Fails as: not_allowed
    Advice: Set {path:code} to one of: {values:choice}.
    Negated: Set {path:code} to none of: {values:choice}.

    >>> print(field_in("severity", ["critical", "info"]).check_text('{"severity": "high"}'))
    fail: severity is 'high', not one of 'critical', 'info'
    """
    parts = [parse_path(part) for part in path.split("[*]")]
    if isinstance(values, str) or (not isinstance(values, Expected) and not len(values)):
        raise UsageError(f"field_in: name the allowed values as a list, not {values!r}")

    alike = _comparison(normaliser(ignore_case=ignore_case))

    def check(output: JudgedOutput) -> Verdict:
        allowed = output.resolve(values, judge=f"field_in({path})")
        if not is_sequence(allowed):
            raise JudgeError(f"field_in: {values} is not a list", judge=f"field_in({path})")
        actual = output.value_at(path, parts[0])
        if isinstance(actual, Verdict):
            return actual
        for place, value in _entries(actual, [(), *parts[1:]], path.partition("[*]")[0]):
            if isinstance(value, MissingValue):
                return failed(f"{place} is missing", code="missing_field")
            if not any(alike(value, option) for option in allowed):
                return failed(
                    f"{place} is {quote_value(value)}, not one of {quote_list(allowed)}",
                    code="not_allowed",
                    expected=allowed,
                    actual=value,
                    details={"field": path},
                )
        if len(parts) > 1:
            return passed(f"every {path} is one of {quote_list(allowed)}")
        return passed(f"{path} is {quote_value(actual)}")

    return check


def _advise_field(judge: Rule, *, field: str | None, negated: bool) -> str:
    path = judge.params.get("path")
    inner = str(path) if path else field
    return judge.parts[0].advice(field=inner, negated=negated)


@rule(compose=_advise_field)
def field(path: str, judge: Rule) -> Check:
    """Apply any rule to one field of the JSON output.

    Values other than text are judged as JSON. A missing or null field fails.

    Args:
        path: The field, such as `steps[0].command`.
        judge: The rule.

    >>> from regauge.judges import starts_with
    >>> print(field("steps[0]", starts_with("kubectl")).check_text('{"steps": ["kubectl get po"]}'))
    pass: steps[0]: starts with 'kubectl'
    """
    examine = judge.examine

    def check(output: JudgedOutput) -> Verdict:
        verdict = examine(output)
        details = {**verdict.details, "field": path}
        return replace(verdict, reason=f"{path}: {verdict.reason}", details=details)

    return on_output(path, check)


Extra = Literal["keys", "all", "none"]

# The most pairs of list entries to compare for the best order; longer lists are paired in order.
_PAIRS_MAX = 10_000


def is_close(left: float, right: float, *, within: float, relative: float) -> bool:
    """Compare two numbers; those beyond the range of a float must be equal.

    >>> is_close(0.1 + 0.2, 0.3, within=0, relative=1e-9)
    True
    """
    try:
        return math.isclose(left, right, rel_tol=relative, abs_tol=within)
    except OverflowError:
        return left == right


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One compared part of a value.

    Attributes:
        path: Its place, such as `steps[0].command`.
        weight: The number of scalar values in it.
        problem: The difference; empty for an equal part.
    """

    path: str
    weight: int
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonComparison:
    """The comparison of two JSON values.

    Attributes:
        extra: Allowed additions: `keys` of objects, `all` (entries of lists too), or `none`.
        in_order: Entries of lists must have the same order.
        relative: The largest difference between numbers, as a share of the larger.
        ignored: Paths that are not compared; without indexes, they apply to every list entry.
        simplify: Applied to texts before they are compared.
    """

    extra: Extra = "keys"
    in_order: bool = True
    relative: float = 1e-9
    ignored: frozenset[Steps] = frozenset()
    simplify: Callable[[str], str] = str

    def equal(self, expected: JSON, actual: JSON) -> bool:
        """Compare two scalar values."""
        if isinstance(expected, str) and isinstance(actual, str):
            return self.simplify(expected) == self.simplify(actual)
        if is_number(expected) and is_number(actual):
            return is_close(expected, actual, within=0, relative=self.relative)
        return json_equal(expected, actual)

    def parts(self, expected: JSON, actual: JSON, steps: Steps = ()) -> Iterator[Part]:
        """Compare two values, part by part."""
        if self._is_ignored(steps):
            return
        if isinstance(expected, Mapping):
            if isinstance(actual, Mapping):
                yield from self._objects(expected, actual, steps)
                return
        elif is_sequence(expected):
            if is_sequence(actual):
                yield from self._lists(expected, actual, steps)
                return
        elif self.equal(expected, actual):
            yield Part(path=_path(steps), weight=1)
            return
        problem = f"is {_value(actual)}, not {_value(expected)}"
        yield Part(path=_path(steps), weight=self._weight(expected, steps), problem=problem)

    def _objects(
        self, expected: Mapping[str, JSON], actual: Mapping[str, JSON], steps: Steps
    ) -> Iterator[Part]:
        for key, value in expected.items():
            if key in actual:
                yield from self.parts(value, actual[key], (*steps, key))
            elif weight := self._weight(value, (*steps, key)):
                yield Part(path=_path((*steps, key)), weight=weight, problem="is missing")
        further = [key for key in actual if key not in expected] if self.extra == "none" else []
        for key in further:
            if not self._is_ignored((*steps, key)):
                yield Part(path=_path((*steps, key)), weight=1, problem="is not expected")
        if not expected and not further:
            yield Part(path=_path(steps), weight=1)

    def _lists(
        self, expected: Sequence[JSON], actual: Sequence[JSON], steps: Steps
    ) -> Iterator[Part]:
        pairs = self._pairs(expected, actual, steps)
        matched = {place for place in pairs if place is not None}
        for place, (value, other) in enumerate(zip(expected, pairs, strict=True)):
            entry_steps = (*steps, place)
            if other is not None:
                yield from self.parts(value, actual[other], entry_steps)
            elif weight := self._weight(value, entry_steps):
                yield Part(path=_path(entry_steps), weight=weight, problem="is missing")
        further = [] if self.extra == "all" else [n for n in range(len(actual)) if n not in matched]
        for place in further:
            yield Part(
                path=_path((*steps, place)),
                weight=1,
                problem=f"is not expected: {_value(actual[place])}",
            )
        if not expected and not further:
            yield Part(path=_path(steps), weight=1)

    def _pairs(
        self, expected: Sequence[JSON], actual: Sequence[JSON], steps: Steps
    ) -> list[int | None]:
        """The index in `actual` for each entry of `expected`; None for no entry."""
        by_place = self.in_order and self.extra != "all"
        if by_place or len(expected) * len(actual) > _PAIRS_MAX:
            return [place if place < len(actual) else None for place in range(len(expected))]
        scores = [
            [self._score(value, other, (*steps, place)) for other in actual]
            for place, value in enumerate(expected)
        ]
        return _best_sequence(scores) if self.in_order else _best_pairs(scores)

    def _score(self, expected: JSON, actual: JSON, steps: Steps) -> float:
        parts = [*self.parts(expected, actual, steps)]
        total = sum(part.weight for part in parts)
        return sum(part.weight for part in parts if not part.problem) / total if total else 1.0

    def _is_ignored(self, steps: Steps) -> bool:
        if not self.ignored:
            return False
        return (
            steps in self.ignored
            or tuple(step for step in steps if isinstance(step, str)) in self.ignored
        )

    def _weight(self, value: JSON, steps: Steps) -> int:
        """The number of scalar values in a value; an empty list or object is one."""
        if self._is_ignored(steps):
            return 0
        if isinstance(value, Mapping):
            return sum(self._weight(part, (*steps, key)) for key, part in value.items()) or 1
        if is_sequence(value):
            return sum(self._weight(part, (*steps, n)) for n, part in enumerate(value)) or 1
        return 1


def _path(steps: Steps) -> str:
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step and not any(mark in step for mark in ".[]\"'"):
            text += f".{step}" if text else step
        else:
            text += f"[{json.dumps(step, ensure_ascii=False)}]"
    return text or "the value"


def _value(value: JSON) -> str:
    return quote_value(value) if len(str(value)) <= 80 else f"another {kind_of(value)}"  # noqa: PLR2004


def _best_sequence(scores: Sequence[Sequence[float]]) -> list[int | None]:
    """The pairs in rising order with the highest total score."""
    width = len(scores[0]) if scores else 0
    best = [[0.0] * (width + 1) for _ in range(len(scores) + 1)]
    for row in range(len(scores) - 1, -1, -1):
        for column in range(width - 1, -1, -1):
            best[row][column] = max(
                scores[row][column] + best[row + 1][column + 1],
                best[row + 1][column],
                best[row][column + 1],
            )
    pairs: list[int | None] = [None] * len(scores)
    row = column = 0
    while row < len(scores) and column < width:
        if best[row][column] == best[row][column + 1]:
            column += 1
        elif best[row][column] == best[row + 1][column]:
            row += 1
        else:
            pairs[row] = column
            row, column = row + 1, column + 1
    return pairs


def match_pairs(matches: Sequence[Sequence[bool]]) -> dict[int, int]:
    """Match as many rows as possible with a column each, and return the columns by row.

    >>> match_pairs([[True, True], [True, False]])
    {1: 0, 0: 1}
    """
    owner: dict[int, int] = {}

    def place(row: int, seen: set[int]) -> bool:
        for column, is_match in enumerate(matches[row]):
            if not is_match or column in seen:
                continue
            seen.add(column)
            if column not in owner or place(owner[column], seen):
                owner[column] = row
                return True
        return False

    for row in range(len(matches)):
        place(row, set())
    return {row: column for column, row in owner.items()}


def _best_pairs(scores: Sequence[Sequence[float]]) -> list[int | None]:
    """Pair equal entries, then the rest by falling score."""
    pairs = match_pairs([[score >= 1 for score in line] for line in scores])
    matched = set(pairs.values())
    rest = sorted(
        (-score, row, column)
        for row, line in enumerate(scores)
        for column, score in enumerate(line)
    )
    for _, row, column in rest:
        if row not in pairs and column not in matched:
            pairs[row] = column
            matched.add(column)
    return [pairs.get(row) for row in range(len(scores))]


@rule(about="correctness")
def json_like(
    value: JSON | Expected = expected(),
    *,
    extra: Extra = "keys",
    ordered: bool = True,
    ignore: Sequence[str] = (),
    relative: Amount = 1e-9,
    ignore_case: bool = False,
    ignore_space: bool = False,
    at_least: Share = 1.0,
    field: str | None = None,
) -> Check:
    """The output is JSON with the fields of another value; further keys are allowed.

    The score is the share of equal scalar values. `1` equals `1.0`, not `true`.

    Args:
        value: The value or reference to compare with; by default the case's `expected`.
        extra: Allowed additions: `keys` of objects, `all` (entries of lists too), or `none`.
        ordered: Entries of lists must have the same order.
        ignore: Paths to skip, such as `id` or `items.created_at` (in every entry of a list).
        relative: The largest difference between numbers, as a share of the larger.
        ignore_case: Ignore case, by Unicode case folding.
        ignore_space: Treat runs of white space as one space; strip the ends.
        at_least: The least that passes.
        field: Judge this part of a JSON output.

    Fails as: json_invalid, not_alike
    Advice: Write JSON{inside} in which {value:args}.

    >>> order = {"id": 7, "items": [{"sku": "a", "n": 2}]}
    >>> print(json_like(order).check_text('{"id": 7, "items": [{"sku": "a", "n": 3}], "at": 1}'))
    fail (0.67): items[0].n is '3', not '2'
    """
    comparison = JsonComparison(
        extra=extra,
        in_order=ordered,
        relative=relative,
        ignored=frozenset(parse_path(path) for path in ignore),
        simplify=normaliser(ignore_case=ignore_case, ignore_space=ignore_space),
    )

    def check(output: JudgedOutput) -> Verdict:
        expected = cast("JSON", resolve_in(value, output, "json_like"))
        actual = output.json
        if isinstance(actual, JsonProblem):
            return failed(f"not JSON: {actual.message}", code="json_invalid", expected=expected)
        return _verdict([*comparison.parts(expected, actual)], expected, actual, at_least)

    return on_output(field, check)


def _verdict(parts: Sequence[Part], expected: JSON, actual: JSON, at_least: float) -> Verdict:
    total = Counter[bool]()
    for part in parts:
        total[not part.problem] += part.weight
    score = total[True] / total.total() if total else 1.0
    wrong = [f"{part.path} {part.problem}" for part in parts if part.problem]
    reason = plural(total[True], "equal value")
    if wrong:
        suffix = f", and {len(wrong) - 3} more" if len(wrong) > 3 else ""  # noqa: PLR2004
        reason = f"{'; '.join(wrong[:3])}{suffix}"
    if at_least < 1:
        reason = f"{format_number(score)} alike, {format_number(at_least)} wanted: {reason}"
    if score >= at_least:
        return passed(reason, score=score)
    return failed(
        reason,
        code="not_alike",
        score=score,
        expected=expected,
        actual=actual,
        details={"fields": {part.path: not part.problem for part in parts[:100]}},
    )
