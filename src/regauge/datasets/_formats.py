"""Text formats of datasets, read strictly and with the line of every key: JSON Lines and YAML."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Final, cast

import yaml

from regauge.datasets._case import Record, Source, decode_line, decode_lines
from regauge.datasets._script import ToolResult, ToolResults, error_content, result_content
from regauge.files import BYTES_MAX, open_regular
from regauge.strict_json import (
    DuplicateKeyError,
    InvalidNumberError,
    read_json,
    refuse_constant,
    syntax_problem,
    unique,
)
from regauge.wording import closest, cut, did_you_mean
from regauge.yaml_document import (
    CONFLICT,
    RESOLVE,
    UNRESOLVED,
    Entries,
    NodeReader,
    YamlError,
    compose_document,
    line_of,
    scalar_tag,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from regauge.digests import JSON


_ENTRY_KEYS = ("args", "result", "error")
_ENTRY_FIX = "write `- args: {id: 7}` and `result: ...` below it, or `error`"


class _NotJSONError(ValueError):
    """The text is not JSON.

    Attributes:
        fix: Empty if no fix is known.
    """

    def __init__(self, message: str, fix: str = "") -> None:
        self.fix = fix
        super().__init__(message)


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise _NotJSONError(f"{digits} is too large a number", "write it as a text")
    return number


_FINITE: Final = "write a number, or null for none"
_decoder = json.JSONDecoder(
    object_pairs_hook=unique, parse_constant=refuse_constant, parse_float=_finite
)


def parse_json(text: str) -> object:
    """Read one JSON text.

    Raises:
        ValueError: The text is not JSON, a key is given twice, or a number is NaN or infinite; the
            message has the column if known.
    """
    try:
        value: object = _decoder.decode(text)
        if "\\u" in text:
            # An escape can spell half a surrogate pair, which nothing can send or store as UTF-8.
            json.dumps(value, ensure_ascii=False).encode()
    except _NotJSONError:
        raise
    except (ValueError, RecursionError) as error:
        raise _NotJSONError(*_explain(error)) from error
    return value


def _explain(error: Exception) -> tuple[str, str]:
    """The message and the fix for an error of a JSON parser."""
    match error:
        case json.JSONDecodeError():
            return f"not JSON: {syntax_problem(error).lower()} at column {error.colno}", ""
        case UnicodeEncodeError():
            problem = "a \\u escape spells half a character (a lone surrogate)"
            return problem, "write the character itself"
        case RecursionError():
            return "nested too deeply", "give it as a text"
        case DuplicateKeyError():
            return str(error), "keep one of the two"
        case InvalidNumberError():
            return str(error), _FINITE
        case _:
            return "a number has too many digits", "write it as a text"


# The first key of a line as we write it: a line of another shard is not parsed.
_FIRST_ID = re.compile(rb'\s*\{\s*"id"\s*:\s*"([A-Za-z0-9_.+/-]+)"\s*[,}]')
# A shard keeps no more than its own cases, so the file may be larger than memory.
_SHARDED_BYTES_MAX = 64 * BYTES_MAX


def read_jsonl(source: Source) -> Iterator[Record]:
    """Yield the records of a JSON Lines file; blank lines count as lines."""
    has_record = False
    size = BYTES_MAX if source.shard is None else _SHARDED_BYTES_MAX
    with open_regular(source.path, bytes_max=size) as file:
        # Only \n ends a line here: str.splitlines would also cut at characters that JSON allows
        # inside its strings, such as U+2028.
        for number, raw in enumerate(file, 1):
            if source.shard is not None and (first := _FIRST_ID.match(raw)) is not None:
                has_record = True
                if source.excludes(first[1].decode("ascii")):
                    continue
            line = decode_line(source, number, raw.removesuffix(b"\n"))
            if line is None:
                return
            if not line or line.isspace():
                continue
            if not has_record and line.lstrip().startswith("["):
                source.add_error(
                    1,
                    "this is a JSON array, not JSON Lines",
                    "write one object per line, without brackets around them and commas between"
                    " them",
                )
                return
            has_record = True
            yield from _record(source, number, line)


def _record(source: Source, number: int, line: str) -> Iterator[Record]:
    """Yield the record of a line; nothing, with an error added, if it is not an object."""
    try:
        value = parse_json(line)
    except _NotJSONError as error:
        if CONFLICT.match(line):
            source.add_error(number, UNRESOLVED, RESOLVE)
            return
        source.add_error(number, str(error), error.fix or _whole_line(source))
        try:
            # Python reads more than JSON has, so the rest of such a case can be checked too.
            value = read_json(line)
        except (ValueError, RecursionError):
            return
    if isinstance(value, dict):
        yield Record(line=number, values=cast("dict[str, object]", value))
    else:
        message = f"{source.record_noun} is a JSON object, not {json.dumps(value)[:40]}"
        source.add_error(number, message, _whole_line(source))


def _whole_line(source: Source) -> str:
    """The fix for a line that is not a record; empty if the file has that fix already."""
    fix = f'write {source.record_noun} as one {{"key": "value"}} object on a line of its own'
    return "" if any(diagnostic.fix == fix for diagnostic in source.diagnostics) else fix


# Plain words that YAML 1.1 turns into something else than they look like: no, on, 0755, 11:45.
_SURPRISES = {
    "bool": re.compile(r"(?!(?i:true|false)$)"),
    "int": re.compile(r"[-+]?0[0-9_]|.*[:_]"),
    "float": re.compile(r".*[:_]"),
}


class _Reader(NodeReader):
    """Reads values by the rules of YAML 1.1; a word that they change surprisingly is an error."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.source = source
        # The stubs of yaml leave the type of this method half unknown.
        constructor = yaml.constructor.SafeConstructor()
        self._construct = cast("Callable[[yaml.Node], object]", constructor.construct_document)  # pyright: ignore[reportUnknownMemberType]

    def add_error(self, node: yaml.Node, message: str, fix: str = "") -> None:
        """Add an error about a node."""
        self.source.add_error(line_of(node), message, fix)

    def entries(self, node: yaml.MappingNode, subject: str) -> Entries:
        """The entries of a mapping, whose keys must be texts."""
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and scalar_tag(key) not in {"str", "merge"}:
                self.add_error(key, f"the key {key.value!r} is not text", "put it in quotes")
        return super().entries(node, subject)

    def scalar(self, node: yaml.Node, subject: str) -> JSON:
        """The value of a scalar; None, with an error, for a surprising one or no JSON."""
        text, tag = str(node.value), scalar_tag(node)
        if tag == "str":
            return text
        if tag == "timestamp":
            self.add_error(node, f"{text} reads as a date in YAML", "put it in quotes")
            return None
        try:
            value = self._construct(node)
        except (yaml.YAMLError, ValueError, LookupError, AttributeError):
            # The error that yaml raises depends on how a value does not fit its tag.
            value = self
        if tag in _SURPRISES and value is not self and _SURPRISES[tag].match(text):
            problem = f"{text} reads as {json.dumps(value)} in YAML"
            self.add_error(node, problem, "put it in quotes")
        elif isinstance(value, float) and not math.isfinite(value):
            self.add_error(node, f"{text} is not a JSON number", _FINITE)
        elif value is None or isinstance(value, bool | int | float | str):
            return value
        else:
            message = f"{subject}: {text!r} with the tag {tag} has no JSON value"
            self.add_error(node, message, "remove the tag, or write a text")
        return None


