"""Text formats of datasets, read strictly and with the line of every key: JSON Lines and YAML."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, TypeVar, cast

import yaml

from regauge.datasets._case import Record, Source, decode_line, decode_lines
from regauge.datasets._script import ToolResult, ToolResults, error_content, result_content
from regauge.regular_file import BYTES_MAX, open_regular
from regauge.strict_json import (
    DuplicateKeyError,
    InvalidNumberError,
    read_json,
    refuse_constant,
    unique,
)
from regauge.wording import closest, cut, did_you_mean
from regauge.yaml_errors import explain_yaml_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from regauge.digests import JSON


_Values = TypeVar("_Values")
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
            return f"not JSON: {error.msg.lower()} at column {error.colno}", ""
        case UnicodeEncodeError():
            problem = "a \\u escape spells half a character (a lone surrogate)"
            return problem, "write the character itself"
        case RecursionError():
            return "nested too deeply", "give it as a text"
        case DuplicateKeyError():
            return str(error), "keep one of the two"
        case InvalidNumberError():
            return str(error), "write a number, or null for none"
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
    """Yield the record of a line; nothing, with an error added, if it is no object."""
    try:
        value = parse_json(line)
    except _NotJSONError as error:
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
    """The fix for a line that is no record; empty if the file has that fix already."""
    fix = f'write {source.record_noun} as one {{"key": "value"}} object on a line of its own'
    return "" if any(diagnostic.fix == fix for diagnostic in source.diagnostics) else fix


# Aliases of YAML grow exponentially; no dataset expands to as many values.
_NODES_MAX = 1_000_000
# Plain words that YAML 1.1 turns into something else than they look like: no, on, 0755, 11:45.
_SURPRISES = {
    "tag:yaml.org,2002:bool": re.compile(r"(?!(?i:true|false)$)"),
    "tag:yaml.org,2002:int": re.compile(r"[-+]?0[0-9_]|.*[:_]"),
    "tag:yaml.org,2002:float": re.compile(r".*[:_]"),
}
_COLLECTIONS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")
_MERGE = "tag:yaml.org,2002:merge"


class _Reader:
    """Turns nodes into JSON values; adds errors for values that JSON does not have."""

    def __init__(self, source: Source, loader: yaml.SafeLoader) -> None:
        self.source = source
        self._loader = loader
        self._open: set[int] = set()
        self._count = 0

    def value(self, node: yaml.Node) -> JSON:
        """The JSON value of a node; None, with an error added, if it has none."""
        self._count += 1
        if self._count > _NODES_MAX:
            raise yaml.YAMLError(f"aliases expand to more than {_NODES_MAX:,} values")
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if id(node) in self._open:
            self._add_error(node, "an alias contains itself")
            return None
        self._open.add(id(node))
        try:
            if node.tag not in _COLLECTIONS:
                self._add_error(node, f"the tag {node.tag} has no JSON value")
            elif isinstance(node, yaml.MappingNode):
                return {key: self.value(item) for key, item in self.pairs(node)}
            elif isinstance(node, yaml.SequenceNode):
                return [self.value(item) for item in node.value]
        finally:
            self._open.discard(id(node))
        return None

    def pairs(self, node: yaml.MappingNode) -> list[tuple[str, yaml.Node]]:
        """The keys and values of a mapping, merged ones first; repeated keys are errors."""
        own_keys: set[str] = set()
        merges = False
        for key, _ in node.value:
            if key.tag == _MERGE:
                merges = True
            elif key.tag != "tag:yaml.org,2002:str":
                key_text = key.value if isinstance(key, yaml.ScalarNode) else "this key"
                self._add_error(key, f"the key {key_text!r} is not text", "put it in quotes")
            elif key.value in own_keys:
                self._add_error(key, f"the key {key.value!r} is given twice")
            else:
                own_keys.add(key.value)
        if merges:
            self._loader.flatten_mapping(node)
        return [(key.value, item) for key, item in node.value if isinstance(key.value, str)]

    def _scalar(self, node: yaml.ScalarNode) -> JSON:
        text: str = node.value
        if node.tag == "tag:yaml.org,2002:timestamp":
            self._add_error(node, f"{text} reads as a date in YAML", "put it in quotes")
            return None
        try:
            value = self._construct(node)
        except (yaml.YAMLError, ValueError, LookupError, AttributeError):
            # The error that yaml raises depends on how a value does not fit its tag.
            self._add_error(node, f"{text!r} with the tag {node.tag} has no JSON value")
            return None
        surprise = _SURPRISES.get(node.tag)
        if surprise and surprise.match(text):
            self._add_error(
                node, f"{text} reads as {json.dumps(value)} in YAML", "put it in quotes"
            )
            return None
        if isinstance(value, float) and not math.isfinite(value):
            self._add_error(node, f"{text} is no JSON number")
            return None
        if value is None or isinstance(value, bool | int | float | str):
            return value
        self._add_error(node, f"{text!r} with the tag {node.tag} has no JSON value")
        return None

    def _construct(self, node: yaml.ScalarNode) -> object:
        # The stubs of yaml leave the type of this method half unknown.
        construct = cast("Callable[[yaml.Node], object]", self._loader.construct_object)  # pyright: ignore[reportUnknownMemberType]
        return construct(node)

    def _add_error(self, node: yaml.Node, message: str, fix: str = "") -> None:
        self.source.add_error(node.start_mark.line + 1, message, fix)


def read_yaml(source: Source) -> list[Record]:
    """The records of a YAML file: one list of mappings."""
    return _read(source, _records) or []


def _mapping(source: Source, content_noun: str, fix: str) -> tuple[dict[str, JSON], dict[str, int]]:
    """The values of a YAML file that is one mapping, and the lines of its keys.

    Args:
        source: The file.
        content_noun: The content of the file, in words.
        fix: The fix for a file that is no mapping.
    """
    lines: dict[str, int] = {}

    def values(reader: _Reader, root: yaml.Node) -> dict[str, JSON]:
        if not isinstance(root, yaml.MappingNode):
            source.add_error(
                root.start_mark.line + 1, f"the file is no mapping: {content_noun}", fix
            )
            return {}
        pairs = reader.pairs(root)
        lines.update({key.value: key.start_mark.line + 1 for key, _ in root.value})
        return {key: reader.value(item) for key, item in pairs}

    return _read(source, values) or {}, lines


def _read(source: Source, values: Callable[[_Reader, yaml.Node], _Values]) -> _Values | None:
    """The content of a YAML file; None, with errors added, if it is unreadable or empty."""
    text = decode_lines(source)
    if text is None:
        return None
    try:
        loader = yaml.SafeLoader(text)
        try:
            root = loader.get_single_node()
            return None if root is None else values(_Reader(source, loader), root)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        line, problem, fix = explain_yaml_error(error)
        source.add_error(line, f"not YAML: {problem}", fix)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        source.add_error(line, f"not YAML: the character {chr(error.character)!r} is not allowed")
    except yaml.YAMLError as error:
        source.add_error(None, str(error))
    except RecursionError:
        source.add_error(None, "nested too deeply")
    return None


def _records(reader: _Reader, root: yaml.Node) -> list[Record]:
    source = reader.source
    if not isinstance(root, yaml.SequenceNode):
        source.add_error(
            root.start_mark.line + 1,
            "a dataset in YAML is a list of cases",
            "start each case with `- id: ...`",
        )
        return []
    records: list[Record] = []
    for node in root.value:
        line: int = node.start_mark.line + 1
        if not isinstance(node, yaml.MappingNode):
            source.add_error(line, "a case is a mapping with `id` and `inputs`")
            continue
        lines = {
            key.value: key.start_mark.line + 1
            for key, _ in node.value
            if isinstance(key.value, str)
        }
        values: dict[str, object] = {key: reader.value(item) for key, item in reader.pairs(node)}
        records.append(Record(line=line, values=values, lines=lines))
    return records


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
        document, lines = _mapping(file, "results by tool", "write `lookup_order:` and a list")
        entries: dict[str, tuple[ToolResult, ...]] = {}
        functions: dict[str, str] = {}
        for tool, value in document.items():
            function = value.get("function") if isinstance(value, dict) else None
            if isinstance(function, str) and ":" in function:
                functions[tool] = function
                continue
            if function is not None:
                fix = "write `function: module:name`, such as app.orders:lookup"
                file.add_error(lines.get(tool), f"{tool}: {function!r} names no function", fix)
                continue
            entries[tool] = tuple(
                entry
                for item in (value if isinstance(value, list) else [value])
                if (entry := _entry(item, tool, file, lines.get(tool))) is not None
            )
        source.diagnostics += file.diagnostics
        if file.diagnostics:
            return None
        return ToolResults(name=name, entries=entries, functions=functions)


def _entry(item: JSON, tool: str, file: Source, line: int | None) -> ToolResult | None:
    """Read one result; None, with an error added, if it is invalid."""
    if item == "error":
        return ToolResult(args={}, content=error_content("the call failed"))
    if not isinstance(item, dict):
        fix = (did_you_mean(item, ["error"]) if isinstance(item, str) else "") or _ENTRY_FIX
        file.add_error(line, f"{tool}: {cut(repr(item), 60)} is no result", fix)
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
        file.add_error(line, f"{tool}: `args` is no mapping of arguments to values", _ENTRY_FIX)
    elif {"result", "error"} <= item.keys():
        file.add_error(
            line, f"{tool}: an entry has both `result` and `error`", "remove one of them"
        )
    elif "error" in item:
        return ToolResult(args=args, content=error_content(str(item["error"])))
    else:
        return ToolResult(args=args, content=result_content(item["result"]))
    return None
