"""JavaScript of assertions, transforms and patterns: composed as text, never run here."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from regauge.importers.promptfoo._models import LEXICON
from regauge.strict_json import is_list, is_mapping

if TYPE_CHECKING:
    from regauge.digests import JSON

_DECLARED = re.compile(r"(?:const|let|var)\s")
_SPREAD = re.compile(r"\A\(?\{\s*\.\.\.vars\s*,(?P<rest>.*)\}\)?;?\Z", re.DOTALL)
_ENTRY = re.compile(
    r"""\s*(?:(?P<key>[A-Za-z_$][\w$]*)|'(?P<quoted>[^'\\]*)'|"(?P<double>[^"\\]*)")\s*:\s*"""
    r"""(?:'(?P<single>[^'\\]*)'|(?P<json>"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|true|false|null))\s*(?:,|\Z)"""
)


def function_body(code: str) -> str:
    """Convert code to the body of a function: several lines as they are, an expression returned.

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
    """The function body of a transform and an assertion; None for kinds without JavaScript."""
    if kind == "javascript":
        body = function_body(str(value))
    else:
        template = LEXICON.entry("javascript").get(kind, "")
        structured = is_mapping(value) or (is_list(value) and "values" not in template)
        if not template or structured or (kind == "is-json" and value):
            return None
        parts = value if is_list(value) else [part.strip() for part in str(value).split(",")]
        constants = f"const value = {json.dumps(str(value))};\n"
        if "values" in template:
            constants = f"const values = {json.dumps([str(part) for part in parts])};\n"
        body = constants + template
    # A transform with a line end is a body, even where that is its last character.
    change = transform if "\n" in transform else f"return {transform}"
    return (
        f"const run = (function (output, context) {{\n{change}\n}});\n"
        f"const check = (function (output, context) {{\n{body}\n}});\n"
        f"return {'!' if negated else ''}check(run(output, context), context);"
    )


def constant_vars(code: str) -> dict[str, Any] | None:
    """The constants that `transformVars` adds to the variables; None if it computes values.

    >>> constant_vars("{ ...vars, apiUrl: 'http://localhost', retries: 2 }")
    {'apiUrl': 'http://localhost', 'retries': 2}
    """
    code = code.strip().removeprefix("return ").strip()
    match = _SPREAD.match(code)
    if match is None:
        return None
    rest = match["rest"].strip()
    values: dict[str, Any] = {}
    position = 0
    while position < len(rest):
        entry = _ENTRY.match(rest, position)
        if entry is None or entry.end() == position:
            return None
        key = entry["key"] or entry["quoted"] or entry["double"] or ""
        values[key] = entry["single"] if entry["single"] is not None else json.loads(entry["json"])
        position = entry.end()
    return values


# Patterns.

# Letters with the same escape in both languages; JavaScript reads others literally.
_ESCAPES: Final = frozenset("dDwWsSbBtnrfvxuckpP0123456789")
_FLAGS: Final = re.compile(r"\(\?([ims]+)\)")
_FLAG_NAMES: Final = {"i": "ignore_case", "m": "multiline", "s": "dotall"}


def python_pattern(source: str) -> dict[str, JSON]:
    r"""The parameters of `matches` for a pattern of JavaScript.

    There, `$` matches only the end of the text. A leading `(?i)` is an error in JavaScript; here it
    becomes a flag.

    Raises:
        ValueError: Python does not compile it.

    >>> python_pattern(r"(?i)^ok$")
    {'pattern': '^ok\\Z', 'ignore_case': True}
    """
    import regex  # type: ignore[import-untyped]

    options: dict[str, JSON] = {}
    if flags := _FLAGS.match(source):
        options = {_FLAG_NAMES[flag]: True for flag in flags[1]}
        source = source[flags.end() :]
    pattern = _translate(source, multiline="multiline" in options)
    try:
        regex.compile(pattern)
    except regex.error as error:
        raise ValueError(str(error)) from error
    return {"pattern": pattern, **options}


def _translate(source: str, *, multiline: bool) -> str:
    parts: list[str] = []
    in_class = False
    position = 0
    while position < len(source):
        character = source[position]
        following = source[position + 1 : position + 2]
        position += 1
        if character == "\\" and following:
            position += 1
            if following == "u" and (
                match := re.match(r"\{([0-9A-Fa-f]{1,6})\}", source[position:])
            ):
                position += match.end()
                parts.append(re.escape(chr(int(match[1], 16))))
            elif following == "k" and (match := re.match(r"<(\w+)>", source[position:])):
                position += match.end()
                parts.append(f"(?P={match[1]})")
            elif following == "/" or (following.isalpha() and following not in _ESCAPES):
                parts.append(following)
            else:
                parts.append(character + following)
        elif in_class:
            in_class = character != "]"
            parts.append("\\[" if character == "[" else character)
        elif character == "[":
            if source.startswith("^]", position) or source.startswith("]", position):
                parts.append(r"[\s\S]" if following == "^" else r"(?!)")
                position += 2 if following == "^" else 1
            else:
                in_class = True
                parts.append(character)
        elif character == "$" and not multiline:
            parts.append(r"\Z")
        else:
            parts.append(character)
    return "".join(parts)
