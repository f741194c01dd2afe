"""JavaScript of assertions and transforms: put together as text, and never run here."""

from __future__ import annotations

import json
import re
from typing import Any

from regauge.importers._source import is_list, is_mapping

__all__ = ["constant_vars", "function_body", "transformed_check"]

_DECLARED = re.compile(r"(?:const|let|var)\s")
_SPREAD = re.compile(r"\A\(?\{\s*\.\.\.vars\s*,(?P<rest>.*)\}\)?;?\Z", re.DOTALL)
_ENTRY = re.compile(
    r"""\s*(?:(?P<key>[A-Za-z_$][\w$]*)|'(?P<quoted>[^'\\]*)'|"(?P<double>[^"\\]*)")\s*:\s*"""
    r"""(?:'(?P<single>[^'\\]*)'|(?P<json>"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|true|false|null))\s*(?:,|\Z)"""
)


def function_body(code: str) -> str:
    """The body of a function, of code as promptfoo takes it: lines as they are, or an expression.

    >>> function_body("output.length < 9")
    'return output.length < 9'
    >>> function_body("const n = output.length; n < 9;")
    'const n = output.length; return n < 9'
    """
    code = code.rstrip()
    if "\n" in code:
        return code
    code = code.strip().rstrip("; ")
    if not _DECLARED.match(code):
        return f"return {code}"
    head, semicolon, tail = code.rpartition(";")
    return f"{head}{semicolon} return {tail.strip()}" if semicolon else code


def transformed_check(transform: str, kind: str, value: Any, *, negated: bool) -> str | None:
    """One function body: the transform of the output, then the assertion; None for other kinds."""
    body = function_body(str(value)) if kind == "javascript" else _assertion(kind, value)
    if body is None:
        return None
    # A transform with a line end is a body, even where that is its last character.
    change = transform if "\n" in transform else f"return {transform}"
    return (
        f"const run = (function (output, context) {{\n{change}\n}});\n"
        f"const check = (function (output, context) {{\n{body}\n}});\n"
        f"return {'!' if negated else ''}check(run(output, context), context);"
    )


_TEXT = "const text = typeof output === 'string' ? output : JSON.stringify(output);\n"
_LOWER = (
    "const text = (typeof output === 'string' ? output : JSON.stringify(output)).toLowerCase();\n"
)
# The body of a function for each type of assertion; `value` and `values` are constants before it.
_ASSERTIONS = {
    "contains": f"{_TEXT}return text.includes(value);",
    "icontains": f"{_LOWER}return text.includes(value.toLowerCase());",
    "contains-any": f"{_TEXT}return values.some((part) => text.includes(part));",
    "contains-all": f"{_TEXT}return values.every((part) => text.includes(part));",
    "icontains-any": f"{_LOWER}return values.some((part) => text.includes(part.toLowerCase()));",
    "icontains-all": f"{_LOWER}return values.every((part) => text.includes(part.toLowerCase()));",
    "equals": f"{_TEXT}return text === value;",
    "starts-with": f"{_TEXT}return text.startsWith(value);",
    "regex": f"{_TEXT}return new RegExp(value).test(text);",
    "is-json": f"{_TEXT}try {{ JSON.parse(text); return true; }} catch (error) {{ return false; }}",
}


def _assertion(kind: str, value: Any) -> str | None:
    """The body of a function for an assertion; None where it needs more than a text."""
    body = _ASSERTIONS.get(kind)
    structured = is_mapping(value) or (is_list(value) and "values" not in (body or ""))
    if body is None or structured or (kind == "is-json" and value):
        return None
    parts = value if is_list(value) else [part.strip() for part in str(value).split(",")]
    constants = f"const value = {json.dumps(str(value))};\n"
    if "values" in body:
        constants = f"const values = {json.dumps([str(part) for part in parts])};\n"
    return constants + body


def constant_vars(code: str) -> dict[str, Any] | None:
    """The constants that a `transformVars` adds to all variables; None where it computes anything.

    >>> constant_vars("{ ...vars, apiUrl: 'http://localhost', retries: 2 }")
    {'apiUrl': 'http://localhost', 'retries': 2}
    """
    code = code.strip().removeprefix("return ").strip()
    match = _SPREAD.match(code)
    if match is None:
        return None
    rest = match["rest"].strip()
    found: dict[str, Any] = {}
    at = 0
    while at < len(rest):
        entry = _ENTRY.match(rest, at)
        if entry is None or entry.end() == at:
            return None
        key = entry["key"] or entry["quoted"] or entry["double"] or ""
        found[key] = entry["single"] if entry["single"] is not None else json.loads(entry["json"])
        at = entry.end()
    return found
