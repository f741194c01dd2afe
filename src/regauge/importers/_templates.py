"""Templates of Jinja and Nunjucks: split, and rendered in a sandbox."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.prompts import compile_template

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from jinja2.sandbox import SandboxedEnvironment

# Templates to import are untrusted: these bounds end loops and growth. Real ones are far below
# them.
_SOURCE_MAX: Final = 1_000_000
_OUTPUT_MAX: Final = 4_000_000
_STEPS_MAX: Final = 100_000
_VALUES_MAX: Final = 2_000_000
_JOINED_MAX: Final = 100
_MARKS_MAX: Final = 5_000
# Bounded: each of many unclosed marks would be searched up to the end of the text.
_MARKS: Final = re.compile(r"\{\{.{0,2000}?\}\}|\{%.{0,2000}?%\}|\{#.{0,2000}?#\}", re.DOTALL)
_NAME: Final = re.compile(r"\{\{-?\s*([A-Za-z_][A-Za-z0-9_]*)\s*-?\}\}")
_PATH: Final = re.compile(r"\{\{\s*([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)\s*\}\}", re.ASCII)
_TAG: Final = re.compile(r"\{%[-+]?\s*(\w+)")
_BLOCKS: Final = (
    "if", "for", "filter", "block", "call", "macro", "raw", "verbatim", "ifAsync", "asyncEach",
    "asyncAll", "switch",
)  # fmt: skip
_ERRORS: Final = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError)
_RAW: Final = re.compile(
    r"\{%-?\s*(raw|verbatim)\s*-?%\}(.{0,20000}?)\{%-?\s*end\1\s*-?%\}", re.DOTALL
)
_FILTERS: Final = (
    "abs", "batch", "capitalize", "d", "default", "dictsort", "e", "escape", "first", "float",
    "forceescape", "groupby", "int", "join", "last", "length", "list", "lower", "reject",
    "rejectattr", "replace", "reverse", "round", "safe", "select", "selectattr", "slice", "sort",
    "string", "striptags", "sum", "title", "trim", "truncate", "upper", "urlencode", "wordcount",
    "tojson", "map", "unique", "min", "max",
)  # fmt: skip


class TemplateError(Exception):
    """A template that does not parse, or uses a feature that the sandbox refuses."""


def _step_counter() -> Callable[[Iterable[object] | None, bool], Iterator[object]]:
    """Return a function that yields the values of each loop, and limits all steps of a rendering.

    Nunjucks takes the pairs of an object from its keys and values.
    """
    steps = itertools.count(1)

    def count_steps(values: Iterable[object] | None, are_pairs: bool) -> Iterator[object]:  # noqa: FBT001 - called by a template
        if are_pairs and isinstance(values, Mapping):
            values = cast("Mapping[str, object]", values).items()
        for value in values or ():
            if next(steps) > _STEPS_MAX:
                raise TemplateError(f"its loops take more than {_STEPS_MAX:,} steps")
            yield value

    return count_steps


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitTemplate:
    """A template in the form of prompt files.

    Attributes:
        text: The text, with insertions `{{name}}` only.
        names: Variables that the text inserts unchanged.
        computed: Inputs to compute for each case: the template to render, by name.
    """

    text: str
    names: frozenset[str]
    computed: Mapping[str, str]


def has_logic(text: str) -> bool:
    """Return whether a text has a mark of a template."""
    return not _is_crowded(text) and _MARKS.search(text) is not None


def _is_crowded(text: str) -> bool:
    """Return whether a text has too many marks for a template, which would be slow to search."""
    return sum(text.count(mark) for mark in ("{{", "{%", "{#")) > _MARKS_MAX


def _refuse_large(source: str) -> None:
    if len(source) > _SOURCE_MAX or _is_crowded(source):
        raise TemplateError(f"it has more than {_SOURCE_MAX:,} characters or {_MARKS_MAX:,} marks")


def split_template(source: str, *, prefix: str = "part") -> SplitTemplate:
    r"""Keep plain variables in the text; turn blocks, filters and paths into computed inputs.

    >>> split_template("Hi {{ name | upper }}, {{city}}").text
    'Hi {{part_1}}, {{city}}'
    """
    _refuse_large(source)
    source = re.sub(r"\r\n?", "\n", source)  # as rendering does
    computed: dict[str, str] = {}
    pieces: list[tuple[str, bool]] = []  # a text, or the name of an input
    for part, is_mark in _parts(source):
        if not is_mark:
            pieces.append((part, False))
        elif name := _NAME.fullmatch(part):
            pieces.append((name[1], True))
        else:
            existing_name = next((name for name, text in computed.items() if text == part), "")
            path = _PATH.fullmatch(part)
            input_name = existing_name or (path[1] if path else f"{prefix}_{len(computed) + 1}")
            computed[input_name] = part
            pieces.append((input_name, True))
    text = "".join(
        f"{{{{{part}}}}}" if is_input else part.replace("{{", '{{"{{"}}')
        for part, is_input in pieces
    )
    names = frozenset(part for part, is_input in pieces if is_input) - computed.keys()
    plain = {match[1] for match in _NAME.finditer(source)}
    if plain & computed.keys() or not _means(text, pieces):
        return SplitTemplate(text=f"{{{{{prefix}}}}}", names=frozenset(), computed={prefix: source})
    return SplitTemplate(text=text, names=names, computed=computed)


def _parts(source: str) -> Iterator[tuple[str, bool]]:
    """Texts and marks in order; each with True for a mark, which may be a full block."""
    raws = {match.start(): match for match in _RAW.finditer(source)}
    position = 0
    strip = False
    while match := _MARKS.search(source, position):
        text = source[position : match.start()]
        text = text.lstrip() if strip else text
        yield (text.rstrip() if match[0][2:3] == "-" else text), False
        raw = raws.get(match.start())
        if raw is not None:
            yield raw[2], False
            position, strip = raw.end(), False
            continue
        is_block = match[0].startswith("{%")
        position = _block_end(source, match.start(), raws) if is_block else match.end()
        strip = source[position - 3 : position - 2] == "-"
        if not match[0].startswith("{#"):
            yield source[match.start() : position], True
    yield (source[position:].lstrip() if strip else source[position:]), False


def _means(text: str, pieces: list[tuple[str, bool]]) -> bool:
    """Return whether a prompt file with this text inserts exactly these inputs."""
    text_filled = compile_template(text).fill(
        {part: f"\0{part}\0" for part, is_input in pieces if is_input}
    )
    return text_filled == "".join(f"\0{part}\0" if is_input else part for part, is_input in pieces)


def _block_end(source: str, start: int, raws: Mapping[int, re.Match[str]]) -> int:
    """The end of the block at `start`; the end of the text after a tag such as `set`."""
    depth = 0
    position = start
    while match := _MARKS.search(source, position):
        if match.start() in raws:
            position = raws[match.start()].end()
            continue
        position = match.end()
        if not match[0].startswith("{%"):
            continue
        tag = _TAG.match(match[0])
        word = tag[1] if tag else ""
        if word in _BLOCKS:
            depth += 1
        elif word.startswith("end"):
            depth -= 1
            if depth <= 0:
                return position
        elif depth == 0:
            return len(source)  # `set`, `include`: what follows depends on it
    return len(source)


def render(source: str, values: Mapping[str, object]) -> str:
    """Render a template in a sandbox.

    Raises:
        TemplateError: It does not parse, uses a refused feature, or takes too long.

    >>> render("{% for x in xs %}{{ x }};{% endfor %}", {"xs": [1, True]})
    '1;true;'
    """
    from jinja2 import TemplateError as JinjaError

    _refuse_large(source)
    if sum(len(value) for value in values.values() if isinstance(value, str)) > _VALUES_MAX:
        raise TemplateError(f"its values have more than {_VALUES_MAX:,} characters")
    environment = _environment()
    try:
        template = environment.template_class.from_code(
            environment, environment.compile(_check(source)), environment.make_globals(None)
        )
        parts: list[str] = []
        size = 0
        for part in template.generate({**values, "_counted": _step_counter()}):
            size += len(part)
            if size > _OUTPUT_MAX:
                raise TemplateError(f"its output is longer than {_OUTPUT_MAX:,} characters")
            parts.append(part)
    except (JinjaError, *_ERRORS) as error:
        raise TemplateError(str(error)) from error
    except (RecursionError, MemoryError, SyntaxError) as error:
        raise TemplateError("it is nested too deeply") from error
    return "".join(parts)


def variables_of(source: str) -> set[str]:
    """The variables that a template reads.

    Raises:
        TemplateError: It does not parse.

    >>> sorted(variables_of("{% for x in xs %}{{ x }}{{ y.z }}{% endfor %}"))
    ['xs', 'y']
    """
    from jinja2 import TemplateError as JinjaError
    from jinja2.meta import find_undeclared_variables

    try:
        return find_undeclared_variables(_environment().parse(_MARKS.sub(_jinja_mark, source)))
    except (JinjaError, RecursionError) as error:
        raise TemplateError(str(error)) from error


def _check(source: str) -> Any:
    """Parse a template, and limit the steps of its loops.

    Raises:
        TemplateError: It calls, includes or defines something.
    """
    from jinja2 import nodes

    tree = _environment().parse(_MARKS.sub(_jinja_mark, source))
    refused = (
        nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends, nodes.Macro, nodes.CallBlock,
        nodes.Pow, nodes.Mul, nodes.Mod, nodes.Block,
    )  # fmt: skip
    for node in tree.find_all(refused):
        raise TemplateError(f"it uses {type(node).__name__.lower()!r}, which is not rendered")
    if any(any(node.find_all((nodes.Concat, nodes.Add))) for node in tree.find_all(nodes.Assign)):
        raise TemplateError("it joins texts in `set`")
    if sum(len(concat.nodes) for concat in tree.find_all(nodes.Concat)) > _JOINED_MAX:
        raise TemplateError("it joins too many texts")
    callees = [call.node for call in tree.find_all(nodes.Call)]
    if not all(isinstance(node, nodes.Name) and node.name == "range" for node in callees):
        raise TemplateError("it calls a function or method")
    allowed = {*_FILTERS, "dump", "nl2br"}
    for name in (filtered.name for filtered in tree.find_all(nodes.Filter)):
        if name not in allowed:
            raise TemplateError(f"it uses the filter {name!r}")
    for loop in tree.find_all(nodes.For):
        if loop.recursive:
            raise TemplateError("it uses a recursive loop")
        are_pairs = nodes.Const(isinstance(loop.target, nodes.Tuple))
        counter = nodes.Name("_counted", "load")
        counted_loop = nodes.Call(counter, [loop.iter, are_pairs], [], None, None)
        loop.iter = counted_loop.set_lineno(loop.lineno).set_environment(_environment())
    return tree


@cache
def _environment() -> SandboxedEnvironment:
    from jinja2 import ChainableUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        undefined=ChainableUndefined, finalize=_text, keep_trailing_newline=True
    )
    for name in environment.filters.keys() - {*_FILTERS}:
        del environment.filters[name]
    filters: Any = {"dump": _dump, "nl2br": _break_lines, "join": _join, "replace": _replace}
    environment.filters.update(filters)
    environment.globals.clear()
    environment.globals["range"] = cast("Any", _range)
    return environment


def _jinja_mark(match: re.Match[str]) -> str:
    """Translate a mark of Nunjucks to Jinja."""
    mark = match[0]
    if mark.startswith("{#"):
        return mark
    mark = mark.replace("!==", "!=").replace("===", "==")
    return re.sub(r"(\{%[-+]?\s*)else\s?if\b", r"\1elif", mark)


def _range(*bounds: int) -> range:
    values = range(*bounds)
    if len(values) > _STEPS_MAX:
        raise TemplateError(f"a range is longer than {_STEPS_MAX:,}")
    return values


def _join(values: Iterable[object] | None, between: object = "", attribute: str = "") -> str:
    texts: list[str] = []
    size = 0
    for value in values or ():
        item = cast("Mapping[str, object]", value).get(attribute, "") if attribute else value
        texts.append(str(_text(item)))
        size += len(texts[-1]) + len(str(between))
        _limit(size)
    return str(between).join(texts)


def _replace(text: object, old: object, new: object, count: int = -1) -> str:
    source, part = str(_text(text)), str(old)
    _limit(len(source) + (len(source) + 1) * len(str(new)) // max(1, len(part)))
    return source.replace(part, str(new), count)


def _break_lines(text: object) -> str:
    _limit(6 * len(str(text)))
    return str(text).replace("\n", "<br />\n")


def _limit(size: int) -> None:
    if size > _OUTPUT_MAX:
        raise TemplateError(f"a text is longer than {_OUTPUT_MAX:,} characters")


def _dump(value: object, indent: int | None = None) -> str:
    separators = None if indent else (",", ":")
    return json.dumps(value, ensure_ascii=False, indent=indent, separators=separators, default=str)


def _text(value: object) -> object:
    """Convert a value to text as Nunjucks does, but objects to JSON, as in prompt files."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return _dump(dict(cast("Mapping[str, object]", value)))
    if isinstance(value, list):
        parts = cast("list[object]", value)
        plain = all(isinstance(part, str | int | float) for part in parts)
        return ",".join(str(_text(part)) for part in parts) if plain else _dump(parts)
    return value
