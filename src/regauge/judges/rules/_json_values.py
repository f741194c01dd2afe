"""Answers that are JSON: whether they parse, and whether they satisfy a schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from regauge.digests import JSON
from regauge.errors import UsageError
from regauge.judges._evidence import shown, value_text
from regauge.judges._json_text import JsonFault, find_json, kind_of, parse_json
from regauge.judges._rule import Check, on_answer, on_text
from regauge.judges._rule_factory import rule
from regauge.judges._types import Verdict, failed, passed
from regauge.judges.rules._schema import schema_validator, schema_verdict
from regauge.regular_file import read_regular
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from regauge.judges._answer import Answer

__all__ = ["contains_json", "json_matches_schema", "json_parses"]

Schema = Mapping[str, JSON] | str | Path
_FENCE_START = re.compile(r"\A`{3,}(?:[Jj]son|JSON)?")
_FENCE_END = re.compile(r"`{3,}\Z")
JsonKind = Literal["object", "array", "string", "number", "boolean", "null"]


@rule(codes=("json_invalid", "wrong_type"))
def json_parses(
    *, kind: JsonKind | None = None, fenced: bool = False, field: str | None = None
) -> Check:
    """The whole answer is one JSON value; no prose, no code fence around it.

    Args:
        kind: The JSON type it must have, such as `object`; any by default.
        fenced: A code fence around it is left out, even one that was never closed.
        field: Judge this part of a JSON answer, a text that holds JSON itself.

    >>> print(json_parses(kind="object").check_text('{"ok": true}'))
    pass: an object of JSON
    >>> print(json_parses().check_text('Sure: {"ok": true}'))
    fail: not JSON: Expecting value at line 1, column 1
    """

    def check(answer: Answer) -> Verdict:
        value = parse_json(_unfenced(answer.text or "")) if fenced else answer.json
        if isinstance(value, JsonFault):
            return failed(
                f"not JSON: {value.message}", code="json_invalid", actual=shown(answer.text)
            )
        found = kind_of(value)
        if kind is not None and found != kind:
            return failed(
                f"JSON, but {_a(found)} instead of {_a(kind)}",
                code="wrong_type",
                expected=kind,
                actual=found,
            )
        return passed(f"{_a(found)} of JSON")

    return on_answer(field, check)


def _a(kind: str) -> str:
    return f"an {kind}" if kind in {"object", "array"} else f"a {kind}"


def _unfenced(text: str) -> str:
    """A text without the code fence it stands in."""
    return _FENCE_END.sub("", _FENCE_START.sub("", text.strip(), count=1)).strip()


def _schema(schema: Schema) -> JSON:
    if isinstance(schema, Mapping):
        return schema
    path = Path(schema)
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


@rule(codes=("json_invalid", "schema"), version=2)
def json_matches_schema(
    schema: Schema,
    *,
    formats: bool = True,
    field: str | None = None,
) -> Check:
    """The answer is JSON that satisfies a JSON Schema.

    Its `$schema` names its draft, from draft-04 to 2020-12; without one, it is of 2020-12.

    A schema that takes too long on an output, by a pattern or by references that multiply, ends in
    a JudgeError: it is no verdict.

    Args:
        schema: The schema itself, or the path of a JSON file that holds it.
        formats: Hold `format` too: date, date-time, time, email, ipv4, ipv6, uri, uuid, ...
        field: Judge this part of a JSON answer instead of the whole.

    >>> severity = {"type": "object", "properties": {"severity": {"enum": ["critical", "info"]}}}
    >>> print(json_matches_schema(severity).check_text('{"severity": "high"}'))
    fail: $.severity: 'high' is not one of ['critical', 'info']
    """
    loaded = _schema(schema)
    validator = schema_validator(loaded, formats=formats)

    def check(answer: Answer) -> Verdict:
        value = answer.json
        if isinstance(value, JsonFault):
            return failed(
                f"not JSON: {value.message}", code="json_invalid", actual=shown(answer.text)
            )
        return schema_verdict(validator, value)

    return on_answer(field, check)


@rule(codes=("json_missing", "schema"), version=2)
def contains_json(
    *,
    kind: JsonKind | None = None,
    schema: Schema | None = None,
    field: str | None = None,
) -> Check:
    """An object or array of JSON stands somewhere in the answer, in prose or in a code fence.

    Args:
        kind: `object` or `array`; either by default.
        schema: A JSON Schema that one of them must satisfy, or the path of a file with one.
        field: Judge this part of a JSON answer instead of the whole.

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
                return passed(f"contains {value_text(value)}")
            verdict = schema_verdict(validator, value)
            if verdict.outcome == "pass":
                return passed(f"contains {value_text(value)}, which satisfies the schema")
            first = first or verdict
        return first or failed(f"contains no JSON {kind or 'object or array'}", code="json_missing")

    return on_text(field, check)