def read_yaml(source: Source) -> list[Record]:
    """The records of a YAML file: one list of mappings."""
    reader, root = _compose(source)
    if root is None:
        return []
    if not isinstance(root, yaml.SequenceNode):
        problem = "a dataset in YAML is a list of cases"
        reader.add_error(root, problem, "start each case with `- id: ...`")
        return []
    records: list[Record] = []
    for node in root.value:
        if not isinstance(node, yaml.MappingNode):
            reader.add_error(
                node, "a case is a mapping with `id` and `inputs`", "start it with `- id: ...`"
            )
            continue
        entries = reader.entries(node, "a case")
        values = {name: reader.json(value, "a case") for name, (_, value) in entries.items()}
        lines = {name: line_of(key) for name, (key, _) in entries.items()}
        records.append(Record(line=line_of(node), values={**values}, lines=lines))
    return records


def _compose(source: Source) -> tuple[_Reader, yaml.Node | None]:
    """A reader and the root node of a YAML file; None, with errors added, if there is none."""
    reader = _Reader(source)
    text = decode_lines(source)
    if text is None:
        return reader, None
    try:
        return reader, compose_document(text, yaml.SafeLoader)
    except YamlError as error:
        source.add_error(error.line, str(error), error.fix)
        return reader, None


class ToolFiles:
    """Reads the files below `fixtures/tools`, each once.

    Args:
        fixtures_dir: The fixtures folder.
    """

    def __init__(self, fixtures_dir: Path) -> None:
        self._dir = fixtures_dir / "tools"
        self._loaded: dict[str, ToolResults | None] = {}

    def read(self, name: str, source: Source, line: int) -> ToolResults | None:
        """Read the results of a file; None, with errors added, if it cannot be used.

        Args:
            name: The file name without `.yml`.
            source: The dataset that names the file.
            line: The line of the name.
        """
        if name not in self._loaded:
            self._loaded[name] = self._load(name, source, line)
        return self._loaded[name]

    def _load(self, name: str, source: Source, line: int) -> ToolResults | None:
        place = f"{self._dir.parent.name}/{self._dir.name}/{name}.yml"
        path = self._dir / f"{name}.yml"
        if "/" in name or "\\" in name or name.startswith(".") or "\0" in name:
            source.add_error(line, f"tools is {name!r}", f"name a file of {self._dir.name}/")
            return None
        if not path.is_file():
            names = [path.stem for path in self._dir.glob("*.yml")]
            near = closest(name, names)
            fix = f"did you mean {near!r}?" if near else "write it: a list of results for each tool"
            source.add_error(line, f"tools: there is no file {place}", fix)
            return None
        file = Source(path=path, place=path.relative_to(self._dir.parents[1]))
        reader, root = _compose(file)
        tools: Entries = {}
        if isinstance(root, yaml.MappingNode):
            tools = reader.entries(root, "the file")
        elif root is not None:
            problem = "the file is not a mapping: results by tool"
            reader.add_error(root, problem, "write `lookup_order:` and a list")
        entries: dict[str, tuple[ToolResult, ...]] = {}
        functions: dict[str, str] = {}
        for tool, (key, node) in tools.items():
            value = reader.json(node, tool)
            function = value.get("function") if isinstance(value, dict) else None
            if isinstance(function, str) and ":" in function:
                functions[tool] = function
                continue
            if function is not None:
                fix = "write `function: module:name`, such as app.orders:lookup"
                reader.add_error(key, f"{tool}: {function!r} names no function", fix)
                continue
            entries[tool] = tuple(
                entry
                for item in (value if isinstance(value, list) else [value])
                if (entry := _entry(item, tool, file, line_of(key))) is not None
            )
        source.diagnostics.extend(file.diagnostics)
        if file.diagnostics:
            return None
        return ToolResults(name=name, entries=entries, functions=functions)


def _entry(item: JSON, tool: str, file: Source, line: int) -> ToolResult | None:
    """Read one result; None, with an error added, if it is invalid."""
    if item == "error":
        return ToolResult(args={}, content=error_content("the call failed"))
    if not isinstance(item, dict):
        fix = (did_you_mean(item, ["error"]) if isinstance(item, str) else "") or _ENTRY_FIX
        file.add_error(line, f"{tool}: {cut(repr(item), 60)} is not a result", fix)
        return None
    unknown = next((key for key in item if key not in _ENTRY_KEYS), None)
    args = item.get("args") or {}
    if unknown is not None:
        suggestion = did_you_mean(unknown, [*_ENTRY_KEYS, "function"])
        fix = suggestion or f"known keys: {', '.join(_ENTRY_KEYS)}"
        file.add_error(line, f"{tool}: an entry has no key {unknown!r}", fix)
    elif not {"result", "error"} & item.keys():
        file.add_error(line, f"{tool}: an entry has no `result`", _ENTRY_FIX)
    elif not isinstance(args, dict):
        file.add_error(line, f"{tool}: `args` is not a mapping of arguments to values", _ENTRY_FIX)
    elif {"result", "error"} <= item.keys():
        file.add_error(
            line, f"{tool}: an entry has both `result` and `error`", "remove one of them"
        )
    elif "error" in item:
        return ToolResult(args=args, content=error_content(str(item["error"])))
    else:
        return ToolResult(args=args, content=result_content(item["result"]))
    return None
